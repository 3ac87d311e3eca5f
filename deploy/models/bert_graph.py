"""Builds the ONNX graph of a BERT or a DistilBERT from safetensors, without torch: an encoder or a head over it.

Owns the graph's structure and its bytes: equal weights give equal files with every version of `onnx`, so that
models.yaml can pin the file's sha256. Knows neither sources nor downloads, and no service imports it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, assert_never

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors import SafetensorError
from safetensors.numpy import load_file

from services.inference.profiles import ModelError, ModelProfile, SparseEncoderProfile

Weights = Mapping[str, NDArray[np.float32]]

# Fixed, so that the bytes do not depend on the installed onnx; ONNX Runtime 1.23 and later read both.
OPSET = 17
IR_VERSION = 8
# hidden            the token vectors of the last layer
# masked-lm         each term's largest logit of masked language modelling (SPLADE)
# input-embeddings  each term's largest product of its input embedding with a token vector (SPARTA)
Head = Literal["hidden", "masked-lm", "input-embeddings"]
# Terms of the vocabulary that are multiplied at once: with 512 padded tokens, 1 MB of logits in place of 62 MB, and
# half of the time of a single product (55 ms against 103 ms on one core, 30,522 terms of width 128).
BLOCK = 512
# exp() of this is exactly 0 in fp32, so that padding has no attention weight.
MASKED = -10000.0
# What DistilBERT (Sanh et al. 2019) calls the parts of a BERT; it has no token types and no pooler.
DISTILBERT_NAMES = {
    "transformer.layer.": "encoder.layer.",
    "attention.q_lin.": "attention.self.query.",
    "attention.k_lin.": "attention.self.key.",
    "attention.v_lin.": "attention.self.value.",
    "attention.out_lin.": "attention.output.dense.",
    "sa_layer_norm.": "attention.output.LayerNorm.",
    "ffn.lin1.": "intermediate.dense.",
    "ffn.lin2.": "output.dense.",
    "output_layer_norm.": "output.LayerNorm.",
    "vocab_transform.": "cls.predictions.transform.dense.",
    "vocab_layer_norm.": "cls.predictions.transform.LayerNorm.",
    "vocab_projector.": "cls.predictions.",
}
# A BertModel beneath the linear layer `linear`, which has no bias (https://github.com/stanford-futuredata/ColBERT).
COLBERT = ("HF_ColBERT",)


def head_of(profile: ModelProfile) -> Head:
    """Returns the head of the graph that a model of models.yaml needs."""
    if not isinstance(profile, SparseEncoderProfile):
        return "hidden"
    return "input-embeddings" if profile.method == "sparta" else "masked-lm"


class BertConfig(BaseModel):
    """Fields of config.json that the graph needs (https://huggingface.co/docs/transformers/model_doc/bert)."""

    model_config = ConfigDict(frozen=True, extra="ignore")
    architectures: tuple[str, ...]
    hidden_act: str
    hidden_size: int = Field(gt=0)
    layer_norm_eps: float
    num_attention_heads: int = Field(gt=0)
    num_hidden_layers: int = Field(gt=0)
    position_embedding_type: str = "absolute"
    tie_word_embeddings: bool = True

    @property
    def token_types(self) -> bool:
        """Whether token types are embedded."""
        return not self.architectures[0].startswith("DistilBert")


class DistilBertConfig(BertConfig):
    """The same of a DistilBERT (https://huggingface.co/docs/transformers/model_doc/distilbert)."""

    hidden_act: str = Field(alias="activation")
    hidden_size: int = Field(alias="dim", gt=0)
    layer_norm_eps: float = 1e-12  # fixed in the model's code
    num_attention_heads: int = Field(alias="n_heads", gt=0)
    num_hidden_layers: int = Field(alias="n_layers", gt=0)


class _Family(BaseModel):
    model_type: str = "bert"


def build(config_file: Path, weights_file: Path, model_file: Path, head: Head = "hidden") -> None:
    """Writes `model_file` from a transformers checkpoint.

    Inputs: `input_ids`, `attention_mask` and, unless it is a DistilBERT, `token_type_ids`, int64 [batch, tokens],
    tokens at least 1 and at most the checkpoint's positions. Output: `last_hidden_state`, fp32 [batch, tokens, hidden];
    of a ColBERT `token_vectors`, fp32 [batch, tokens, dimension]; with another head than "hidden" `vocabulary_maxima`,
    fp32 [batch, vocabulary]: the largest value of each term over a row's tokens. Raises ModelError when the checkpoint
    is not such a BERT.
    """
    config = read_config(config_file, head)
    try:
        weights = load_file(weights_file)
    except (SafetensorError, OSError) as error:
        raise ModelError(f"{weights_file} is not a readable safetensors file: {error}.") from error
    try:
        model = bert_model(config, weights, head)
    except KeyError as error:
        raise ModelError(
            f"{weights_file} lacks the tensor {error}, so it is not the BERT that config.json says."
        ) from error
    model_file.write_bytes(model.SerializeToString(deterministic=True))


def _renamed(weights: Weights) -> Weights:
    """Names the tensors as BertModel does: models with a head have the prefix `bert.`, old ones gamma and beta."""

    def name(given: str) -> str:
        given = given.removeprefix("bert.").removeprefix("distilbert.")
        for theirs, ours in DISTILBERT_NAMES.items():
            given = given.replace(theirs, ours)
        return given.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")

    return {name(given): values for given, values in weights.items()}


def read_config(path: Path, head: Head = "hidden") -> BertConfig:
    """Parses config.json, of a DistilBERT too; raises ModelError for a variant that cannot be built."""
    try:
        content = path.read_bytes()
        family = _Family.model_validate_json(content).model_type
        config = (DistilBertConfig if family == "distilbert" else BertConfig).model_validate_json(content)
    except (OSError, ValueError, ValidationError) as error:
        raise ModelError(f"{path} is not the config.json of a BERT: {error}.") from error
    if config.hidden_act != "gelu" or config.position_embedding_type != "absolute":
        raise ModelError(
            f"{path} asks for {config.hidden_act} and {config.position_embedding_type} positions; "
            "only gelu and absolute positions can be built."
        )
    buildable = {
        "hidden": ("BertModel", "DistilBertModel", *COLBERT),
        "masked-lm": ("BertForMaskedLM", "DistilBertForMaskedLM"),
        "input-embeddings": ("BertModel", "DistilBertModel"),
    }
    if len(config.architectures) != 1 or config.architectures[0] not in buildable[head]:
        needed = " or ".join(buildable[head])
        raise ModelError(f"{path} is of a {', '.join(config.architectures)}; only {needed} can be built here.")
    if head == "masked-lm" and not config.tie_word_embeddings:
        raise ModelError(f"{path} has a head apart from its embeddings; only one tied to them can be built.")
    return config


def bert_model(config: BertConfig, weights: Weights, head: Head = "hidden") -> onnx.ModelProto:
    """Builds the graph of a BERT with these weights, named as in transformers.

    Uses plain ONNX operators: with ONNX Runtime's own fused Attention and SkipLayerNormalization the same model
    took 5-10 % longer (128 tokens on one core: 31.8 ms against 29.6 ms, ONNX Runtime 1.31).
    """
    graph = _Graph(_renamed(weights))
    mask = _mask(graph)
    hidden = _embeddings(graph, config)
    for layer in range(config.num_hidden_layers):
        hidden = _layer(graph, config, f"encoder.layer.{layer}", hidden, mask)
    match head:
        case "hidden" if config.architectures == COLBERT:
            vectors = graph.node("MatMul", [hidden, graph.weight("linear.weight", transposed=True)], "token_vectors")
            output = _output(vectors, ["batch", "tokens", graph.rows("linear.weight")])
        case "hidden":
            vectors = graph.node("Identity", [hidden], "last_hidden_state")
            output = _output(vectors, ["batch", "tokens", config.hidden_size])
        case "masked-lm":
            output = _vocabulary_maxima(graph, config, _transform(graph, config, hidden), "cls.predictions.bias")
        case "input-embeddings":
            output = _vocabulary_maxima(graph, config, hidden, None)
        case _:
            assert_never(head)
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"])
        for name in ("input_ids", "attention_mask", *(("token_type_ids",) if config.token_types else ()))
    ]
    return helper.make_model(
        helper.make_graph(graph.nodes, "bert", inputs, [output], graph.initializers),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="bert_graph",
    )


