"""Checks that what is no file is refused at once, by the function that opens files and by everything that reads one."""

import os
import socket
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from deploy.local.stacks import exclusive
from evaluator.datasets.elasticsearch_access import ElasticsearchAccess
from evaluator.datasets.text_files import HashedLines, sha256
from evaluator.errors import EvaluationError
from evaluator.experiments.experiment import read_settings
from evaluator.judging.judgment_log import JudgmentLog
from evaluator.judging.session import JudgingSession
from evaluator.judging.session_files import DocumentTexts
from evaluator.runs.answers import read_outcomes
from evaluator.runs.measurement_lock import is_measured, measuring
from evaluator.runs.run_folder import RunFolder, StepFile
from gateway.search.catalog import read_pipelines
from gateway.search.plan import PipelineError
from gateway.settings import DEFAULT_BACKENDS
from services.chassis.instruments import Instruments
from services.chassis.server.tls import Certificate
from services.chassis.settings.configuration import ConfigurationError
from services.chassis.settings.trust import caller_context
from services.files.regular_file import open_lock, read_regular
from services.inference.digests import file_sha256
from services.inference.profiles import ModelError, load_profiles
from services.inference.session import read_config
from services.keys.key_file import KeyFileError, read_keys
from services.keys.key_ring import KeyRing
from services.storage.edge_files import lock_directory, read_pointers
from tests.support.certificates import Certificates

REFUSALS = (OSError, ConfigurationError, EvaluationError, KeyFileError, PipelineError, ModelError)


def raised_within(work: Callable[[], object], seconds: float = 20.0) -> BaseException | None:
    """Returns what work raises. Fails where it hangs; its thread is left behind."""
    found: list[BaseException | None] = []

    def run() -> None:
        try:
            work()
        except Exception as error:
            found.append(error)
        else:
            found.append(None)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    assert found, "it hangs"
    return found[0]


@pytest.mark.parametrize("kind", ["pipe", "device", "socket", "folder", "loop", "nowhere", "link to a pipe", "large"])
def test_what_is_no_file_is_refused_at_once_and_named(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "thing"
    said = {"pipe": "named pipe", "link to a pipe": "named pipe", "device": "device", "socket": "socket"}.get(kind, "")
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "link to a pipe":
            os.mkfifo(tmp_path / "pipe")
            path.symlink_to("pipe")
        case "device":
            path.symlink_to("/dev/zero")
        case "socket":
            bound = socket.socket(socket.AF_UNIX)
            bound.bind(os.path.relpath(path))
            bound.close()
        case "folder":
            path.mkdir()
        case "loop":
            path.symlink_to("thing")
        case "nowhere":
            path.symlink_to("nothing")
        case "large":
            path.touch()
            os.truncate(path, 1 << 40)
            said = "bytes"
    error = raised_within(lambda: read_regular(path))
    assert isinstance(error, OSError)
    assert (error.filename, said in (error.strerror or "")) == (str(path), True)


def _pair(path: Path) -> Certificate:
    made = Certificates(path.parent).issue()
    return Certificate(path, made.key, ("CERT", "KEY"), Instruments())


READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "keys": ("keys.json", read_keys),
    "key ring": ("keys.json", KeyRing),
    "certificate": ("cert.pem", _pair),
    "authority": ("ca.pem", caller_context),
    "authority of Elasticsearch": ("ca.pem", lambda path: ElasticsearchAccess(ca_file=path).context()),
    "pipelines": ("a.yaml", lambda path: read_pipelines(path.parent, DEFAULT_BACKENDS)),
    "published": ("published.json", lambda path: read_pointers(path.parent)),
    "model": ("model.onnx", file_sha256),
    "models": ("models.yaml", load_profiles),
    "config": ("config.json", read_config),
    "step": ("report.json", lambda path: RunFolder(path.parent).read(path.name, StepFile)),
    "answers": ("answers.jsonl", lambda path: list(read_outcomes(path))),
    "hash": ("runs.trec", sha256),
    "dataset": ("corpus.jsonl", lambda path: list(HashedLines(path))),
    "packed dataset": ("corpus.jsonl.gz", lambda path: list(HashedLines(path))),
    "experiment": ("a.yaml", read_settings),
    "session": ("session.json", lambda path: JudgingSession(path.parent)),
    "texts": ("documents.jsonl", DocumentTexts),
    "judgments": ("ann.jsonl", lambda path: JudgmentLog(path.parent, "ann").standing()),
    "lock": (".measurement.lock", lambda path: is_measured(path.parent, "run")),
}


@pytest.mark.parametrize("reader", READERS)
def test_everything_that_reads_a_file_refuses_a_pipe_at_once(tmp_path: Path, reader: str) -> None:
    name, read = READERS[reader]
    os.mkfifo(tmp_path / name)
    assert isinstance(raised_within(lambda: read(tmp_path / name)), REFUSALS)


def enter(context: AbstractContextManager[object]) -> None:
    with context:
        pass


LOCKS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "any": ("lock", open_lock),
    "edge": (".lock", lambda path: lock_directory(path.parent)),
    "run": (".lock", lambda path: enter(RunFolder(path.parent).locked())),
    "measurement": (".measurement.lock", lambda path: enter(measuring(path.parent))),
    "stack": ("lock", lambda path: enter(exclusive(path.parent, "in use"))),
}


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_is_a_file_alone_and_anything_else_is_named_at_once(tmp_path: Path, lock: str) -> None:
    name, take = LOCKS[lock]
    (tmp_path / "experiment.json").touch()
    path = tmp_path / name
    for kind, put, remove in (
        ("a named pipe", os.mkfifo, Path.unlink),
        ("a device", lambda path: path.symlink_to("/dev/zero"), Path.unlink),
        ("Is a directory", Path.mkdir, Path.rmdir),
    ):
        put(path)
        error = raised_within(lambda: take(path))
        assert isinstance(error, OSError)
        assert (error.filename, kind in str(error)) == (str(path), True)
        remove(path)
    assert raised_within(lambda: take(path)) is None
