"""Both ends of the network as functions that autograd knows: embeddings, and the loss from features."""

from __future__ import annotations

import ctypes
from ctypes import byref
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from models.native.training import structures
from models.native.training.frame import Dropping
from models.native.training.packing import Side
from models.native.training.structures import address, check, linear, matrix, readable

NORM_ROWS = 64  # of a block, as in norm.c
CHUNK = 768  # tokens whose logits are kept at a time, as in cross_entropy.c


class Embed(torch.autograd.Function):
    """table [V, C], positions [>= T, C] -> table[ids]·scale + position, dropped out, [N, C]."""

    @staticmethod
    def forward(
        ctx: Any, library: ctypes.CDLL, side: Side, table: Tensor, positions: Tensor, scale: float, dropping: Dropping
    ) -> Tensor:
        y = matrix(side.tokens, table.size(1))
        ctx.call = structures.Embedding(
            *(torch.get_num_threads(), side.tokens, table.size(1), len(table), address(side.ids), address(side.places)),
            *(address(table), address(positions), scale, dropping.structure(), address(y), None, None),
        )
        check(library.embedding(byref(ctx.call)))
        ctx.library, ctx.side, ctx.shape = library, side, table.shape
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
        dy, dtable = dy.contiguous(), torch.empty(ctx.shape)
        ctx.call.dy, ctx.call.dtable = address(dy), address(dtable)
        check(ctx.library.embedding_back(byref(ctx.call)))
        return None, None, dtable, None, None, None


class Norm(torch.autograd.Function):
    """x [N, C] -> its layer norm."""

    @staticmethod
    def forward(ctx: Any, library: ctypes.CDLL, x: Tensor, weight: Tensor, bias: Tensor, epsilon: float) -> Tensor:
        x, y, statistics = x.contiguous(), matrix(*x.shape), torch.empty(len(x), 2)
        around = structures.Around(x.size(1), 1, address(weight), address(bias), None, None, epsilon)
        around.x, around.y, around.statistics = address(x), address(y), address(statistics)
        ctx.call = structures.Norm(torch.get_num_threads(), len(x), around)
        check(library.norm(byref(ctx.call)))
        ctx.save_for_backward(x, weight, bias, statistics)
        ctx.library = library
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
        x, weight, bias, _ = ctx.saved_tensors
        dy, around = dy.contiguous(), ctx.call.around
        found = matrix(*x.shape), torch.empty_like(weight), torch.empty_like(bias)
        partial = torch.empty(-(-len(x) // NORM_ROWS), 2, x.size(1))
        around.dy, around.partial = address(dy), address(partial)
        around.dx, around.weight_gradient, around.bias_gradient = map(address, found)
        check(ctx.library.norm_back(byref(ctx.call)))
        return None, *found, None


class SmoothedCrossEntropy(torch.autograd.Function):
    """features [N, C], targets [N], weight [V, C], bias [V] or None -> the sum over the rows, as
    `Transformer.cross_entropy` has it. The gradients are made on the way there, block by block, while the logits are in
    the cache: once, for one backward pass."""

    @staticmethod
    def forward(
        ctx: Any,
        library: ctypes.CDLL,
        features: Tensor,
        targets: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        smoothing: float,
        pull: float,
        learns: bool,
    ) -> Tensor:
        x, held = readable(features), list[Tensor]()
        losses, outputs = torch.empty(len(x)), len(weight)
        call = structures.CrossEntropy(torch.get_num_threads(), len(x), linear(weight, bias, None, held), smoothing)
        call.pull = pull
        call.x, call.targets, call.losses = address(x), address(targets), address(losses)
        rows = CHUNK if pull else min(len(x), CHUNK)  # the second half of the rows has the second half of the room
        held.append(matrix(rows, outputs))
        call.dlogits = address(held[-1])
        if learns:
            found = matrix(*x.shape), torch.empty_like(weight), None if bias is None else torch.empty_like(bias)
            ctx.found = found
            back = linear(weight, bias, (found[1], found[2]), held)
            call.output.straight, call.dx = back.straight, address(found[0])
            call.output.weight_gradient, call.output.bias_gradient = back.weight_gradient, back.bias_gradient
        if len(x) and not 0 <= int(targets.min()) <= int(targets.max()) < outputs:
            raise IndexError("a token is not in the vocabulary")
        check(library.cross_entropy(byref(call)))
        return losses.sum(dtype=torch.float64).float()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dloss: Tensor) -> tuple[Any, ...]:
        if ctx.found is None:
            raise RuntimeError(
                "This loss was differentiated once already, which uses its gradients up: compute it anew."
            )
        dx, dweight, dbias = (None if each is None else each.mul_(dloss) for each in ctx.found)
        ctx.found = None
        return None, dx, None, dweight, dbias, None, None, None
