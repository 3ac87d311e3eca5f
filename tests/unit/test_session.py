"""A session opens what models.yaml declares and nothing else, and says in one sentence what is wrong."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
import onnxruntime
import pytest

from services.inference.digests import file_sha256
from services.inference.profiles import MODELS_FILE, ModelError, load_cross_encoder, load_encoder
from services.inference.session import Session
from services.inference.tokens import Row
from tests.models import (
    CROSS_ENCODER,
    ENCODER,
    constant,
    fetched,
    ids_as_hidden,
    node,
    sum_of_ids,
    tiny_cross_encoder,
    tiny_encoder,
)


def declared(profile, folder):
    """The profile, with the sha256 of whatever model.onnx is now."""
    return profile.model_copy(update={"files": profile.files | {"model.onnx": file_sha256(folder / "model.onnx")}})


def test_it_pads_rows_and_masks_the_padding(tmp_path):
    session = Session(tiny_cross_encoder(tmp_path, sum_of_ids("logits")), tmp_path)
    rows = [Row([1, 2, 3], [0, 0, 0]), Row([4], [0])]
    assert session.run(rows).tolist() == [[6.0], [4.0]]


def test_it_knows_the_hash_of_its_weights(tmp_path):
    session = Session(tiny_encoder(tmp_path, ids_as_hidden()), tmp_path)
    assert session.weights_sha256 == file_sha256(tmp_path / "model.onnx")


def test_threads_that_share_a_session_get_what_one_gets_alone():
    folder = fetched(ENCODER)
    session = Session(load_encoder(MODELS_FILE, ENCODER), folder)
    inputs = [[Row(list(range(1000, 1000 + length)), [0] * length)] for length in range(3, 27, 3)]
    alone = [session.run(rows) for rows in inputs]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(session.run, inputs * 3))
    for got, expected in zip(together, alone * 3, strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("content", [b"", b"not a graph at all", None])
def test_a_file_that_is_no_graph_is_refused_by_its_path(tmp_path, content):
    profile = tiny_encoder(tmp_path, ids_as_hidden())
    graph = tmp_path / "model.onnx"
    graph.write_bytes(graph.read_bytes()[:100] if content is None else content)
    with pytest.raises(ModelError, match=r"model\.onnx is not a graph that ONNX Runtime can open"):
        Session(declared(profile, tmp_path), tmp_path)


def test_a_truncated_file_is_refused_before_it_is_opened(tmp_path):
    profile = tiny_encoder(tmp_path, ids_as_hidden())
    graph = tmp_path / "model.onnx"
    graph.write_bytes(graph.read_bytes()[:100])
    with pytest.raises(ModelError, match=r"is not usable: model\.onnx has the sha256 .* `make models` puts it right"):
        Session(profile, tmp_path)


def test_a_missing_file_is_named(tmp_path):
    profile = tiny_encoder(tmp_path, ids_as_hidden())
    (tmp_path / "config.json").unlink()
    with pytest.raises(ModelError, match=r"is not usable: config\.json is missing"):
        Session(profile, tmp_path)


def test_a_folder_that_is_not_there_is_named(tmp_path):
    profile = tiny_encoder(tmp_path / "there", ids_as_hidden())
    with pytest.raises(ModelError, match=r"The model in .*elsewhere is not usable"):
        Session(profile, tmp_path / "elsewhere")


def test_a_graph_of_another_family_is_refused_by_its_inputs(tmp_path):
    profile = tiny_encoder(tmp_path, ids_as_hidden())
    model = onnx.load(tmp_path / "model.onnx")
    model.graph.input.extend([onnx.helper.make_tensor_value_info("pixels", onnx.TensorProto.FLOAT, [1])])
    onnx.save(model, tmp_path / "model.onnx")
    with pytest.raises(ModelError, match=r"is no BERT graph: its inputs are .*pixels tensor\(float\)"):
        Session(declared(profile, tmp_path), tmp_path)


def test_an_encoder_of_another_dimension_is_refused(tmp_path):
    profile = tiny_encoder(tmp_path, ids_as_hidden(), dimension=384)
    with pytest.raises(ModelError, match=r"has the shape \[2, 3, 1\], and \[batch, tokens, 384\] is needed"):
        Session(profile, tmp_path)


def test_an_encoder_is_no_cross_encoder():
    folder = fetched(ENCODER)
    profile = load_cross_encoder(MODELS_FILE, CROSS_ENCODER).model_copy(
        update={"files": load_encoder(MODELS_FILE, ENCODER).files}
    )
    with pytest.raises(ModelError, match=r"is not the cross-encoder that models\.yaml declares"):
        Session(profile, folder)


def test_three_logits_are_refused(tmp_path):
    nodes = [*sum_of_ids("one"), node("Concat", ["one", "one", "one"], "logits", axis=1)]
    with pytest.raises(ModelError, match=r"has the shape \[2, 3\], and \[batch, 1\] or \[batch, 2\] is needed"):
        Session(tiny_cross_encoder(tmp_path, nodes, labels=3), tmp_path)


def test_a_batch_that_the_graph_cannot_take_is_an_error_with_its_shape(tmp_path):
    # A table of ten words: the id 11 is out of its bounds.
    nodes = [
        constant("table", np.arange(10, dtype=np.float32).reshape(10, 1)),
        node("Gather", ["table", "input_ids"], "last_hidden_state"),
    ]
    session = Session(tiny_encoder(tmp_path, nodes), tmp_path)
    with pytest.raises(ModelError, match=r"failed on a batch of shape \(1, 2\): .*out of data bounds"):
        session.run([Row([1, 11], [0, 0])])


def test_a_provider_that_this_runtime_lacks_is_refused_and_not_replaced(tmp_path):
    if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        pytest.skip("this ONNX Runtime has CUDA")
    profile = tiny_encoder(tmp_path, ids_as_hidden())
    with pytest.raises(ModelError, match="has no CUDAExecutionProvider: install the extra `gpu`"):
        Session(profile, tmp_path, "cuda")
