"""The servers that integration tests share: one of each a session."""

from collections.abc import Iterator

import pytest

from deploy.elasticsearch.problem import SetupProblem
from deploy.elasticsearch.server import running_elasticsearch


@pytest.fixture(scope="session")
def elasticsearch_url() -> Iterator[str]:
    """A healthy Elasticsearch: ELASTICSEARCH_URL, else one that is started for this session and ended with it."""
    try:
        with running_elasticsearch() as url:
            yield url
    except SetupProblem as problem:
        pytest.skip(str(problem))
