"""The C kernels as autograd functions: embeddings, sublayers, the final norm, and the loss. Rows are packed tokens."""

from __future__ import annotations

import ctypes
from ctypes import byref
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from training.kernels import packing
from training.kernels.packing import Dropout, Packed, Side, address, check, linear, matrix, readable

Context: TypeAlias = Any  # the autograd context
OptionalTensor = Tensor | None


@dataclass(frozen=True, slots=True)
class Frame:
    """A sublayer's arguments besides weights. side: of its rows. inner: dropout of activation or attention weights."""

    library: ctypes.CDLL
    packed: Packed
    side: Side
    before: bool
    epsilon: float
    residual: Dropout
    inner: Dropout
    heads: int
    head_width: int
    causal: bool
    scale: float


class ResidualNorm:
    """The norm, residual and dropout around a sublayer in one call. x [N, C]; weight, bias [C]: of the norm. kept:
    saved by the forward pass for the backward pass."""

    def __init__(
        self, frame: Frame, x: Tensor, weight: Tensor, bias: Tensor, kept: tuple[Tensor, Tensor] | None = None
    ) -> None:
        self.frame, self.x = frame, x
        # statistics; normed input (pre-norm) or residual sum (post-norm)
        self.kept = kept or (torch.empty(len(x), 2), matrix(*x.shape))
        statistics, other = map(address, self.kept)
        self.structure = packing.ResidualNorm(
            *(x.size(1), frame.before, address(weight), address(bias), None, None, frame.epsilon),
            *(frame.residual, address(x), None, statistics),
            *((other, None) if frame.before else (None, other)),
        )

    def forward(self) -> Tensor:
        """Allocates y [N, C] for the kernel to fill."""
        y = matrix(*self.x.shape)
        self.structure.y = address(y)
        return y

    def backward(self, dy: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Allocates dx and the gradients of the norm's weight and bias for the kernel to fill."""
        width, blocks = self.x.size(1), len(self.frame.packed.first) - 1
        self.room = dy, matrix(*self.x.shape), torch.empty(blocks, 2, width)
        found = matrix(*self.x.shape), torch.empty(width), torch.empty(width)
        for name, tensor in zip(("dy", "dropped", "partial"), self.room, strict=True):
            setattr(self.structure, name, address(tensor))
        for name, tensor in zip(("dx", "weight_gradient", "bias_gradient"), found, strict=True):
            setattr(self.structure, name, address(tensor))
        return found


NORM_ROWS = 64  # rows of a block, as in norm.c
CHUNK = 768  # tokens per block of logits, as in cross_entropy.c


class Embed(torch.autograd.Function):
    """table [V, C], positions [>= T, C] -> dropout(table[ids]·scale + position), [N, C]."""

    @staticmethod
    def forward(
        ctx: Context, library: ctypes.CDLL, side: Side, table: Tensor, positions: Tensor, scale: float, dropout: Dropout
    ) -> Tensor:
        y = matrix(len(side.ids), table.size(1))
        ctx.call = packing.Embedding(
            *(torch.get_num_threads(), len(side.ids), table.size(1), len(table)),
            *map(address, (side.ids, side.places, table, positions)),
            *(scale, dropout, address(y), None, None),
        )
        check(library.embedding(byref(ctx.call)))
        ctx.library, ctx.side, ctx.shape = library, side, table.shape
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, dy: Tensor) -> tuple[OptionalTensor, ...]:
        dy, dtable = dy.contiguous(), torch.empty(ctx.shape)
        ctx.call.dy, ctx.call.dtable = address(dy), address(dtable)
        check(ctx.library.embedding_back(byref(ctx.call)))
        return None, None, dtable, None, None, None