def _output(name: str, shape: list[str | int | None]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


class _Graph:
    """Collects nodes and initializers; every value has the name of the node that computes it."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self._constants: set[str] = set()
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []

    def node(self, kind: str, inputs: list[str], name: str, **attributes: int | float | list[int]) -> str:
        return self.nodes_of(kind, inputs, [name], **attributes)[0]

    def nodes_of(
        self, kind: str, inputs: list[str], names: list[str], **attributes: int | float | list[int]
    ) -> list[str]:
        """Adds a node with several outputs, and returns their names."""
        node = helper.make_node(kind, inputs, names, name=names[0])
        node.attribute.extend(helper.make_attribute(key, value) for key, value in sorted(attributes.items()))
        self.nodes.append(node)
        return names

    def weight(self, name: str, *, transposed: bool = False) -> str:
        """Adds the tensor `name`; torch stores linear weights as [out, in], MatMul needs [in, out]."""
        values = np.asarray(self._weights[name], dtype=np.float32)
        return self.constant(name, np.ascontiguousarray(values.T if transposed else values))

    def constant(self, name: str, values: NDArray[np.float32] | NDArray[np.int64]) -> str:
        if name not in self._constants:
            self.initializers.append(numpy_helper.from_array(values, name))
            self._constants.add(name)
        return name

    def rows(self, name: str) -> int:
        """Returns the length of a tensor's first axis."""
        return int(self._weights[name].shape[0])

    def linear(self, name: str, inputs: str) -> str:
        product = self.node("MatMul", [inputs, self.weight(f"{name}.weight", transposed=True)], f"{name}.product")
        return self.node("Add", [product, self.weight(f"{name}.bias")], f"{name}.sum")

    def normalised(self, name: str, inputs: str, epsilon: float) -> str:
        scale, shift = self.weight(f"{name}.weight"), self.weight(f"{name}.bias")
        return self.node("LayerNormalization", [inputs, scale, shift], f"{name}.out", axis=-1, epsilon=epsilon)


def _integers(*values: int) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


def _scalar(value: float) -> NDArray[np.float32]:
    return np.array(value, dtype=np.float32)


def _mask(graph: _Graph) -> str:
    """Builds the mask added to every head's scores, [batch, 1, 1, tokens]: 0 for a token, MASKED for padding."""
    wide = graph.node("Unsqueeze", ["attention_mask", graph.constant("axes_1_2", _integers(1, 2))], "mask.wide")
    numbers = graph.node("Cast", [wide], "mask.numbers", to=TensorProto.FLOAT)
    holes = graph.node("Sub", [graph.constant("one", _scalar(1.0)), numbers], "mask.holes")
    return graph.node("Mul", [holes, graph.constant("masked", _scalar(MASKED))], "mask.added")


def _embeddings(graph: _Graph, config: BertConfig) -> str:
    name = "embeddings"
    words = graph.node("Gather", [graph.weight(f"{name}.word_embeddings.weight"), "input_ids"], f"{name}.words")
    types = None
    if config.token_types:
        kinds = graph.weight(f"{name}.token_type_embeddings.weight")
        types = graph.node("Gather", [kinds, "token_type_ids"], f"{name}.types")
    shape = graph.node("Shape", ["input_ids"], f"{name}.shape")
    tokens = graph.node("Slice", [shape, *(graph.constant(f"at_{n}", _integers(n)) for n in (1, 2))], f"{name}.tokens")
    table = graph.weight(f"{name}.position_embeddings.weight")
    positions = graph.node("Slice", [table, graph.constant("at_0", _integers(0)), tokens], f"{name}.positions")
    typed = words if types is None else graph.node("Add", [words, types], f"{name}.typed")
    placed = graph.node("Add", [typed, positions], f"{name}.placed")
    return graph.normalised(f"{name}.LayerNorm", placed, config.layer_norm_eps)


def _layer(graph: _Graph, config: BertConfig, name: str, inputs: str, mask: str) -> str:
    attended = _attention(graph, config, f"{name}.attention", inputs, mask)
    wide = graph.linear(f"{name}.intermediate.dense", attended)
    narrow = graph.linear(f"{name}.output.dense", _gelu(graph, f"{name}.gelu", wide))
    total = graph.node("Add", [narrow, attended], f"{name}.output.total")
    return graph.normalised(f"{name}.output.LayerNorm", total, config.layer_norm_eps)


def _attention(graph: _Graph, config: BertConfig, name: str, inputs: str, mask: str) -> str:
    size = config.hidden_size // config.num_attention_heads
    split = graph.constant("split_heads", _integers(0, 0, config.num_attention_heads, size))
    joined_shape = graph.constant("join_heads", _integers(0, 0, config.hidden_size))

    def heads(part: str, order: list[int]) -> str:
        apart = graph.node("Reshape", [graph.linear(f"{name}.self.{part}", inputs), split], f"{name}.{part}.split")
        return graph.node("Transpose", [apart], f"{name}.{part}.heads", perm=order)

    query, key, value = heads("query", [0, 2, 1, 3]), heads("key", [0, 2, 3, 1]), heads("value", [0, 2, 1, 3])
    likeness = graph.node("MatMul", [query, key], f"{name}.likeness")
    scaled = graph.node("Div", [likeness, graph.constant("root", _scalar(float(size) ** 0.5))], f"{name}.scaled")
    masked = graph.node("Add", [scaled, mask], f"{name}.masked")
    shares = graph.node("Softmax", [masked], f"{name}.shares", axis=-1)
    mixed = graph.node("MatMul", [shares, value], f"{name}.mixed")
    side = graph.node("Transpose", [mixed], f"{name}.side", perm=[0, 2, 1, 3])
    joined = graph.node("Reshape", [side, joined_shape], f"{name}.joined")
    projected = graph.linear(f"{name}.output.dense", joined)
    total = graph.node("Add", [projected, inputs], f"{name}.output.total")
    return graph.normalised(f"{name}.output.LayerNorm", total, config.layer_norm_eps)


def _gelu(graph: _Graph, name: str, inputs: str) -> str:
    """Builds x * (1 + erf(x / sqrt 2)) / 2, in the order of operations that ONNX Runtime recognises as Gelu."""
    ratio = graph.node("Div", [inputs, graph.constant("root_2", _scalar(2.0**0.5))], f"{name}.ratio")
    shifted = graph.node(
        "Add", [graph.node("Erf", [ratio], f"{name}.erf"), graph.constant("one", _scalar(1.0))], f"{name}.shifted"
    )
    doubled = graph.node("Mul", [inputs, shifted], f"{name}.doubled")
    return graph.node("Mul", [doubled, graph.constant("half", _scalar(0.5))], f"{name}.out")


def _transform(graph: _Graph, config: BertConfig, hidden: str) -> str:
    """Builds what a head of masked language modelling does to a token vector before it meets the vocabulary."""
    name = "cls.predictions.transform"
    wide = graph.linear(f"{name}.dense", hidden)
    return graph.normalised(f"{name}.LayerNorm", _gelu(graph, f"{name}.gelu", wide), config.layer_norm_eps)


def _vocabulary_maxima(graph: _Graph, config: BertConfig, tokens: str, bias: str | None) -> onnx.ValueInfoProto:
    """Builds each term's largest product of its embedding with a token vector, block by block, plus its bias.

    Padding takes the vector of its row's first token, so that it never is the only maximum.
    """
    name, table = "vocabulary", "embeddings.word_embeddings.weight"
    first = graph.node(
        "Slice", [tokens, *(graph.constant(f"at_{n}", _integers(n)) for n in (0, 1, 1))], f"{name}.first"
    )
    mask = graph.node("Unsqueeze", ["attention_mask", graph.constant("axis_2", _integers(2))], f"{name}.mask")
    real = graph.node("Cast", [mask], f"{name}.real", to=TensorProto.BOOL)
    filled = graph.node("Where", [real, tokens, first], f"{name}.filled")
    flat = graph.node("Reshape", [filled, graph.constant("flat", _integers(-1, config.hidden_size))], f"{name}.flat")
    shape = graph.node("Shape", ["input_ids"], f"{name}.shape")
    apart = graph.node("Concat", [shape, graph.constant("rest", _integers(-1))], f"{name}.apart", axis=0)
    terms = graph.rows(table)
    sizes = [min(BLOCK, terms - start) for start in range(0, terms, BLOCK)]
    numbers = range(len(sizes))
    blocks = graph.nodes_of(
        "Split",
        [graph.weight(table), graph.constant(f"{name}.sizes", _integers(*sizes))],
        [f"{name}.block.{number}" for number in numbers],
        axis=0,
    )
    maxima: list[str] = []
    for number, block in zip(numbers, blocks, strict=True):
        products = graph.node("Gemm", [flat, block], f"{name}.products.{number}", transB=1)
        by_row = graph.node("Reshape", [products, apart], f"{name}.by_row.{number}")
        maxima.append(graph.node("ReduceMax", [by_row], f"{name}.maxima.{number}", axes=[1], keepdims=0))
    largest = graph.node("Concat", maxima, f"{name}.largest", axis=1)
    if bias is not None:
        largest = graph.node("Add", [largest, graph.weight(bias)], f"{name}.biased")
    return _output(graph.node("Identity", [largest], "vocabulary_maxima"), ["batch", terms])
