"""`make up` and `make down` in a clone of this checkout: real processes, supervised, on free ports."""

import os
import shutil
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local.choices import ROOT
from tests.clone import Clone

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clone]:
    if not Path("/proc/self").exists() or not (ROOT / ".models").is_dir():
        pytest.skip("needs /proc and the models that `make models` fetches")
    clone = Clone(tmp_path_factory.mktemp("clone"))
    yield clone
    clone.local("down")


def test_a_stack_comes_up_searchable_restarts_its_dead_and_keeps_what_it_serves(clone: Clone) -> None:
    up = clone.local("up")
    assert up.returncode == 0, up.stdout + up.stderr
    before = clone.search("hybrid-rerank")
    assert before["degraded"] == []

    assert clone.local("up").returncode == 0  # again changes nothing
    other = clone.local("up", LEXICAL="elasticsearch")
    assert (other.returncode, "make down" in other.stderr) == (1, True)

    old = clone.pid("gateway")
    os.kill(old, signal.SIGKILL)
    last = time.monotonic() + 30
    while True:
        try:
            assert clone.search("hybrid-rerank")["hits"] == before["hits"]
            break
        except OSError:
            assert time.monotonic() < last
            time.sleep(0.2)
    assert clone.pid("gateway") != old

    assert clone.local("down").returncode == 0
    with pytest.raises(OSError, match="refused"):
        clone.search("bm25")
    again = clone.local("up")
    assert again.returncode == 0, again.stdout + again.stderr
    assert clone.search("hybrid-rerank")["hits"] == before["hits"]
    assert clone.local("down").returncode == 0


def test_a_port_in_use_is_named_and_nothing_is_started(clone: Clone) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        refused = clone.local("up", LEXICAL_PORT=str(taken.getsockname()[1]))
    assert refused.returncode == 1
    assert "LEXICAL_PORT" in refused.stderr
    with pytest.raises(OSError, match="refused"):
        clone.search("bm25")


def test_qdrant_without_its_address_is_one_sentence(clone: Clone) -> None:
    refused = clone.local("up", DENSE="qdrant", QDRANT_URL="")
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    assert "QDRANT_URL" in refused.stderr


def test_elasticsearch_without_java_is_one_sentence(clone: Clone, tmp_path: Path) -> None:
    for tool in ("git", "sh"):
        found = shutil.which(tool)
        assert found is not None
        (tmp_path / tool).symlink_to(found)
    refused = clone.local("up", LEXICAL="elasticsearch", ELASTICSEARCH_URL="", PATH=str(tmp_path), JAVA_HOME="")
    assert refused.returncode == 1
    assert "JDK" in refused.stderr
    assert "nothing was started" in refused.stderr
