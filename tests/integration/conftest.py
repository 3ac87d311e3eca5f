"""The servers that integration tests share, one of each a session; and a browser."""

import os
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from deploy.elasticsearch.problem import SetupProblem
from tests.support import secured
from tests.support.browser_pages import opened_browser
from tests.support.elasticsearch_server import running_elasticsearch, temporary_server


@pytest.fixture(scope="session")
def elasticsearch_url() -> Iterator[str]:
    """A healthy Elasticsearch: ELASTICSEARCH_URL, else one that is started for this session and ended with it.

    In the secure mode it has TLS and a key, which are in the environment as the lexical service reads them.
    """
    try:
        if secured.mode() is None or os.environ.get("ELASTICSEARCH_URL"):
            with running_elasticsearch() as url:
                assert url.startswith(secured.scheme()), f"ELASTICSEARCH_URL={url}: TESTS_SECURE=1 needs https://"
                yield url
        else:
            with temporary_server(secured=True) as endpoint, pytest.MonkeyPatch.context() as environment:
                environment.setenv("ELASTICSEARCH_API_KEY", str(endpoint.api_key))
                environment.setenv("ELASTICSEARCH_CA_FILE", str(endpoint.ca_file))
                yield endpoint.url
    except SetupProblem as problem:
        pytest.skip(str(problem))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with opened_browser() as browser:
        yield browser
