"""`python -m workshop.training.export`: writes trained weights, averaged, as an fp32 model folder.

The int8 model that ships is made of it by quantise.py.
"""

import argparse
import json
import shutil
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file

from deploy.models.bert_graph import BertConfig, bert_model
from workshop.training.weights import Weights, read_weights


def encoder_graph(weights: Weights) -> onnx.ModelProto:
    """Builds the graph of a BERT; its output is `last_hidden_state`, fp32 [batch, tokens, width]."""
    layers = 1 + max(int(name.split(".")[2]) for name in weights if name.startswith("encoder.layer."))
    config = BertConfig(
        architectures=("BertModel",),
        hidden_act="gelu",
        hidden_size=len(weights["embeddings.LayerNorm.weight"]),
        layer_norm_eps=1e-12,
        num_attention_heads=12,
        num_hidden_layers=layers,
    )
    return bert_model(config, weights)


def cross_encoder_graph(weights: Weights) -> onnx.ModelProto:
    """Builds the graph of a BERT with pooler and classifier; its output is `logits`, fp32 [batch, 1]."""
    model = encoder_graph(weights)
    graph = model.graph
    for name in ("pooler.dense.weight", "pooler.dense.bias", "classifier.weight", "classifier.bias"):
        graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(weights[name]), name))
    graph.initializer.append(numpy_helper.from_array(np.array(0, dtype=np.int64), "first"))
    graph.node.extend(
        [
            helper.make_node("Gather", ["last_hidden_state", "first"], ["pooler.first"], name="pooler.first", axis=1),
            helper.make_node(
                "Gemm", ["pooler.first", "pooler.dense.weight", "pooler.dense.bias"], ["pooler.dense"],
                name="pooler.dense", transB=1,
            ),
            helper.make_node("Tanh", ["pooler.dense"], ["pooler.out"], name="pooler.out"),
            helper.make_node(
                "Gemm", ["pooler.out", "classifier.weight", "classifier.bias"], ["logits"], name="logits", transB=1
            ),
        ]
    )  # fmt: skip
    del graph.output[:]
    graph.output.append(helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 1]))
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights", type=Path, nargs="+", help="model.safetensors or model.onnx; several are averaged")
    parser.add_argument("--tokenizer", type=Path, default=Path(".models/all-MiniLM-L6-v2/tokenizer.json"))
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    read = [_read(path) for path in chosen.weights]
    weights = {name: np.stack([tensors[name] for tensors in read]).mean(axis=0, dtype=np.float32) for name in read[0]}
    model = cross_encoder_graph(weights)
    onnx.checker.check_model(model)
    chosen.out.mkdir(parents=True, exist_ok=True)
    (chosen.out / "model.onnx").write_bytes(model.SerializeToString(deterministic=True))
    shutil.copyfile(chosen.tokenizer, chosen.out / "tokenizer.json")
    (chosen.out / "config.json").write_text(json.dumps(_config(weights), indent=2) + "\n")


def _read(path: Path) -> Weights:
    if path.suffix == ".onnx":
        return read_weights(path)
    return {name.removeprefix("bert."): value for name, value in load_file(path).items()}


def _config(weights: Weights) -> dict[str, object]:
    return {
        "architectures": ["BertForSequenceClassification"],
        "model_type": "bert",
        "hidden_act": "gelu",
        "hidden_size": weights["embeddings.LayerNorm.weight"].shape[0],
        "intermediate_size": weights["encoder.layer.0.intermediate.dense.bias"].shape[0],
        "layer_norm_eps": 1e-12,
        "max_position_embeddings": weights["embeddings.position_embeddings.weight"].shape[0],
        "num_attention_heads": 12,
        "num_hidden_layers": 1 + max(int(name.split(".")[2]) for name in weights if name.startswith("encoder.layer.")),
        "num_labels": 1,
        "type_vocab_size": 2,
        "vocab_size": weights["embeddings.word_embeddings.weight"].shape[0],
    }


if __name__ == "__main__":
    main()
