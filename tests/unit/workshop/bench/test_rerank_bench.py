"""The bench of the re-ranker: its statistics, its file, its lists, and one small run with ours alone."""

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper
from pydantic import ValidationError
from safetensors.numpy import load_file

from services.inference.model_tokenizer import ModelTokenizer
from services.inference.profiles import CHECKPOINT, CONFIG, MODELS_FILE, TOKENIZER, ModelError, load_cross_encoder
from tests.support.models import CROSS_ENCODER, fetched
from workshop.bench.__main__ import BenchArguments, bench, why_no_int8
from workshop.bench.analysis import (
    HTTP,
    INT8,
    OURS,
    SESSION,
    analyse,
    bootstrap_interval,
    padding_ratio,
    paired_ratio,
    score_difference,
)
from workshop.bench.candidate_lists import PAIR_TOKENS, SCIFACT, Bm25, ListSampling, draw_lists
from workshop.bench.contender_setup import service_environment
from workshop.bench.memory import MemoryLoad, PairTexts, measure_memory
from workshop.bench.plain_model import dequantised, make_plain_model
from workshop.bench.report import (
    BenchReport,
    BenchTurn,
    ListStatistics,
    ReportError,
    bench_environment,
    read_report,
    write_report,
)
from workshop.bench.service_process import ServiceProcess
from workshop.bench.table import memory_lines, render_table

SET = ListStatistics(lists=1, pairs=10, mean_tokens=80, p95_tokens=90, most_tokens=99, padding=1.5)


def turn(number: int, contender: str, cpu_s: float, wall_s: float) -> BenchTurn:
    return BenchTurn(
        round=number, set="short", contender=contender, cpu_s=(cpu_s,), wall_s=(wall_s,), foreign=0.0, quiet=True
    )


@pytest.fixture
def measured() -> BenchReport:
    """Three rounds in which a peer costs 2, 3 and 4 times ours, and int8 a half."""
    turns = []
    for number, times in enumerate((2.0, 3.0, 4.0)):
        turns += [turn(number, OURS, 1.0, 0.5), turn(number, "peer", times, times), turn(number, INT8, 0.5, 0.25)]
        turns += [turn(number, SESSION, 1.0, 0.45), turn(number, HTTP, 1.0, 0.5)]
    return BenchReport(
        made=bench_environment(), sets={"short": SET}, largest_difference={"peer": 1e-6, HTTP: 0.0}, turns=tuple(turns)
    )


def test_the_interval_of_equal_rounds_is_a_point_and_of_others_lies_within_them():
    assert bootstrap_interval([2.0] * 5).model_dump() == {"median": 2.0, "low": 2.0, "high": 2.0}
    found = bootstrap_interval([1.0, 2.0, 3.0, 4.0, 10.0])
    assert found.median == 3.0
    assert 1.0 <= found.low < 3.0 < found.high <= 10.0
    assert found == bootstrap_interval([1.0, 2.0, 3.0, 4.0, 10.0])


def test_ratios_are_taken_within_a_round():
    assert paired_ratio([2.0, 20.0, 200.0], [1.0, 10.0, 100.0]).high == 2.0
    with pytest.raises(ValueError, match="zip"):
        paired_ratio([1.0], [1.0, 2.0])


def test_padding_is_counted_a_batch_in_the_order_given():
    assert padding_ratio([[10, 10, 10, 10]], rows=2) == 1.0
    assert padding_ratio([[10, 30, 10, 30]], rows=2) == 1.5


def test_a_missing_score_is_no_equal_score():
    assert score_difference([[1.0, 2.0]], [[1.0, 2.5]]) == 0.5
    with pytest.raises(ValueError, match="zip"):
        score_difference([[1.0]], [[1.0, 2.0]])


def test_what_follows_from_the_turns_is_where_readers_look_for_it(measured):
    dumped = analyse(measured, "served", "small", None).model_dump()
    assert dumped["ratios"]["peer"]["short"]["cpu"]["median"] == 3.0
    assert dumped["ratios"]["peer"]["short"]["wall"]["median"] == 6.0
    assert dumped["ratios"]["int8_over_fp32"]["median"] == 2.0
    assert dumped["http"]["share"]["short"]["median"] == pytest.approx(0.9)


def test_nothing_is_said_of_the_cost_of_other_scores(measured):
    wrong = measured.model_copy(update={"largest_difference": {"peer": 1e-4, HTTP: 1.0}})
    found = analyse(wrong, "served", None, "no reason")
    assert found.ratios == {"int8_over_fp32": None}
    assert found.http is None
    assert "the scores of peer are off by 1.0e-04" in render_table(found)


def test_without_an_int8_model_the_report_says_why(measured):
    found = analyse(measured, "served", None, why_no_int8(CROSS_ENCODER))
    assert found.ratios["int8_over_fp32"] is None
    assert "declares int8-weights" in render_table(found)


def test_the_file_is_read_back_as_it_was_written_and_another_version_is_refused(measured, tmp_path):
    path = tmp_path / "runs" / "bench.json"
    assert read_report(path) is None
    report = analyse(measured, "served", "small", None)
    write_report(report, path)
    assert read_report(path) == report
    with pytest.raises(ValidationError):
        BenchReport.model_validate(report.model_dump() | {"version": 2})
    path.write_text("{}")
    with pytest.raises(ReportError, match="make bench-rerank"):
        read_report(path)


