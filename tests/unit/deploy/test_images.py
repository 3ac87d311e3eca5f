"""deploy/Dockerfile, deploy/deployables.py and deploy/image.py agree with the code and with one another."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from deploy.deployables import DEPLOYABLES, Deployable
from deploy.image import LOCKS, copy_code, locked_requirement
from tests.support.images import (
    OURS,
    ROOT,
    WORKSHOP,
    Instruction,
    build_context,
    container_environment,
    imported_files,
    settings_of,
    stage,
)

ALL = pytest.mark.parametrize("deployable", DEPLOYABLES.values(), ids=DEPLOYABLES)


@ALL
def test_an_image_holds_what_its_code_imports_and_no_other_folder(deployable: Deployable) -> None:
    reached = {file.relative_to(ROOT).as_posix() for file in imported_files(deployable)}
    held = [path for path in deployable.paths if path != "deploy/probe.py" and not path.endswith(".yaml")]

    def holds(path: str, file: str) -> bool:
        return file == path or file.startswith(f"{path}/")

    assert [file for file in sorted(reached) if not any(holds(path, file) for path in held)] == []
    assert [path for path in held if path != "services/__init__.py" and not any(holds(path, f) for f in reached)] == []


@ALL
def test_no_image_imports_the_workshop(deployable: Deployable) -> None:
    assert {file for file in imported_files(deployable) if file.is_relative_to(ROOT / WORKSHOP)} == set()


@ALL
def test_no_image_imports_what_builds_or_rewrites_a_model(deployable: Deployable) -> None:
    """With no module of `deploy` none of onnx either: the contracts of pyproject.toml forbid it everywhere else."""
    assert {file for file in imported_files(deployable) if file.is_relative_to(ROOT / "deploy")} == set()


@ALL
def test_no_image_installs_what_builds_or_rewrites_a_model(deployable: Deployable) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert {re.split(r"[^\w-]", asked)[0] for asked in extras[deployable.extra]} & {"onnx", "safetensors"} == set()
    # The images on a GPU have a lock of their own, of services alone.
    assert re.findall(r"^(?:onnx|ml-dtypes|safetensors)==", LOCKS["gpu"].read_text("utf-8"), re.MULTILINE) == []


@ALL
def test_the_copied_code_has_no_tests_no_tools_and_no_weights(deployable: Deployable, tmp_path: Path) -> None:
    copy_code(deployable, tmp_path)
    copied = {file.relative_to(tmp_path).parts[0] for file in tmp_path.rglob("*") if file.is_file()}
    assert copied <= ({*OURS} if deployable.name == "evaluator" else {*OURS} - {"clients"})
    assert sorted(file.name for file in (tmp_path / "deploy").rglob("*") if file.is_file()) == (
        ["models.yaml", "probe.py"] if deployable.models or deployable.name == "evaluator" else ["probe.py"]
    )


@ALL
def test_an_image_starts_its_own_process_on_its_own_port(deployable: Deployable) -> None:
    steps = stage(deployable.name)
    assert Instruction("CMD", json.dumps(deployable.command)) in steps
    assert Instruction("EXPOSE", str(deployable.port)) in steps
    environment = container_environment(deployable.name)
    assert environment["PROBE_PORT"] == str(deployable.port)
    # Others reach it there, so it does not start without knowing its callers.
    settings = settings_of(deployable, {**environment, "STACK_TOKEN": "the-token-of-the-containers"})
    assert (settings.port, settings.host) == (deployable.port, "0.0.0.0")


def test_an_image_runs_as_nobody_in_particular_and_watches_livez() -> None:
    steps = stage("runtime")
    assert Instruction("USER", "10001:10001") in steps
    (health,) = [step.words for step in steps if step.name == "HEALTHCHECK"]
    assert health.endswith('CMD ["python", "/app/deploy/probe.py", "/livez"]')
    assert container_environment("runtime")["HF_HUB_OFFLINE"] == "1"


def test_the_last_stage_is_the_deployable_that_was_asked_for() -> None:
    assert stage("image")[0] == Instruction("FROM", "${DEPLOYABLE} AS image")


def test_the_steps_of_the_build_are_those_that_the_tests_replay() -> None:
    run = " ".join(step.words for name in ("environment", "models", "code") for step in stage(name))
    assert re.findall(r"python -m deploy\.image (\w+) \"\$\{DEPLOYABLE\}\" (\S+)", run) == [
        ("environment", "/venv"),
        ("models", "/models"),
        ("code", "/app"),
    ]


def test_a_build_sees_nothing_but_code_and_locks() -> None:
    seen, not_seen = build_context()
    assert set(seen) == {"pyproject.toml", "requirements.lock", *OURS}
    assert set(not_seen) == {"**/__pycache__", "**/.env", "**/.secrets"}


def test_both_locks_hold_the_same_versions_of_what_both_have() -> None:
    cpu, gpu = (
        dict(re.findall(r"^(\S+)==(\S+)", lock.read_text("utf-8"), re.MULTILINE))
        for lock in (LOCKS["cpu"], LOCKS["gpu"])
    )
    assert {name for name in cpu.keys() & gpu.keys() if cpu[name] != gpu[name]} == set()
    assert gpu.keys() - cpu.keys() >= {"onnxruntime-gpu"}
    assert "onnxruntime" not in gpu


def test_a_pinned_tool_comes_with_its_hashes() -> None:
    assert re.match(r"uv==[0-9.]+ \\\n    --hash=sha256:[0-9a-f]{64}", locked_requirement("uv"))
    with pytest.raises(SystemExit, match=r"requirements\.lock"):
        locked_requirement("nothing")
