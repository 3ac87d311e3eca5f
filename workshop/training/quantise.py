"""`python -m workshop.training.quantise`: quantises a model; a result never depends on the rest of its batch.

`--precision int8-weights`: stores matrices and tables as int8, a quarter of the size, and computes in fp32.

`--precision int8-static`: computes every product with a weight matrix in int8: weights with one scale a column,
activations with one fixed scale, calibrated on training pairs, or for an encoder on texts (`--inputs texts`), with the
prefixes of models.yaml, in which the folder's name is the model's. Attention, normalisation, gelu, pooler and
classifier stay fp32.

Suffixes of tensor names (`.near`, `.evening`) are part of the file whose sha256 models.yaml pins: do not rename them.
"""

import argparse
import random
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort  # type: ignore[import-untyped]  # ships no types
from onnx import TensorProto, helper, numpy_helper, version_converter
from tqdm import tqdm

from services.inference.digests import file_sha256
from services.inference.model_tokenizer import ModelTokenizer, Row
from services.inference.profiles import CONFIG, GRAPH, MODELS_FILE, TOKENIZER, EncoderProfile, load_encoder
from workshop.training.corpus import read_corpus
from workshop.training.smoothing import (
    STORAGE_MIGRATION,
    ActivationRange,
    Values,
    quantise_activation,
    smoothing_factors,
)

Constants = dict[str, Values]

OPSET = 17  # of bert_graph.py
# Smaller tables of embeddings stay fp32: they save too little.
SMALLEST = 100_000


def to_static_int8(model: onnx.ModelProto, rows: Sequence[Row]) -> onnx.ModelProto:
    """Quantises an fp32 graph to static int8, with activation scales calibrated on `rows`."""
    return _with_int8_products(model, activation_ranges(model, rows))


def to_int8_storage(model: onnx.ModelProto, rows: Sequence[Row]) -> onnx.ModelProto:
    """Stores the weights of an fp32 graph as int8, each matrix smoothed by its activations over `rows`.

    A column has one scale, so errors of a few much stronger channels would dominate without smoothing.
    """
    seen, constants = activation_ranges(model, rows), _constants(model.graph)
    matrices: dict[str, list[str]] = {}
    for node in _products(model.graph, constants):
        if node.input[0] in seen:
            matrices.setdefault(node.input[0], []).append(node.input[1])
    nodes: list[onnx.NodeProto] = []
    for activation, names in matrices.items():
        factors = smoothing_factors(seen[activation], [constants[name] for name in names], STORAGE_MIGRATION)
        for name in names:
            constants[name] = constants[name] * factors[:, None]
            nodes.append(_int8_matrix(name, constants))
            constants[f"{name}.evening"] = np.float32(1) / factors[:, None]
            nodes.append(_node("Mul", [f"{name}.near", f"{name}.evening"], name))
            del constants[name]
    for node in model.graph.node:
        for name in node.input:
            if name in constants and constants[name].size >= SMALLEST:
                nodes.append(_int8_rows(name, constants))
    return _rebuilt(model, [*nodes, *model.graph.node], constants)


def with_fp32_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """Folds dequantisation of stored weights: returns the graph with fp32 weights."""
    constants = _constants(model.graph)
    nodes: list[onnx.NodeProto] = []
    for node in model.graph.node:
        if node.op_type == "DequantizeLinear" and node.input[0] in constants:
            constants[node.output[0]] = _dequantised(node, constants)
        elif node.op_type == "Mul" and all(name in constants for name in node.input):
            constants[node.output[0]] = constants[node.input[0]] * constants[node.input[1]]
        else:
            nodes.append(node)
    return _rebuilt(model, nodes, constants)


def with_scales_by_axis(model: onnx.ModelProto) -> onnx.ModelProto:
    """Returns the graph in a version of ONNX whose DequantizeLinear has a scale a column (13 and above)."""
    (opset,) = [opset.version for opset in model.opset_import if not opset.domain]
    return model if opset >= OPSET else version_converter.convert_version(model, OPSET)


def activation_ranges(model: onnx.ModelProto, rows: Sequence[Row]) -> dict[str, ActivationRange]:
    """Measures the range of every activation that meets a weight matrix, one row at a time (without padding)."""
    names = sorted({node.input[0] for node in _products(model.graph, _constants(model.graph))})
    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    watched.graph.output.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names)
    session = ort.InferenceSession(watched.SerializeToString(), providers=["CPUExecutionProvider"])
    inputs = {value.name for value in session.get_inputs()}
    ranges: dict[str, ActivationRange] = {}
    for row in tqdm(rows, desc="calibrate", unit="pair"):
        feed = {"input_ids": row.ids, "token_type_ids": row.types, "attention_mask": [1] * len(row.ids)}
        given = {name: np.array([values], dtype=np.int64) for name, values in feed.items() if name in inputs}
        for name, values in zip(names, session.run(names, given), strict=True):
            if values.ndim == 3:  # one row a token; pooled values are too little work to quantise
                ranges[name] = ranges.get(name, ActivationRange.empty(values.shape[2])).widened(values)
    return ranges


