"""The documents tell the truth: settings, targets, stage kinds, endpoints and paths."""

import re
from pathlib import Path
from typing import get_args

import pytest
from fastapi import FastAPI

from evaluator.service.app import build_app as build_evaluator
from evaluator.settings import EvaluatorSettings
from gateway.app import build_app as build_gateway
from gateway.settings import GatewaySettings
from services.chassis.settings.configuration import variables
from services.chassis.settings.service_settings import ServiceSettings
from services.contracts.base import Wire
from services.contracts.pipelines import STAGE_MODELS
from services.dense.settings import DenseSettings
from services.late_interaction.settings import LateInteractionSettings
from services.lexical.settings import LexicalSettings
from services.reranker.settings import RerankerSettings
from services.sparse.settings import SparseSettings

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = (
    GatewaySettings,
    LexicalSettings,
    DenseSettings,
    SparseSettings,
    LateInteractionSettings,
    RerankerSettings,
    EvaluatorSettings,
)
DOCUMENTS = sorted(
    path
    for path in ROOT.rglob("*.md")
    if not any(part.startswith(".") for part in path.relative_to(ROOT).parts) and "models" not in path.parts
)


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda settings: settings.__module__)
def test_every_setting_is_in_the_example_and_describes_itself(settings: type[ServiceSettings]) -> None:
    listed = set(re.findall(r"^# ?([A-Z][A-Z_]+)=", text(".env.example"), re.MULTILINE))
    assert set(variables(settings)) <= listed
    assert all(field.description for field in settings.model_fields.values())


def test_the_example_lists_no_setting_that_does_not_exist() -> None:
    listed = set(re.findall(r"^# ?([A-Z][A-Z_]+)=", text(".env.example"), re.MULTILINE))
    assert listed <= {name for settings in SETTINGS for name in variables(settings)} | {
        "HF_ENDPOINT",
        "MAVEN_REPOSITORY",
    }


def test_every_target_is_documented_and_every_documented_target_exists() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):.*## ", text("Makefile"), re.MULTILINE))
    documented = text("README.md") + text("CONTRIBUTING.md")
    assert {target for target in targets if f"make {target}" not in documented} == set()
    for document in DOCUMENTS:
        named = set(re.findall(r"`make ([a-z0-9-]+)", document.read_text(encoding="utf-8")))
        assert named <= targets, document


@pytest.mark.parametrize("stage", STAGE_MODELS)
def test_every_stage_kind_and_every_field_of_it_is_in_the_readme_of_searching(stage: type[Wire]) -> None:
    readme = text("gateway/search/README.md")
    (kind,) = get_args(stage.model_fields["kind"].annotation)
    assert f"kind: {kind}" in readme
    assert {field for field in stage.model_fields if field != "kind" and f"`{field}`" not in readme} == set()


async def endpoints(app: FastAPI) -> set[tuple[str, str]]:
    async with app.router.lifespan_context(app):
        paths = app.openapi()["paths"]
    return {(method.upper(), path) for path, methods in paths.items() for method in methods}


async def test_every_route_of_the_gateway_is_in_its_readme_with_its_method() -> None:
    readme = text("gateway/README.md").replace("{c}", "{collection}")
    for method, path in await endpoints(build_gateway(GatewaySettings())):
        assert f"{method} {path}" in readme or (path in ("/livez", "/readyz", "/metrics") and path in readme)


async def test_every_route_of_the_evaluator_is_in_its_readme() -> None:
    readme = text("evaluator/service/README.md")
    for _, path in await endpoints(build_evaluator(EvaluatorSettings())):
        assert path in readme


# What commands write there, and git ignores.
WRITTEN = ("deploy/.secrets/",)


def test_every_path_that_a_document_names_exists() -> None:
    folders = ("services/", "gateway/", "evaluator/", "deploy/", "workshop/", "clients/", "k8s/", "tests/")
    for document in DOCUMENTS:
        for path in re.findall(r"`([\w./-]+)`", document.read_text(encoding="utf-8")):
            if path.startswith(folders) and path not in WRITTEN:
                assert (ROOT / path).exists(), f"{document.name} names {path}"


def test_nothing_refers_to_a_document_that_is_not_here() -> None:
    folders = ("services", "gateway", "evaluator", "deploy", "workshop", "clients", "k8s", "tests")
    sources = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    # What evaluations write, and a document of ONNX Runtime.
    here = {path.name for path in DOCUMENTS} | {
        "report.md",
        "analysis.md",
        "load.md",
        "attribution.md",
        "replay.md",
        "repeats.md",
        "summary.md",
        "ContribOperators.md",
    }
    for source in [*sources, *DOCUMENTS, ROOT / "pyproject.toml", ROOT / "Makefile"]:
        written = source.read_text(encoding="utf-8")
        absent = {name for name in re.findall(r"[\w-]+\.md\b", written) if name not in here}
        assert not absent, f"{source} names {absent}"
        assert not re.search(r"\bissue \d|\bstyle rule \d|\bmetrics-and-parity\b", written), source


def test_nothing_is_mocked() -> None:
    forbidden = "unittest" + ".mock"
    for module in (ROOT / "tests").rglob("*.py"):
        assert forbidden not in module.read_text(encoding="utf-8"), module


def test_no_text_of_a_public_collection_is_in_the_repository() -> None:
    datasets = ROOT.parent / "shared" / "datasets"
    if not datasets.is_dir():
        pytest.skip("../shared/datasets is not here")
    ours = "\n".join(
        path.read_text(encoding="utf-8", errors="ignore")
        for path in ROOT.rglob("*")
        if path.suffix in {".py", ".md", ".jsonl", ".json", ".yaml", ".tsv"}
        and not any(part.startswith(".") for part in path.relative_to(ROOT).parts)
    )
    for corpus in datasets.glob("*/corpus.jsonl"):
        for line in corpus.read_text(encoding="utf-8").splitlines()[::97]:
            match = re.search(r'"text": "(.{80})', line)
            assert match is None or match[1] not in ours, corpus
