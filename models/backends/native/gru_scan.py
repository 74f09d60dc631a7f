"""A GRU over whole sequences in fp32 on a CPU, with a hand-written backward pass, for training and scoring.

PyTorch's GRU runs a dozen memory-bound kernels per step, and one product per step for the gradient of the recurrent
matrix. Here a step is one product and one pass of C (`gru_steps.c`), and that gradient is one product over all steps.
The recurrent matrix is transposed once per sequence, because products of few rows are faster that way."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import c_int64, c_void_p
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from models.backends.native import build
from models.networks.recurrent import LayerScan, RecurrentLanguageModel, cell_difference


def kernels(tensor: Tensor) -> ctypes.CDLL | None:
    """The library for tensors like this one; None if PyTorch has to compute."""
    plain = tensor.device.type == "cpu" and tensor.dtype == torch.float32 and not torch.is_autocast_enabled("cpu")
    return build.fp32_library() if plain else None


def gru_layers(network: RecurrentLanguageModel) -> tuple[LayerScan | None, str]:
    """`RecurrentLanguageModel.scan` on these kernels, or None, and a clause with the reason."""
    if network.config.cell != "gru" or network.embedding is None:
        return None, "our kernels for whole sequences are for GRUs over embeddings"
    library = kernels(next(network.parameters()))
    if library is None:
        return None, "our kernels need fp32 on a CPU and a library that can be loaded"
    if changed := cell_difference(network):
        return None, changed

    def scan(number: int, features: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        weight, bias, _, recurrent_bias = network.parameters_of(number)
        projected = F.linear(features.transpose(0, 1), weight, bias)  # time first, so that a step is contiguous
        weight = network.recurrent_weight(number)
        states: Tensor = GruScan.apply(library, projected, h, weight, recurrent_bias)  # type: ignore[no-untyped-call]
        return states.transpose(0, 1), states[-1], states[-1]

    return scan, "its layers are exactly those that our kernels compute"


class ScannedGru:
    """A `TeacherForced` GRU that runs its layers on these kernels."""

    def __init__(self, network: RecurrentLanguageModel, scan: LayerScan) -> None:
        self.network, self.scan, self.project = network, scan, network.project

    @property
    def device(self) -> torch.device:
        return self.network.device

    def features(self, source: Tensor, target: Tensor) -> Tensor:
        return self.network.dropped(self.network.sequence(target, self.network.zeros(len(target)), self.scan)[0])


class GruScan(torch.autograd.Function):
    """projected [T, B, 3N]: the input's contribution to the gates r, z, n; hidden [B, N]: the initial state; weight
    [3N, N], bias [3N]: act on the hidden state. Returns the states after every step, [T, B, N]."""

    @staticmethod
    def forward(
        ctx: Any, library: ctypes.CDLL, projected: Tensor, hidden: Tensor, weight: Tensor, bias: Tensor
    ) -> Tensor:
        steps, rows, _ = projected.shape
        width = hidden.size(-1)
        projected, bias, turned = projected.contiguous(), bias.contiguous(), weight.t().contiguous()
        states = torch.cat([hidden[None], hidden.new_empty(steps, rows, width)])
        saved, product = hidden.new_empty(steps, rows, 4 * width), hidden.new_empty(rows, 3 * width)
        for t in range(steps):
            torch.mm(states[t], turned, out=product)
            _call(library.gru_forward, rows, width, projected[t], product, bias, states[t], states[t + 1], saved[t])
        ctx.library = library
        ctx.save_for_backward(states, saved, weight)
        return states[1:]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        states, saved, weight = ctx.saved_tensors
        steps, rows, width = grad.shape
        grad, d = grad.contiguous(), torch.empty_like(saved)
        direct, product = grad.new_zeros(rows, width), grad.new_zeros(rows, width)
        rolled = weight.roll(width, 0)  # n, r, z: the order in d of the product's gradient
        for t in reversed(range(steps)):
            _call(ctx.library.gru_backward, rows, width, grad[t], product, direct, saved[t], states[t], d[t])
            torch.mm(d[t, :, : 3 * width], rolled, out=product)
        of_product = d.flatten(0, 1)[:, : 3 * width]
        of_weight = of_product.t() @ states[:-1].flatten(0, 1)
        into_hidden = of_weight.roll(-width, 0), of_product.sum(0).roll(-width, 0)
        return None, d[:, :, width:], product + direct, *into_hidden


def _call(kernel: Callable[..., None], rows: int, width: int, *tensors: Tensor) -> None:
    kernel(c_int64(rows), c_int64(width), *(c_void_p(tensor.data_ptr()) for tensor in tensors))
