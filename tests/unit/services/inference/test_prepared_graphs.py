"""Checks that a cross-encoder's prepared graph is opened for its device, or refused with the command that helps."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from deploy.models.graph_rewrites import rewrite_graph
from services.inference.model_tokenizer import Row
from services.inference.prepared_graphs import RECORD, read_record, verified_graph
from services.inference.profiles import GRAPH, ROOT, CrossEncoderProfile, ModelError
from services.inference.session import Session, open_session
from tests.support.graphs import small_cross_encoder
from tests.support.models import CROSS_ENCODER, fetched, ids_as_hidden, tiny_encoder

ROWS = [Row([2, 7, 1, 8, 2, 8], [0] * 6), Row([3, 14, 15], [0, 0, 1])]
FEED = {
    "input_ids": np.array([[2, 7, 1, 8, 2, 8], [3, 14, 15, 0, 0, 0]]),
    "token_type_ids": np.array([[0] * 6, [0, 0, 1, 0, 0, 0]]),
    "attention_mask": np.array([[1] * 6, [1, 1, 1, 0, 0, 0]]),
}
# The image of the re-ranker contains neither module.
OPENED = """
import sys
sys.modules |= dict.fromkeys(["onnx", "deploy"])
from services.reranker.app import open_scorer
from services.reranker.settings import RerankerSettings
print(open_scorer(RerankerSettings(threads=1, models=sys.argv[1])).model)
"""


@pytest.fixture
def profile(tmp_path: Path) -> CrossEncoderProfile:
    return small_cross_encoder(tmp_path)


def test_scores_equal_those_of_a_newly_rewritten_graph_to_the_bit(profile: CrossEncoderProfile, tmp_path: Path) -> None:
    rewritten = tmp_path / "rewritten.onnx"
    rewritten.write_bytes(rewrite_graph((tmp_path / GRAPH).read_bytes(), onnxruntime_cpu=True))
    (expected,) = open_session(rewritten, profile.session_entries, "cpu").run(None, FEED)
    assert np.unique(expected).size == len(ROWS)
    np.testing.assert_array_equal(Session(profile, tmp_path).run(ROWS), expected)


def test_each_device_opens_the_graph_prepared_for_it(profile: CrossEncoderProfile, tmp_path: Path) -> None:
    record = read_record(tmp_path)
    assert record is not None
    opened = [verified_graph(profile, tmp_path, provider) for provider in ("cpu", "cuda")]
    assert opened == [tmp_path / record.graphs[variant].file for variant in ("onnxruntime-cpu", "portable")]


def test_an_encoder_opens_its_original_graph(tmp_path: Path) -> None:
    assert verified_graph(tiny_encoder(tmp_path, ids_as_hidden()), tmp_path, "cpu") == tmp_path / GRAPH


def _remove_record(folder: Path) -> None:
    (folder / RECORD).unlink()


def _change_record(change: Callable[[dict[str, object]], object]) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        record = json.loads((folder / RECORD).read_text())
        change(record)
        (folder / RECORD).write_text(json.dumps(record))

    return spoil


def _remove_graphs(folder: Path) -> None:
    for file in folder.glob("prepared-*.onnx"):
        file.unlink()


def _replace_graphs(folder: Path) -> None:
    for file in folder.glob("prepared-*.onnx"):
        file.write_bytes((folder / GRAPH).read_bytes())


@pytest.mark.parametrize(
    ("spoil", "wrong"),
    [
        (_remove_record, r"prepared\.json"),
        (_change_record(lambda record: record.update(graphs={})), r"prepared\.json"),
        (_change_record(dict.clear), r"prepared\.json"),
        (_change_record(lambda record: record.update(source_sha256="0" * 64)), r"model\.onnx"),
        (_remove_graphs, r"prepared-\S+\.onnx"),
        (_replace_graphs, r"prepared-\S+\.onnx .*sha256"),
    ],
    ids=["no record", "no graphs", "empty record", "another source", "no files", "other files"],
)
def test_an_unprepared_folder_is_refused_with_the_command_that_prepares_it(
    profile: CrossEncoderProfile, tmp_path: Path, spoil: Callable[[Path], None], wrong: str
) -> None:
    spoil(tmp_path)
    sentence = rf"{wrong}.*`make models MODELS=tiny`"
    with pytest.raises(ModelError, match=sentence):
        Session(profile, tmp_path)


def test_the_re_ranker_opens_its_model_without_onnx_and_deploy() -> None:
    command = [sys.executable, "-c", OPENED, str(fetched(CROSS_ENCODER).parent)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.stdout.startswith(f"{CROSS_ENCODER}@"), done.stderr
