"""The kernels of the sublayers as functions that autograd knows. Rows are packed tokens; see `packing`."""

from __future__ import annotations

from ctypes import byref
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from models.native.training import structures
from models.native.training.frame import Around, Frame
from models.native.training.structures import address, check, linear, matrix, readable

Optional = Tensor | None


def empty(*tensors: Optional) -> tuple[Any, ...]:
    return tuple(None if tensor is None else torch.empty_like(tensor) for tensor in tensors)


class FeedForward(torch.autograd.Function):
    """x [N, C], the norm's weight and bias, those of both maps -> y [N, C]."""

    @staticmethod
    def forward(ctx: Any, frame: Frame, x: Tensor, *weights: Tensor) -> Tensor:
        weight, bias, widen, widen_bias, narrow, narrow_bias = weights
        x, held = readable(x), list[Tensor]()
        around, hidden = Around(frame, x, weight, bias), matrix(len(x), len(widen))
        y = around.forward()
        maps = linear(widen, widen_bias, None, held), linear(narrow, narrow_bias, None, held)
        call = structures.FeedForward(
            frame.packing(), around.structure, *maps, frame.inner.structure(), address(hidden), None
        )
        check(frame.library.feed_forward(byref(call)))
        ctx.save_for_backward(x, *weights, *around.kept, hidden)
        ctx.frame = frame
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
        frame: Frame = ctx.frame
        x, weight, bias, widen, widen_bias, narrow, narrow_bias, statistics, other, hidden = ctx.saved_tensors
        held, dy = list[Tensor](), dy.contiguous()
        around = Around(frame, x, weight, bias, (statistics, other))
        dx, dweight, dbias = around.backward(dy)
        found, dhidden = empty(widen, widen_bias, narrow, narrow_bias), matrix(*hidden.shape)
        maps = linear(widen, widen_bias, found[:2], held), linear(narrow, narrow_bias, found[2:], held)
        inner, hiddens = frame.inner.structure(), (address(hidden), address(dhidden))
        call = structures.FeedForward(frame.packing(), around.structure, *maps, inner, *hiddens)
        check(frame.library.feed_forward_back(byref(call)))
        return None, dx, dweight, dbias, *found


class Attention(torch.autograd.Function):
    """x [N, C], the memory [M, C] or None for self-attention, the norm's weight and bias, those of the projection of
    queries, keys and values and of the output -> y [N, C]."""

    @staticmethod
    def forward(ctx: Any, frame: Frame, x: Tensor, memory: Optional, *weights: Optional) -> Tensor:
        weight, bias = weights[:2]
        assert weight is not None
        assert bias is not None
        x, memory = readable(x), None if memory is None else readable(memory)
        inner, tokens = frame.heads * frame.head_width, len(x)
        around, held = Around(frame, x, weight, bias), list[Tensor]()
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
    def backward(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
        frame: Frame = ctx.frame
        x, memory, weight, bias, *saved = ctx.saved_tensors
        weights, kept, held, dy = saved[:4], tuple(saved[6:]), list[Tensor](), dy.contiguous()
        around = Around(frame, x, weight, bias, (saved[4], saved[5]))
        dx, dweight, dbias = around.backward(dy)
        found = empty(*weights)
        dprojected, dremembered = (None if each is None else matrix(*each.shape) for each in kept[:2])
        dmemory = None if memory is None else matrix(*memory.shape)
        call = _attention(frame, around, memory, weights, found, kept, (dprojected, dremembered, dmemory), held)
        check(frame.library.attention_back(byref(call)))
        return None, dx, dmemory, dweight, dbias, *found


def _attention(
    frame: Frame,
    around: Around,
    memory: Optional,
    weights: Any,
    found: Any,
    kept: tuple[Optional, ...],
    back: tuple[Optional, ...],
    held: list[Tensor],
) -> structures.Attention:
    """The structure of a call. Of cross-attention the projection is cut: queries come from one side, keys and values
    from the other."""
    projection, bias, output, output_bias = weights
    inner = frame.heads * frame.head_width

    def rows(part: slice) -> structures.Linear:
        cut = (found[0][part], None if bias is None else found[1][part]) if found else None
        return linear(projection[part], None if bias is None else bias[part], cut, held)

    parts = (
        (rows(slice(None)), structures.Linear()) if memory is None else (rows(slice(inner)), rows(slice(inner, None)))
    )
    return structures.Attention(
        *(frame.packing(), around.structure, *parts, linear(output, output_bias, found[2:] if found else None, held)),
        *(frame.heads, frame.head_width, frame.causal, frame.scale, frame.inner.structure()),
        *map(address, (memory, *kept, *back)),
    )