def calibration_rows(training: Path, tokens: ModelTokenizer, number: int, seed: int) -> list[Row]:
    """Draws questions with a relevant passage or a random one, in turn, truncated as the model will see them."""
    corpus = read_corpus(training, seed)
    draw = random.Random(seed)
    questions = draw.sample([question for question in corpus.questions if question.relevant], number)
    places = [
        min(question.relevant) if turn % 2 else draw.randrange(len(corpus.passages))
        for turn, question in enumerate(questions)
    ]
    pairs = [
        tokens.ids([question.text, corpus.passages[place]]) for question, place in zip(questions, places, strict=True)
    ]
    return [tokens.pair(query, passage) for query, passage in pairs]


def calibration_texts(
    training: Path, tokens: ModelTokenizer, number: int, seed: int, profile: EncoderProfile
) -> list[Row]:
    """Draws as many questions as passages, with their prefixes, truncated as an encoder will see them."""
    corpus = read_corpus(training, seed)
    draw = random.Random(seed)
    questions = [profile.query_prefix + question.text for question in draw.sample(corpus.questions, number // 2)]
    passages = [profile.passage_prefix + text for text in draw.sample(corpus.passages, number - number // 2)]
    return [tokens.single(ids) for ids in tokens.ids([*questions, *passages])]


def _with_int8_products(model: onnx.ModelProto, seen: Mapping[str, ActivationRange]) -> onnx.ModelProto:
    constants = _constants(model.graph)
    products = [node for node in _products(model.graph, constants) if node.input[0] in seen]
    matrices: dict[str, list[str]] = {}
    for node in products:
        matrices.setdefault(node.input[0], []).append(node.input[1])
    chosen = {node.output[0] for node in products}
    done: set[str] = set()
    nodes: list[onnx.NodeProto] = []
    for original in model.graph.node:
        node = onnx.NodeProto()
        node.CopyFrom(original)
        if node.output[0] in chosen:
            activation, matrix = node.input
            if activation not in done:
                done.add(activation)
                nodes += _int8_activation(activation, matrices[activation], seen[activation], constants)
            nodes.append(_int8_matrix(matrix, constants))
            node.input[:] = [f"{activation}.near", f"{matrix}.near"]
        elif node.op_type == "Gather" and _is_table(node, constants):
            nodes += _int8_table(node, constants)
            continue
        nodes.append(node)
    used = {name for node in nodes for name in node.input}
    return _rebuilt(model, nodes, {name: values for name, values in constants.items() if name in used})


def _int8_activation(
    name: str, matrices: Sequence[str], seen: ActivationRange, constants: Constants
) -> Iterator[onnx.NodeProto]:
    """Yields the nodes that quantise an activation to 256 steps; smoothing multiplies `matrices` by the factors."""
    chosen = quantise_activation(seen, [constants[matrix] for matrix in matrices])
    constants[f"{name}.scale"] = np.array(chosen.scale, dtype=np.float32)
    constants[f"{name}.zero"] = np.array(chosen.zero, dtype=np.uint8)
    rounding = [f"{name}.scale", f"{name}.zero"]
    even = name
    if (chosen.factors != 1).any():
        even = f"{name}.even"
        for matrix in matrices:
            constants[matrix] = constants[matrix] * chosen.factors[:, None]
        constants[f"{name}.evening"] = np.float32(1) / chosen.factors
        yield _node("Mul", [name, f"{name}.evening"], even)
    yield _node("QuantizeLinear", [even, *rounding], f"{name}.int8")
    yield _node("DequantizeLinear", [f"{name}.int8", *rounding], f"{name}.near")


def _int8_matrix(name: str, constants: Constants) -> onnx.NodeProto:
    """Quantises a matrix [in, out] by column; symmetric, so that products need no zero-point correction."""
    values = constants[name]
    scale = np.maximum(np.abs(values).max(axis=0), 1e-8).astype(np.float32) / 127
    constants[f"{name}.int8"] = np.rint(values / scale).astype(np.int8)
    constants[f"{name}.scale"] = scale
    constants[f"{name}.zero"] = np.zeros(len(scale), dtype=np.int8)
    return _node("DequantizeLinear", [f"{name}.int8", f"{name}.scale", f"{name}.zero"], f"{name}.near", axis=1)


def _int8_rows(name: str, constants: Constants) -> onnx.NodeProto:
    """Quantises a table of embeddings, or a Gemm's [out, in], by row."""
    values = constants.pop(name)
    scale = np.maximum(np.abs(values).max(axis=1), 1e-8).astype(np.float32) / 127
    constants[f"{name}.int8"] = np.rint(values / scale[:, None]).astype(np.int8)
    constants[f"{name}.scale"] = scale
    return _node("DequantizeLinear", [f"{name}.int8", f"{name}.scale"], name, axis=0)


def _int8_table(node: onnx.NodeProto, constants: Constants) -> Iterator[onnx.NodeProto]:
    """Yields nodes that gather int8 rows and scales: DequantizeLinear would convert the whole table in every call."""
    table, ids, out = node.input[0], node.input[1], node.output[0]
    values = constants[table]
    scale = np.maximum(np.abs(values).max(axis=1, keepdims=True), 1e-8).astype(np.float32) / 127
    constants[f"{table}.int8"] = np.rint(values / scale).astype(np.int8)
    constants[f"{table}.scale"] = scale
    yield _node("Gather", [f"{table}.int8", ids], f"{out}.int8", axis=0)
    yield _node("Cast", [f"{out}.int8"], f"{out}.whole", to=TensorProto.FLOAT)
    yield _node("Gather", [f"{table}.scale", ids], f"{out}.scale", axis=0)
    yield _node("Mul", [f"{out}.whole", f"{out}.scale"], out)


def _is_table(node: onnx.NodeProto, constants: Mapping[str, Values]) -> bool:
    values = constants.get(node.input[0])
    along_rows = all(attribute.i == 0 for attribute in node.attribute if attribute.name == "axis")
    return values is not None and values.ndim == 2 and values.size >= SMALLEST and along_rows


def _products(graph: onnx.GraphProto, constants: Mapping[str, Values]) -> list[onnx.NodeProto]:
    """Returns the products of an activation and a weight matrix."""
    return [
        node
        for node in graph.node
        if node.op_type == "MatMul" and node.input[1] in constants and constants[node.input[1]].ndim == 2
    ]


def _dequantised(node: onnx.NodeProto, constants: Mapping[str, Values]) -> Values:
    whole, scale, *zero = (constants[name] for name in node.input)
    axis = next((attribute.i for attribute in node.attribute if attribute.name == "axis"), 1)
    if scale.ndim:
        shape = [-1 if place == axis % whole.ndim else 1 for place in range(whole.ndim)]
        scale, zero = scale.reshape(shape), [values.reshape(shape) for values in zero]
    centred = whole.astype(np.float32) - (zero[0].astype(np.float32) if zero else np.float32(0))
    return np.asarray(centred * scale, dtype=np.float32)


def _constants(graph: onnx.GraphProto) -> Constants:
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}


def _node(kind: str, inputs: list[str], output: str, **attributes: int) -> onnx.NodeProto:
    node = helper.make_node(kind, inputs, [output], name=output)
    node.attribute.extend(helper.make_attribute(key, value) for key, value in attributes.items())
    return node


def _rebuilt(
    model: onnx.ModelProto, nodes: Sequence[onnx.NodeProto], constants: Mapping[str, Values]
) -> onnx.ModelProto:
    used = {name for node in nodes for name in node.input}
    made = onnx.ModelProto()
    made.CopyFrom(model)
    del made.graph.node[:], made.graph.initializer[:]
    made.graph.node.extend(nodes)
    made.graph.initializer.extend(
        numpy_helper.from_array(values, name) for name, values in constants.items() if name in used
    )
    return made


def main() -> None:
    """Runs the command line; prints the lines for models.yaml at the end."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="a folder with model.onnx in fp32")
    parser.add_argument("--out", type=Path, required=True, help="the folder of the int8 model")
    parser.add_argument("--precision", choices=("int8-weights", "int8-static"), required=True)
    parser.add_argument("--training", type=Path, required=True, help="the folder of the training files")
    parser.add_argument("--inputs", choices=("pairs", "texts"), default="pairs", help="texts: the model is an encoder")
    parser.add_argument("--number", type=int, default=400, help="of pairs or texts for calibration")
    parser.add_argument("--max-tokens", type=int, default=256, help="as in models.yaml")
    parser.add_argument("--seed", type=int, default=7)
    chosen = parser.parse_args()
    tokens = ModelTokenizer(chosen.model / TOKENIZER, chosen.max_tokens)
    drawn = chosen.training, tokens, chosen.number, chosen.seed
    if chosen.inputs == "pairs":
        rows = calibration_rows(*drawn)
    else:
        rows = calibration_texts(*drawn, load_encoder(MODELS_FILE, chosen.model.name))
    make = {"int8-weights": to_int8_storage, "int8-static": to_static_int8}[chosen.precision]
    model = make(with_fp32_weights(with_scales_by_axis(onnx.load(chosen.model / GRAPH))), rows)
    onnx.checker.check_model(model)
    chosen.out.mkdir(parents=True, exist_ok=True)
    (chosen.out / GRAPH).write_bytes(model.SerializeToString(deterministic=True))
    for name in (TOKENIZER, CONFIG):
        shutil.copyfile(chosen.model / name, chosen.out / name)
    sys.stdout.write(f"precision: {chosen.precision}\nfiles:\n")
    sys.stdout.writelines(f"  {name}: {file_sha256(chosen.out / name)}\n" for name in (GRAPH, TOKENIZER, CONFIG))


if __name__ == "__main__":
    main()
