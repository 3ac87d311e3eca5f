"""Computes BERT as its paper writes it (Devlin et al. 2019), in fp64, for the small checkpoint of models.py."""

from collections.abc import Mapping, Sequence
from math import erf

import numpy as np
from numpy.typing import NDArray


def textbook_bert(
    weights: Mapping[str, NDArray[np.float32]], ids: Sequence[int], types: Sequence[int], seen: int | None = None
) -> NDArray[np.float64]:
    """Computes one unpadded row, [tokens, 8]. No token attends to those behind the first `seen`."""
    w = {name: values.astype(np.float64) for name, values in weights.items()}

    def linear(name: str, x: NDArray[np.float64]) -> NDArray[np.float64]:
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def norm(name: str, x: NDArray[np.float64]) -> NDArray[np.float64]:
        centred = x - x.mean(-1, keepdims=True)
        scaled: NDArray[np.float64] = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
        return scaled * w[f"{name}.weight"] + w[f"{name}.bias"]

    x = w["embeddings.word_embeddings.weight"][list(ids)] + w["embeddings.token_type_embeddings.weight"][list(types)]
    x = norm("embeddings.LayerNorm", x + w["embeddings.position_embeddings.weight"][: len(ids)])
    for layer in ("encoder.layer.0", "encoder.layer.1"):
        q, k, v = (linear(f"{layer}.attention.self.{part}", x) for part in ("query", "key", "value"))
        heads = []
        for at in (slice(0, 4), slice(4, 8)):
            scores = np.exp(q[:, at] @ k[:seen, at].T / 2.0)
            heads.append(scores / scores.sum(-1, keepdims=True) @ v[:seen, at])
        attended = linear(f"{layer}.attention.output.dense", np.concatenate(heads, -1))
        x = norm(f"{layer}.attention.output.LayerNorm", attended + x)
        wide = linear(f"{layer}.intermediate.dense", x)
        gelu = wide * np.vectorize(lambda value: (1 + erf(value / 2**0.5)) / 2)(wide)
        x = norm(f"{layer}.output.LayerNorm", linear(f"{layer}.output.dense", gelu) + x)
    return x
