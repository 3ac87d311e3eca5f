"""Quantisation-aware training for the last steps of a run, with the same scales as quantise.py.

The forward pass rounds activations and matrices; the backward pass ignores the rounding (straight-through estimator,
arXiv 1712.05877, section 3). The scales are calibrated once, at the start, and stay.
"""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import BertForSequenceClassification

from workshop.training.smoothing import ActivationRange, quantise_activation


def add_fake_quantisation(model: BertForSequenceClassification, run_calibration: Callable[[], object]) -> None:
    """Replaces every product that quantise.py computes in int8 by its fake-quantised one.

    `run_calibration` runs the model on the calibration pairs one by one, so that nothing is padded.
    """
    groups = list(_products(model))
    seen = [ActivationRange.empty(linears[0].in_features) for linears in groups]

    def watch(place: int, _: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        seen[place] = seen[place].widened(inputs[0].detach().float().cpu().numpy())

    hooks = [linears[0].register_forward_pre_hook(partial(watch, place)) for place, linears in enumerate(groups)]
    with torch.inference_mode():
        run_calibration()
    for hook in hooks:
        hook.remove()
    for linears, activation in zip(groups, seen, strict=True):
        chosen = quantise_activation(activation, [linear.weight.detach().float().cpu().numpy().T for linear in linears])
        for linear in linears:
            factors = torch.from_numpy(np.ascontiguousarray(chosen.factors)).to(linear.weight)
            linear.forward = partial(_fake_quantised, linear, factors, float(chosen.scale), chosen.zero)


def _products(model: BertForSequenceClassification) -> Iterator[list[nn.Linear]]:
    """Yields the linear layers, grouped by the activation that they read."""
    for layer in model.bert.encoder.layer:
        own = layer.attention.self
        yield [own.query, own.key, own.value]
        yield [layer.attention.output.dense]
        yield [layer.intermediate.dense]
        yield [layer.output.dense]


def _fake_quantised(linear: nn.Linear, factors: Tensor, scale: float, zero: int, values: Tensor) -> Tensor:
    """Computes the product in quantisation steps: whole numbers, which bf16 holds exactly."""
    near = torch.fake_quantize_per_tensor_affine(values.float() / factors, scale, zero, 0, 255) / scale
    matrix = linear.weight * factors
    spans = matrix.detach().abs().amax(dim=1).clamp_min(1e-8) / 127
    zeros = torch.zeros_like(spans, dtype=torch.int32)
    whole = torch.fake_quantize_per_channel_affine(matrix, spans, zeros, 0, -127, 127) / spans[:, None]
    return functional.linear(near, whole) * (spans * scale) + linear.bias