class Norm(torch.autograd.Function):
    """Layer norm of x [N, C]."""

    @staticmethod
    def forward(ctx: Context, library: ctypes.CDLL, x: Tensor, weight: Tensor, bias: Tensor, epsilon: float) -> Tensor:
        x, y, statistics = x.contiguous(), matrix(*x.shape), torch.empty(len(x), 2)
        around = packing.ResidualNorm(x.size(1), 1, address(weight), address(bias), None, None, epsilon)
        around.x, around.y, around.statistics = address(x), address(y), address(statistics)
        ctx.call = packing.Norm(torch.get_num_threads(), len(x), around)
        check(library.norm(byref(ctx.call)))
        ctx.save_for_backward(x, weight, bias, statistics)
        ctx.library = library
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, dy: Tensor) -> tuple[OptionalTensor, ...]:
        x, weight, bias, _ = ctx.saved_tensors
        dy, around = dy.contiguous(), ctx.call.around
        found = matrix(*x.shape), torch.empty_like(weight), torch.empty_like(bias)
        partial = torch.empty(-(-len(x) // NORM_ROWS), 2, x.size(1))
        around.dy, around.partial = address(dy), address(partial)
        around.dx, around.weight_gradient, around.bias_gradient = map(address, found)
        check(ctx.library.norm_back(byref(ctx.call)))
        return None, *found, None


class SmoothedCrossEntropy(torch.autograd.Function):
    """features [N, C], targets [N], weight [V, C], bias [V] or None -> the loss summed over rows, as in
    `TranslatorBackend.cross_entropy`. The forward pass also computes the gradients, block by block while the logits are
    cached, so only one backward pass is possible."""

    @staticmethod
    def forward(
        ctx: Context,
        library: ctypes.CDLL,
        features: Tensor,
        targets: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        smoothing: float,
        learns: bool,
    ) -> Tensor:
        x, held = readable(features), list[Tensor]()
        losses, outputs = torch.empty(len(x)), len(weight)
        call = packing.CrossEntropy(torch.get_num_threads(), len(x), linear(weight, bias, None, held), smoothing)
        call.x, call.targets, call.losses = address(x), address(targets), address(losses)
        held.append(matrix(min(len(x), CHUNK), outputs))
        call.dlogits = address(held[-1])
        if learns:
            ctx.found = found = matrix(*x.shape), *empty_like(weight, bias)
            back = linear(weight, bias, (found[1], found[2]), held)
            call.output.straight, call.dx = back.straight, address(found[0])
            call.output.weight_gradient, call.output.bias_gradient = back.weight_gradient, back.bias_gradient
        if len(x) and not 0 <= int(targets.min()) <= int(targets.max()) < outputs:
            raise IndexError("a token is not in the vocabulary")
        check(library.cross_entropy(byref(call)))
        return losses.sum(dtype=torch.float64).float()

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, dloss: Tensor) -> tuple[OptionalTensor, ...]:
        if ctx.found is None:
            raise RuntimeError(
                "This loss was differentiated once already, which uses its gradients up: compute it anew."
            )
        dx, dweight, dbias = (None if each is None else each.mul_(dloss) for each in ctx.found)
        ctx.found = None
        return None, dx, None, dweight, dbias, None, None


def empty_like(*tensors: OptionalTensor) -> tuple[Any, ...]:
    return tuple(None if tensor is None else torch.empty_like(tensor) for tensor in tensors)


class FeedForward(torch.autograd.Function):
    """x [N, C], weight and bias of the norm and of both linear maps -> y [N, C]."""

    @staticmethod
    def forward(ctx: Context, frame: Frame, x: Tensor, *weights: Tensor) -> Tensor:
        weight, bias, widen, widen_bias, narrow, narrow_bias = weights
        x, held = readable(x), list[Tensor]()
        around, hidden = ResidualNorm(frame, x, weight, bias), matrix(len(x), len(widen))
        y = around.forward()
        maps = linear(widen, widen_bias, None, held), linear(narrow, narrow_bias, None, held)
        call = packing.FeedForward(
            frame.packed.packing(frame.side), around.structure, *maps, frame.inner, address(hidden), None
        )
        check(frame.library.feed_forward(byref(call)))
        ctx.save_for_backward(x, *weights, *around.kept, hidden)
        ctx.frame = frame
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, dy: Tensor) -> tuple[OptionalTensor, ...]:
        frame: Frame = ctx.frame
        x, weight, bias, widen, widen_bias, narrow, narrow_bias, statistics, other, hidden = ctx.saved_tensors
        held, dy = list[Tensor](), dy.contiguous()
        around = ResidualNorm(frame, x, weight, bias, (statistics, other))
        dx, dweight, dbias = around.backward(dy)
        found, dhidden = empty_like(widen, widen_bias, narrow, narrow_bias), matrix(*hidden.shape)
        maps = linear(widen, widen_bias, found[:2], held), linear(narrow, narrow_bias, found[2:], held)
        inner, hiddens = frame.inner, (address(hidden), address(dhidden))
        call = packing.FeedForward(frame.packed.packing(frame.side), around.structure, *maps, inner, *hiddens)
        check(frame.library.feed_forward_back(byref(call)))
        return None, dx, dweight, dbias, *found


