"""What stands around every sublayer, as its kernels are told of it."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import torch
from torch import Tensor

from models.native.training import structures
from models.native.training.packing import Packed
from models.native.training.structures import address, matrix


@dataclass(frozen=True, slots=True)
class Dropping:
    """A site of dropout: what its draws hang on, and the rate."""

    key: int
    rate: float

    def structure(self) -> structures.Dropout:
        return structures.Dropout(self.key, self.rate)


@dataclass(frozen=True, slots=True)
class Frame:
    """What a sublayer has beside its weights. reads_source: its rows are the source's. inner: dropout of the
    activation, or of the attention's weights."""

    library: ctypes.CDLL
    packed: Packed
    reads_source: bool
    before: bool
    epsilon: float
    residual: Dropping
    inner: Dropping
    heads: int = 0
    head_width: int = 0
    causal: bool = False
    scale: float = 1.0

    def packing(self) -> structures.Packing:
        return self.packed.of_source() if self.reads_source else self.packed.of_target()


class Around:
    """Of one call. x [N, C]; weight, bias [C]: the norm's. kept: what the forward pass left for the way back."""

    def __init__(
        self, frame: Frame, x: Tensor, weight: Tensor, bias: Tensor, kept: tuple[Tensor, Tensor] | None = None
    ) -> None:
        self.frame, self.x = frame, x
        self.kept = kept or (torch.empty(len(x), 2), matrix(*x.shape))  # statistics; what was normed, or the sum
        statistics, other = map(address, self.kept)
        self.structure = structures.Around(
            *(x.size(1), frame.before, address(weight), address(bias), None, None, frame.epsilon),
            *(frame.residual.structure(), address(x), None, statistics),
            *((other, None) if frame.before else (None, other)),
        )

    @property
    def read(self) -> Tensor:
        """What the sublayer itself reads."""
        return self.kept[1] if self.frame.before else self.x

    def forward(self) -> Tensor:
        """y [N, C], yet to be written."""
        y = matrix(*self.x.shape)
        self.structure.y = address(y)
        return y

    def backward(self, dy: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """dx and the gradients of the norm's weight and bias, yet to be written."""
        width, blocks = self.x.size(1), len(self.frame.packed.first) - 1
        self.room = dy, matrix(*self.x.shape), torch.empty(blocks, 2, width)
        found = matrix(*self.x.shape), torch.empty(width), torch.empty(width)
        for name, tensor in zip(("dy", "dropped", "partial"), self.room, strict=True):
            setattr(self.structure, name, address(tensor))
        for name, tensor in zip(("dx", "weight_gradient", "bias_gradient"), found, strict=True):
            setattr(self.structure, name, address(tensor))
        return found
