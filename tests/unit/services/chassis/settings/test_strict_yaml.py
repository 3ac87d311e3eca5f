"""YAML that people write says one thing once, and is else as PyYAML's safe loader has it."""

from pathlib import Path

import pytest
import yaml

from deploy.audit import AuditProblem, read_accepted
from evaluator.errors import EvaluationError
from evaluator.experiments.suite import read_plan
from gateway.search.catalog import read_pipelines
from gateway.search.plan import PipelineError
from gateway.settings import BackendAddress
from services.chassis.settings.strict_yaml import InvalidYaml, StringsLoader, parse_yaml
from services.inference.profiles import ModelError, load_profiles

ROOT = Path(__file__).resolve().parents[5]
CODE = [file for folder in ("services", "gateway", "evaluator", "deploy") for file in (ROOT / folder).rglob("*.py")]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("top: 5\nname: a\ntop: 200\n", 3),
        ("a: {kind: retrieve, backend: lexical, top: 5, top: 200}", 1),
        ("yes: 1\ntrue: 2\n", 2),
        ('{"a": 1,\n "a": 1}', 2),
    ],
)
def test_a_key_that_stands_twice_is_refused_with_its_line(text: str, line: int) -> None:
    with pytest.raises(InvalidYaml, match=rf"^line {line}: "):
        parse_yaml(text)


@pytest.mark.parametrize(
    "text",
    [
        "base: &base {a: 1, b: 2}\nother: {<<: *base, a: 3}\nthird: {<<: *base}\n",
        "a: &a {x: 1}\nb: &b {<<: *a, x: 2, y: 3}\nc: {<<: [*a, *b], y: 4}\nd: {<<: *a, <<: *b}\n",
        "a: {x: 1}\nb: {x: 1}\n'1': a\n1: b\nnull: c\n2024-01-01: d\n? =\n: e\n",
        "- &key k\n- {*key : 1}\n- *key\n",
        "",
        "text",
    ],
)
def test_merge_keys_aliases_and_all_else_are_as_in_the_safe_loader(text: str) -> None:
    assert parse_yaml(text) == yaml.safe_load(text)


@pytest.mark.parametrize("text", ["a: [", "a: 2024-13-45", "[" * 1_000, "[a]: 1"])
def test_what_is_no_yaml_is_one_error_of_one_line(text: str) -> None:
    with pytest.raises(InvalidYaml) as refused:
        parse_yaml(text)
    assert "\n" not in str(refused.value)


def test_every_reader_of_yaml_names_the_file_and_the_line(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text("name: x\nname: x\n")
    backends = {"lexical": BackendAddress(family="lexical", url="http://lexical")}
    readers = (
        (lambda: read_pipelines(tmp_path, backends), PipelineError),
        (lambda: read_plan(file), EvaluationError),
        (lambda: load_profiles(file), ModelError),
        (lambda: read_accepted(file), AuditProblem),
    )
    for read, error in readers:
        with pytest.raises(error, match=r"x\.yaml.*line 2: .*'name'"):
            read()


def test_no_yaml_is_read_in_another_way() -> None:
    calls = [file for file in CODE if any(call in file.read_text() for call in ("safe_load", "yaml.load", "yaml.full"))]
    assert [file.name for file in calls] == ["strict_yaml.py"]


def test_scalars_may_stay_as_they_are_written() -> None:
    text = "a: yes\nb: [02139, 1.10, 2024-05-31, ~, !!int 7]\n<<: x\nc: {=: 1}\n"
    assert parse_yaml(text, StringsLoader) == {
        "a": "yes", "b": ["02139", "1.10", "2024-05-31", "~", "7"], "<<": "x", "c": {"=": "1"},
    }  # fmt: skip
    with pytest.raises(InvalidYaml, match="twice"):
        parse_yaml("a: 1\na: 2", StringsLoader)