class Attention(torch.autograd.Function):
    """x [N, C], memory [M, C] or None (self-attention), weights and biases of norm, projection, output -> y [N, C]."""

    @staticmethod
    def forward(ctx: Context, frame: Frame, x: Tensor, memory: OptionalTensor, *weights: OptionalTensor) -> Tensor:
        weight, bias = weights[:2]
        assert weight is not None and bias is not None
        x, memory = readable(x), None if memory is None else readable(memory)
        inner, tokens = frame.heads * frame.head_width, len(x)
        around, held = ResidualNorm(frame, x, weight, bias), list[Tensor]()
        y = around.forward()
        projected = matrix(tokens, 3 * inner if memory is None else inner)
        remembered = None if memory is None else matrix(len(memory), 2 * inner)
        kept = projected, remembered, matrix(tokens, inner), torch.empty(tokens, frame.heads)
        call = _attention(frame, around, memory, weights[2:], None, kept, (None,) * 3, held)
        check(frame.library.attention(byref(call)))
        ctx.save_for_backward(x, memory, *weights, *around.kept, *kept)
        ctx.frame = frame
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, dy: Tensor) -> tuple[OptionalTensor, ...]:
        frame: Frame = ctx.frame
        x, memory, weight, bias, *saved = ctx.saved_tensors
        weights, kept, held, dy = saved[:4], tuple(saved[6:]), list[Tensor](), dy.contiguous()
        around = ResidualNorm(frame, x, weight, bias, (saved[4], saved[5]))
        dx, dweight, dbias = around.backward(dy)
        found = empty_like(*weights)
        dprojected, dremembered = (None if each is None else matrix(*each.shape) for each in kept[:2])
        dmemory = None if memory is None else matrix(*memory.shape)
        call = _attention(frame, around, memory, weights, found, kept, (dprojected, dremembered, dmemory), held)
        check(frame.library.attention_back(byref(call)))
        return None, dx, dmemory, dweight, dbias, *found


def _attention(
    frame: Frame,
    around: ResidualNorm,
    memory: OptionalTensor,
    weights: Any,
    found: Any,
    kept: tuple[OptionalTensor, ...],
    back: tuple[OptionalTensor, ...],
    held: list[Tensor],
) -> packing.Attention:
    """The structure of a call. Cross-attention splits the projection: target queries, source keys and values."""
    projection, bias, output, output_bias = weights
    inner = frame.heads * frame.head_width

    def rows(part: slice) -> packing.Linear:
        cut = (found[0][part], None if bias is None else found[1][part]) if found else None
        return linear(projection[part], None if bias is None else bias[part], cut, held)

    parts = (rows(slice(None)), packing.Linear()) if memory is None else (rows(slice(inner)), rows(slice(inner, None)))
    joining = linear(output, output_bias, found[2:] if found else None, held)
    return packing.Attention(
        *(frame.packed.packing(frame.side), around.structure, *parts, joining),
        *(frame.heads, frame.head_width, frame.causal, frame.scale, frame.inner),
        *map(address, (memory, *kept, *back)),
    )
