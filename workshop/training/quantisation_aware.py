"""The last steps of a run with the rounding of static int8: the weights learn to live with what quantise.py will do.

Forward, activations and matrices are rounded; backward, the rounding counts as if it were not there (quantisation-aware
training, arXiv 1712.05877, section 3). The scales are found once, when it begins, and stay.
"""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import BertForSequenceClassification

from workshop.training.smoothing import Range, steps


def round_products(model: BertForSequenceClassification, look: Callable[[], object]) -> None:
    """Every product that quantise.py computes in int8 is rounded like it from here on.

    `look` runs the model on the pairs that the scales are found on, one by one, so that nothing is padded.
    """
    groups = list(_products(model))
    seen = [Range.none(linears[0].in_features) for linears in groups]

    def watch(place: int, _: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        seen[place] = seen[place].joined(inputs[0].detach().float().cpu().numpy())

    hooks = [linears[0].register_forward_pre_hook(partial(watch, place)) for place, linears in enumerate(groups)]
    with torch.inference_mode():
        look()
    for hook in hooks:
        hook.remove()
    for linears, found in zip(groups, seen, strict=True):
        chosen = steps(found, [linear.weight.detach().float().cpu().numpy().T for linear in linears])
        for linear in linears:
            factors = torch.from_numpy(np.ascontiguousarray(chosen.factors)).to(linear.weight)
            linear.forward = partial(_rounded, linear, factors, float(chosen.scale), chosen.zero)


def _products(model: BertForSequenceClassification) -> Iterator[list[nn.Linear]]:
    """The linear layers, those together that read the same activation."""
    for layer in model.bert.encoder.layer:
        own = layer.attention.self
        yield [own.query, own.key, own.value]
        yield [layer.attention.output.dense]
        yield [layer.intermediate.dense]
        yield [layer.output.dense]


def _rounded(linear: nn.Linear, factors: Tensor, scale: float, zero: int, values: Tensor) -> Tensor:
    """In steps, which are whole numbers that bf16 holds exactly."""
    near = torch.fake_quantize_per_tensor_affine(values.float() / factors, scale, zero, 0, 255) / scale
    matrix = linear.weight * factors
    spans = matrix.detach().abs().amax(dim=1).clamp_min(1e-8) / 127
    zeros = torch.zeros_like(spans, dtype=torch.int32)
    whole = torch.fake_quantize_per_channel_affine(matrix, spans, zeros, 0, -127, 127) / spans[:, None]
    return functional.linear(near, whole) * (spans * scale) + linear.bias
