"""Starts a real Elasticsearch for a block, on data of its own, or takes the one that ELASTICSEARCH_URL names."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deploy.elasticsearch.account import substitute_directory
from deploy.elasticsearch.endpoint import Endpoint
from deploy.elasticsearch.install import install
from deploy.elasticsearch.problem import SetupProblem
from deploy.elasticsearch.server import say, start_server


@contextmanager
def running_elasticsearch() -> Iterator[str]:
    """Yields the URL of a healthy server: ELASTICSEARCH_URL, else a temporary one."""
    named = os.environ.get("ELASTICSEARCH_URL")
    if named:
        yield named.rstrip("/")
    else:
        with temporary_server() as endpoint:
            yield endpoint.url


@contextmanager
def temporary_server(secured: bool = False) -> Iterator[Endpoint]:
    """Yields a healthy server on a free port; removes its data at the end. Enter it in the main thread."""
    installation = install(say)
    with tempfile.TemporaryDirectory(prefix="elasticsearch-") as temporary:
        data = Path(temporary)
        data.chmod(0o755)  # the server's user has to pass through it
        log = data / "server.log"
        with log.open("wb") as output:
            server = start_server(installation, data, secured=secured, output=output)
        try:
            yield server.wait_until_healthy()
        except SetupProblem as problem:
            written = log.read_text(encoding="utf-8", errors="replace")
            raise SetupProblem(f"{problem} Its last words:\n{written[-3000:]}") from None
        finally:
            server.stop()
            shutil.rmtree(substitute_directory(data), ignore_errors=True)  # exists where TMPDIR is private to root
