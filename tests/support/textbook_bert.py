"""Computes a BERT of two layers and two heads from the paper, in fp64 and unpadded, and heads over its vocabulary."""

from collections.abc import Mapping, Sequence
from math import erf

import numpy as np
from numpy.typing import NDArray

Float64 = NDArray[np.float64]
Weights = Mapping[str, NDArray[np.float32]]


def textbook_bert(weights: Weights, ids: Sequence[int], types: Sequence[int], seen: int | None = None) -> Float64:
    """Returns the token vectors of one row: [tokens, width]. No token attends to those behind the first `seen`.

    Tensors are named as in transformers' BertModel (Devlin et al. 2019).
    """
    table = weights["embeddings.word_embeddings.weight"].astype(np.float64)
    half = table.shape[1] // 2
    x = table[list(ids)] + weights["embeddings.token_type_embeddings.weight"].astype(np.float64)[list(types)]
    x = _norm(weights, "embeddings.LayerNorm", x + weights["embeddings.position_embeddings.weight"][: len(ids)])
    for layer in ("encoder.layer.0", "encoder.layer.1"):
        q, k, v = (_linear(weights, f"{layer}.attention.self.{part}", x) for part in ("query", "key", "value"))
        heads = []
        for at in (slice(0, half), slice(half, 2 * half)):
            scores = np.exp(q[:, at] @ k[:seen, at].T / half**0.5)
            heads.append(scores / scores.sum(-1, keepdims=True) @ v[:seen, at])
        attended = _linear(weights, f"{layer}.attention.output.dense", np.concatenate(heads, -1))
        x = _norm(weights, f"{layer}.attention.output.LayerNorm", attended + x)
        narrow = _linear(weights, f"{layer}.output.dense", _gelu(_linear(weights, f"{layer}.intermediate.dense", x)))
        x = _norm(weights, f"{layer}.output.LayerNorm", narrow + x)
    return x


def textbook_splade(weights: Weights, ids: list[int]) -> Float64:
    """Returns the weight of every term of the vocabulary (SPLADE v2, equations 1 and 6): [vocabulary]."""
    x = _gelu(_linear(weights, "cls.predictions.transform.dense", textbook_bert(weights, ids, [0] * len(ids))))
    x = _norm(weights, "cls.predictions.transform.LayerNorm", x)
    logits = x @ weights["embeddings.word_embeddings.weight"].T + weights["cls.predictions.bias"]
    return np.asarray(np.log1p(np.maximum(logits, 0)).max(0))


def textbook_sparta(weights: Weights, ids: list[int], bias: float) -> Float64:
    """Returns the weight of every term of the vocabulary (SPARTA): [vocabulary]."""
    products = textbook_bert(weights, ids, [0] * len(ids)) @ weights["embeddings.word_embeddings.weight"].T
    return np.asarray(np.log1p(np.maximum(products.max(0) + bias, 0)))


def heaviest(weights: Float64, most: int, special: set[int]) -> dict[int, float]:
    """Returns the weights above 0 of the heaviest terms by number, equal ones by ascending number."""
    found = {term: weight for term, weight in enumerate(weights.tolist()) if weight > 0 and term not in special}
    return dict(sorted(sorted(found.items(), key=lambda one: (-one[1], one[0]))[:most]))


def _linear(weights: Weights, name: str, x: Float64) -> Float64:
    return np.asarray(x @ weights[f"{name}.weight"].T.astype(np.float64) + weights[f"{name}.bias"])


def _norm(weights: Weights, name: str, x: Float64) -> Float64:
    centred = x - x.mean(-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
    return np.asarray(scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"])


def _gelu(x: Float64) -> Float64:
    values = [value * (1 + erf(value / 2**0.5)) / 2 for value in x.ravel().tolist()]
    return np.array(values).reshape(x.shape)
