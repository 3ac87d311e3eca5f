"""The models that a stack serves: as the environment says, else in the precision of its vectors, else of the CPU."""

import asyncio
from pathlib import Path

import pytest

from deploy.local.__main__ import notices
from deploy.local.choices import Choices, choose
from deploy.local.problem import StackProblem
from deploy.local.served_models import with_models
from deploy.local.stacks import Stack, expect_same_settings, write_digests
from services.contracts.collections import CollectionDeclaration
from services.dense.settings import DenseSettings
from services.storage.representation import Dense
from services.vectorservice.compose import open_store
from services.vectorstore.store import GenerationSpec

VNNI, AVX2 = "flags\t\t: avx2 avx512_vnni\n", "flags\t\t: avx2\n"
FP32 = {"DENSE_MODEL": "all-MiniLM-L6-v2", "RERANKER_MODEL": "minilm-l6-ce-v4"}
INT8 = {"DENSE_MODEL": "all-MiniLM-L6-v2-int8", "RERANKER_MODEL": "minilm-l6-ce-v4-int8"}
pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect")


def chosen(environment: dict[str, str], directory: Path, cpuinfo: str = VNNI) -> Choices:
    return with_models(choose(environment, directory, own_ports=True), environment, cpuinfo)


def models(choices: Choices) -> dict[str, str]:
    told = choices.environment()
    return {name: told[name] for name in FP32 if name in told}


def load(directory: Path, generation: str, model: str) -> None:
    """Begins a generation with the stamp of a model, as a dense service of this stack does."""
    settings = DenseSettings(store="edge", directory=directory / "dense")

    async def begun() -> None:
        store = open_store(settings)
        await store.create(GenerationSpec(generation, Dense(4), {"model": model}, CollectionDeclaration()))
        await store.close()

    asyncio.run(begun())


@pytest.mark.parametrize(("cpuinfo", "served"), [(VNNI, INT8), (AVX2, FP32), ("", FP32)])
def test_without_vectors_the_cpu_decides_and_a_line_says_so(
    tmp_path: Path, cpuinfo: str, served: dict[str, str]
) -> None:
    choices = chosen({}, tmp_path, cpuinfo)
    assert models(choices) == served
    assert next(iter(notices(choices))).startswith("Encoders and re-ranker in ")


@pytest.mark.parametrize(("made", "cpuinfo"), [(FP32, AVX2), (FP32, VNNI), (INT8, VNNI)])
def test_vectors_that_are_there_keep_their_precision(tmp_path: Path, made: dict[str, str], cpuinfo: str) -> None:
    load(tmp_path, "notes@1", made["DENSE_MODEL"])
    assert models(chosen({}, tmp_path, cpuinfo)) == made


def test_vectors_in_int8_on_a_cpu_without_it_are_refused_with_both_ways_on(tmp_path: Path) -> None:
    load(tmp_path, "notes@1", INT8["DENSE_MODEL"])
    with pytest.raises(StackProblem, match=r"all-MiniLM-L6-v2-int8 made the vectors in .* PRECISION=int8 searches"):
        chosen({}, tmp_path, AVX2)
    forced = chosen({"PRECISION": "int8"}, tmp_path, AVX2)
    assert models(forced) == INT8
    assert "may overflow" in forced.precision


@pytest.mark.parametrize(("asked", "made"), [("int8", FP32), ("fp32", INT8)])
def test_a_precision_that_would_refuse_the_vectors_is_refused_before_the_start(
    tmp_path: Path, asked: str, made: dict[str, str]
) -> None:
    load(tmp_path, "notes@1", made["DENSE_MODEL"])
    with pytest.raises(StackProblem, match=f"PRECISION={asked}, but {made['DENSE_MODEL']} made the vectors in"):
        chosen({"PRECISION": asked}, tmp_path)


def test_vectors_of_other_models_and_of_each_precision_leave_the_choice_open(tmp_path: Path) -> None:
    load(tmp_path, "notes@1", "bge-small-en-v1.5")
    assert models(chosen({}, tmp_path)) == INT8
    for number, made in enumerate((FP32, INT8), start=2):
        load(tmp_path, f"notes@{number}", made["DENSE_MODEL"])
    assert models(chosen({}, tmp_path)) == INT8
    assert models(chosen({"PRECISION": "fp32"}, tmp_path)) == FP32


def test_a_model_that_is_named_goes_first_and_the_other_follows_the_cpu(tmp_path: Path) -> None:
    load(tmp_path, "notes@1", FP32["DENSE_MODEL"])
    assert models(chosen({"DENSE_MODEL": "e5-small-v2"}, tmp_path)) == {"RERANKER_MODEL": INT8["RERANKER_MODEL"]}
    assert models(chosen({"RERANKER_MODEL": "minilm-l6-ce-v1"}, tmp_path)) == {"DENSE_MODEL": FP32["DENSE_MODEL"]}
    without = {"DENSE_ENCODER": "hashing", "RERANKER_SCORER": "overlap", "SYSTEMS": "none"}
    assert chosen(without, tmp_path).precision == ""


def test_a_gpu_or_an_api_keeps_the_model_of_the_settings(tmp_path: Path) -> None:
    for elsewhere in ({"RERANKER_DEVICE": "cuda"}, {"RERANKER_SCORER": "cohere"}):
        assert models(chosen(elsewhere, tmp_path)) == {"DENSE_MODEL": INT8["DENSE_MODEL"]}


def test_a_second_start_takes_the_models_of_the_first_whatever_the_variable_was(tmp_path: Path) -> None:
    given = {"PRECISION": "fp32"}
    write_digests(with_models(choose(given, tmp_path, own_ports=False), given, VNNI), given)
    load(tmp_path, "demo@1", FP32["DENSE_MODEL"])
    expect_same_settings(with_models(choose({}, tmp_path, own_ports=False), {}, VNNI), {}, Stack(""))