def test_a_drawn_list_has_the_lengths_that_it_was_drawn_with():
    tokens = ModelTokenizer(fetched(CROSS_ENCODER) / TOKENIZER, 512)
    for name, (mean, _) in PAIR_TOKENS.items():
        lists = draw_lists(name, ListSampling(2, 100, 0), 512, tokens)
        lengths = [
            len(tokens.pair(*tokens.ids([each.query, passage])).ids) for each in lists for passage in each.passages
        ]
        assert np.mean(lengths) == pytest.approx(mean, rel=0.12)
        assert max(lengths) <= 512
    assert draw_lists("short", ListSampling(1, 3, 0), 512, tokens) == draw_lists(
        "short", ListSampling(1, 3, 0), 512, tokens
    )


def test_bm25_finds_the_rare_word_first():
    assert Bm25(["the chain", "the wheel", "the chain the wheel spoke"]).top("the spoke", 2)[0] == 2


def test_a_dequantised_graph_gives_what_its_own_nodes_give():
    weight = np.arange(-6, 6, dtype=np.int8).reshape(3, 4)
    nodes = [
        helper.make_node("DequantizeLinear", ["w_q", "w_s", "w_z"], ["w"], axis=1),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    stored: dict[str, np.ndarray] = {
        "w_q": weight,
        "w_s": np.array([0.5, 1, 2, 3], np.float32),
        "w_z": np.array([0, 1, 2, -3], np.int8),
    }
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])],
        [numpy_helper.from_array(value, name) for name, value in stored.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    feed = {"x": np.array([[1, -2, 3]], np.float32)}
    # Left to itself, ONNX Runtime turns the two nodes into one that computes in int8.
    as_written = ort.SessionOptions()
    as_written.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    (expected,) = ort.InferenceSession(model.SerializeToString(), as_written).run(None, feed)
    plain = dequantised(onnx.ModelProto.FromString(model.SerializeToString()))
    assert [node.op_type for node in plain.graph.node] == ["MatMul"]
    (found,) = ort.InferenceSession(plain.SerializeToString()).run(None, feed)
    np.testing.assert_array_equal(found, expected)
    model.graph.node[0].op_type = "QuantizeLinear"
    with pytest.raises(ModelError, match="fp32 sister"):
        dequantised(model)


@pytest.mark.integration  # takes seconds
def test_torch_is_given_every_weight_by_its_name_in_transformers(tmp_path):
    folder = fetched(CROSS_ENCODER)
    plain = make_plain_model(load_cross_encoder(MODELS_FILE, CROSS_ENCODER), folder, tmp_path, 64)
    assert plain.torch is None
    found = load_file(plain.folder / CHECKPOINT)
    parts = ("intermediate.dense", "output.dense")
    linears = {f"bert.encoder.layer.{layer}.{part}" for layer in range(6) for part in parts}
    assert {f"{name}.{kind}" for name in linears for kind in ("weight", "bias")} <= set(found)
    assert found["bert.encoder.layer.0.intermediate.dense.weight"].shape == (1536, 384)
    assert {"bert.embeddings.word_embeddings.weight", "bert.pooler.dense.weight", "classifier.weight"} <= set(found)
    assert json.loads((plain.folder / CONFIG).read_text())["pad_token_id"] == 0


@pytest.mark.integration  # takes seconds
def test_a_small_run_with_ours_alone_measures_session_and_http(tmp_path: Path):
    fetched(CROSS_ENCODER)
    arguments = BenchArguments(
        model=CROSS_ENCODER,
        max_tokens=64,
        served=CROSS_ENCODER,
        int8=None,
        peers=(),
        rounds=1,
        drawing=ListSampling(1, 4, 0),
        cache=tmp_path,
        output=tmp_path / "report.json",
    )
    report = bench(arguments)
    assert list(report.sets) == (["short", "scifact", "mixed"] if SCIFACT.is_dir() else ["short", "mixed"])
    assert len(report.turns) == len(report.sets) * 3
    assert report.http is not None
    assert all(share.median > 0 for share in report.http.share.values())
    assert report.largest_difference == {HTTP: pytest.approx(0.0, abs=1e-6)}
    write_report(report, arguments.output)
    assert read_report(arguments.output) == report


@pytest.mark.integration  # takes seconds
def test_memory_is_that_of_the_process_that_serves(tmp_path: Path):
    folder = fetched(CROSS_ENCODER)
    most = load_cross_encoder(MODELS_FILE, CROSS_ENCODER).max_tokens
    service = ServiceProcess(
        MODELS_FILE, service_environment(CROSS_ENCODER) | {"RERANKER_MODELS": str(folder.parent)}, tmp_path / "log"
    )
    try:
        memory = measure_memory(
            service, CROSS_ENCODER, PairTexts(folder / TOKENIZER, most), MemoryLoad(most, 2, 3, within_s=0.5)
        )
    finally:
        service.close()
    assert memory.before > 50e6  # the weights alone are more
    assert memory.burst_ratio == min(memory.after_each_quarter_s) / memory.before
    assert "3 random shapes" in memory_lines(memory)
