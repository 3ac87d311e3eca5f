"""A process that cannot start says why in one sentence on standard error, whichever it is."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.callers import wait_for
from tests.support.forks import Forks, forks

GATEWAY, LEXICAL, DENSE, SPARSE, LATE, RERANKER, EVALUATOR = (
    ("gateway",),
    ("services.lexical",),
    ("services.dense",),
    ("services.sparse",),
    ("services.late_interaction",),
    ("services.reranker",),
    ("evaluator", "serve"),
)


@pytest.fixture(scope="module")
def starting() -> Iterator[Forks]:
    with forks() as server:
        yield server


def refusal(starting: Forks, module: tuple[str, ...], given: dict[str, str]) -> str:
    """Starts a process with these settings; its standard error. It must end by itself, with status 1."""
    imports = "evaluator.service.app" if module == EVALUATOR else f"{module[0]}.app"
    done = starting.run(module, [imports], os.environ | given)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    return done.stderr


@pytest.mark.parametrize(
    ("module", "prefix"),
    [
        (GATEWAY, "GATEWAY"),
        (LEXICAL, "LEXICAL"),
        (DENSE, "DENSE"),
        (SPARSE, "SPARSE"),
        (LATE, "LATE_INTERACTION"),
        (RERANKER, "RERANKER"),
        (EVALUATOR, "EVALUATOR"),
    ],
)
def test_a_wrong_setting_is_one_sentence_that_names_the_variable(
    starting: Forks, module: tuple[str, ...], prefix: str
) -> None:
    said = refusal(starting, module, {f"{prefix}_PORT": "many"})
    assert said.startswith(f"{prefix.lower()}: cannot start: {prefix}_PORT: ")
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("module", "given", "told"),
    [
        (GATEWAY, {"GATEWAY_PIPELINES": "{path}"}, "mine.yaml: stage 'r': no backend 'lexcial'"),
        (GATEWAY, {"GATEWAY_PIPELINES": "{path}/none"}, "no pipeline (*.yaml) there"),
        (LEXICAL, {"LEXICAL_DIRECTORY": "{path}/mine.yaml"}, "mine.yaml"),
        (DENSE, {"DENSE_DIRECTORY": "{path}/mine.yaml", "DENSE_ENCODER": "hashing"}, "mine.yaml"),
        (DENSE, {"DENSE_DIRECTORY": "{path}/d", "DENSE_MODEL": "unheard-of"}, "unheard-of"),
        (SPARSE, {"SPARSE_DIRECTORY": "{path}/s", "SPARSE_MODEL": "unheard-of"}, "unheard-of"),
        (LATE, {"LATE_INTERACTION_DIRECTORY": "{path}/l", "LATE_INTERACTION_MODEL": "unheard-of"}, "unheard-of"),
        (RERANKER, {"RERANKER_MODEL": "unheard-of"}, "unheard-of"),
        (RERANKER, {"RERANKER_MODELS": "{path}"}, "{path}"),
    ],
)
def test_a_configuration_that_cannot_be_used_is_one_sentence(
    starting: Forks, module: tuple[str, ...], given: dict[str, str], told: str, tmp_path: Path
) -> None:
    (tmp_path / "mine.yaml").write_text("name: mine\nstages: [{kind: retrieve, id: r, backend: lexcial}]\n")
    said = refusal(
        starting, module, {name: value.format(path=tmp_path) for name, value in given.items()} | port(module)
    )
    assert said.startswith(f"{module[0].removeprefix('services.')}: cannot start: ")
    assert told.format(path=tmp_path) in said
    assert said.count("\n") == 1


def test_a_further_dense_service_has_settings_of_its_own(starting: Forks, tmp_path: Path) -> None:
    own = {"DENSE_BGE_DIRECTORY": str(tmp_path), "DENSE_BGE_PORT": "0", "DENSE_BGE_MODEL": "unheard-of"}
    said = refusal(starting, (*DENSE, "dense_bge"), {"DENSE_MODEL": "another", **own})
    assert said.startswith("dense_bge: cannot start: ")
    assert "unheard-of" in said
    assert "no service bge; take dense or dense_bge or dense_e5" in refusal(starting, (*DENSE, "bge"), {})


def port(module: tuple[str, ...]) -> dict[str, str]:
    """One that is free, should the process start after all."""
    return {f"{module[0].removeprefix('services.').upper()}_PORT": "0"}


@pytest.mark.parametrize("drains", [False, True])
def test_ctrl_c_ends_a_process_at_once_and_without_a_traceback(tmp_path: Path, drains: bool) -> None:
    given = {"LEXICAL_PORT": "0", "LEXICAL_DIRECTORY": str(tmp_path), "LEXICAL_DRAIN_S": "600"}
    command = [sys.executable, "-m", *LEXICAL]
    with subprocess.Popen(command, env=os.environ | given, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        listening = next(json.loads(line)["message"] for line in process.stdout if b"listening on" in line)
        if drains:
            process.send_signal(signal.SIGTERM)
            probe = listening.removeprefix("listening on ") + "/readyz"
            wait_for(lambda: "draining" in httpx.get(probe, trust_env=False).text, within_s=30.0)
        process.send_signal(signal.SIGINT)
        assert (process.communicate(timeout=60)[1], process.returncode) == (b"", 130)
