"""The bench of a GPU, on the CPU: its tables, and what it reports as wrong."""

import onnxruntime
import pytest

from services.inference.open_model import Engine
from services.inference.profiles import ROOT, ModelError
from tests.support.models import fetched
from workshop.bench import gpu

SPLADE = "splade-tiny-msmarco"


def cells(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]


def test_every_engine_has_a_row_and_work_on_the_cpu_is_reported(monkeypatch):
    fetched(SPLADE)
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(gpu, "LEAST_S", 0.01)
    monkeypatch.setattr(gpu, "MOST_DIFFERENCE", 0.0)  # so that equal values are reported too
    engine = Engine(threads=1, max_padded_tokens=64)
    tables, wrong = gpu.bench([SPLADE], [engine], ["the chain slips", "a worn cassette " * 9, "hooked teeth"])
    nodes, figures = map(cells, tables.split("\n\n"))
    assert nodes[2][:2] == [SPLADE, "0.0%"]
    assert {"MatMul", "Shape"} <= {kind.split()[1] for kind in nodes[2][2].split(", ")}
    assert [row[:4] for row in figures[2:]] == [
        [SPLADE, "cpu", "512", str(Engine().workers)],
        [SPLADE, "cpu", "64", "1"],
    ]
    for *_, speed, gpu_mib, rss_mib, difference in figures[2:]:
        assert float(speed.split()[0]) > 0
        assert (gpu_mib, int(rss_mib) > 20) == ("0", True)
        assert float(difference) < 1e-3
    on_the_cpu, *different = wrong
    assert "MatMul" in on_the_cpu
    assert "Shape" not in on_the_cpu
    assert len(different) == 2


def test_a_missing_model_ends_it_before_anything_is_measured(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match=rf"`make models MODELS={SPLADE}`"):
        gpu.bench([SPLADE], [Engine()], ["the chain slips"])


def test_without_a_gpu_it_ends_with_one_sentence_and_writes_no_page(monkeypatch):
    if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        pytest.skip("this ONNX Runtime has CUDA")
    fetched(SPLADE)
    page = (ROOT / "docs" / "measurements" / "gpu.md").read_bytes()
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("sys.argv", ["gpu", SPLADE])
    with pytest.raises(SystemExit, match=r"^bench-gpu: .*CUDAExecutionProvider.*$"):
        gpu.main()
    assert (ROOT / "docs" / "measurements" / "gpu.md").read_bytes() == page
