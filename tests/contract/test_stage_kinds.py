"""A stage kind is added by the edits that ARCHITECTURE.md names, in a copy; the type checker finds what is missing."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import ROOT

MODEL = """class Toy(Wire):
    kind: Literal["toy"]
    id: StageId | None = None


"""
CASE = """        case Toy():
            return PlannedStage(identified.id, _reversed)
        case Cut() as stage:
"""
FUNCTION = """

async def _reversed(_context: WalkContext, before: Walked, _later: float) -> Walked:
    scores = [one.score for one in before.ranking]
    ids = [one.id for one in reversed(before.ranking)]
    return replace(before, ranking=tuple(Scored(*one) for one in zip(ids, scores, strict=True)))
"""
SEARCH = """
import asyncio, json
from tests.support.backends import opened_stack

async def main():
    async with opened_stack() as stack:
        for stages in ([], [{"kind": "toy"}]):
            pipeline = {"name": "mine", "stages": [{"kind": "retrieve", "backend": "dense"}, *stages]}
            body = (await stack.search("fruit trees", pipeline, explain=True)).json()
            print(json.dumps([body["hits"], body["degraded"], sorted(body["timings_ms"])]))

asyncio.run(main())
"""

REPLAYED = tuple(f"evaluator/replay/{name}.py" for name in ("replayed", "tuning_page"))


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The code that a stage kind concerns, to be edited."""
    for folder in ("services", "gateway", "evaluator", "clients/python", "tests/support"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "tests/__init__.py"):
        shutil.copy(ROOT / file, tmp_path / file)
    return tmp_path


def edit(file: Path, *changes: tuple[str, str]) -> None:
    text = file.read_text(encoding="utf-8")
    for old, new in changes:
        assert text.count(old) == 1, f"{old!r} in {file}"
        text = text.replace(old, new)
    file.write_text(text, encoding="utf-8")


def add_model(copy: Path, union: str) -> None:
    edit(
        copy / "services/contracts/pipelines.py",
        ("SourceStage = ", f"{MODEL}SourceStage = "),
        (f"\n{union} = ", f"\n{union} = Toy | "),
    )


def run(copy: Path, *arguments: str) -> str:
    done = subprocess.run([sys.executable, *arguments], cwd=copy, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_a_new_kind_is_one_model_and_one_case(copy: Path) -> None:
    add_model(copy, "LaterStage")
    edit(
        copy / "gateway/search/plan.py",
        ("        case Cut() as stage:\n", CASE),
        ("    SourceStage,\n", "    SourceStage,\n    Toy,\n"),
        ("\n# A pipeline is data", "from services.ranking.fusion import Scored\n\n# A pipeline is data"),
    )
    with (copy / "gateway/search/plan.py").open("a", encoding="utf-8") as plan:
        plan.write(FUNCTION)
    plain, toy = (json.loads(line) for line in run(copy, "-c", SEARCH).splitlines() if line.startswith("[["))
    assert [hit["id"] for hit in toy[0]] == [hit["id"] for hit in reversed(plain[0])]
    assert toy[0][0]["stages"]["toy-2"] == {"rank": 1, "score": plain[0][0]["score"]}
    # Parts that services report have a dot.
    assert (toy[1], [name for name in toy[2] if "." not in name]) == ([], ["retrieve-1", "total", "toy-2"])


@pytest.mark.integration  # mypy takes 11 s
@pytest.mark.parametrize(
    ("union", "files"),
    [
        ("LaterStage", {"gateway/search/plan.py", "evaluator/attribution/losses.py", *REPLAYED}),
        (
            "SourceStage",
            {"gateway/search/plan.py", "services/contracts/pipelines.py", "evaluator/steps/arms.py", *REPLAYED},
        ),
    ],
)
def test_every_file_that_lacks_the_case_is_named_by_the_type_checker(copy: Path, union: str, files: set[str]) -> None:
    add_model(copy, union)
    said = run(copy, "-m", "mypy", "gateway", "evaluator", "services/contracts", "--cache-dir", str(copy / ".mypy"))
    assert set(re.findall(r"^(\S+):\d+: error: Argument 1 to \"assert_never\"", said, re.MULTILINE)) == files
    assert set(re.findall(r"^(\S+):\d+: error: ", said, re.MULTILINE)) == files
