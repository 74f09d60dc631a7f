"""What each of `triton_kernels`' functions computes, in PyTorch: the reference of their tests, and a launcher on any
device without Triton. Sums are at least float32, as there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from models.backends.cuda.launch import Launch
from models.backends.torch import token_choice

ACTIVATIONS: tuple[Callable[[Tensor], Tensor], ...] = (lambda x: x, F.relu, F.gelu, F.silu)


def launch(call: Launch) -> None:
    """A `models.backends.cuda.launch.Launcher`."""
    FUNCTIONS[call.kernel](*call.arguments, **dict(call.constants))


def embed(
    tokens: Tensor,
    lengths: Tensor,
    position_ids: Tensor,
    table: Tensor,
    position_table: Tensor,
    positions: Tensor,
    x: Tensor,
    scale: float,
    slot_length: int,
    width: int,
    **constants: int,
) -> None:
    rows = len(x)
    positions.copy_(lengths[:rows].clamp(max=slot_length - 1))
    lengths[:rows] += 1
    vectors = F.embedding(tokens[:rows], table).float() * scale
    x.copy_(vectors + F.embedding(position_ids[positions.long()], position_table).float())


def linear(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    norm_weight: Tensor,
    norm_bias: Tensor,
    residual: Tensor,
    kept: Tensor,
    out: Tensor,
    rows: int,
    outputs: int,
    inputs: int,
    epsilon: float,
    **constants: int,
) -> None:
    if constants["NORM"]:
        x = F.layer_norm(x.float(), (inputs,), norm_weight.float(), norm_bias.float(), epsilon).to(x.dtype)
        if constants["KEEP"]:
            kept.copy_(x)
    y = F.linear(x.float(), weight.float(), bias.float() if constants["BIAS"] else None)
    y = ACTIVATIONS[constants["ACTIVATION"]](y)
    out.copy_(y + residual.float() if constants["RESIDUAL"] else y)


def attend_own(
    qkv: Tensor,
    cache: Tensor,
    positions: Tensor,
    context: Tensor,
    scale: float,
    slot_length: int,
    heads: int,
    **constants: int,
) -> None:
    rows, places = torch.arange(len(qkv), device=qkv.device), positions.long()
    query, new = qkv.tensor_split([context.size(1)], dim=1)
    cache[rows, places] = new
    attend(query[:, None], cache[: len(qkv)], places + 1, context[:, None], scale, heads)


def attend_source(
    query: Tensor,
    cache: Tensor,
    lengths: Tensor,
    context: Tensor,
    scale: float,
    slot_length: int,
    heads: int,
    group: int,
    **constants: int,
) -> None:
    read = lengths[: len(query) : group].clamp(1, slot_length)
    blocks = query.view(-1, group, query.size(1)), context.view(-1, group, query.size(1))
    attend(blocks[0], cache[: len(query) : group], read, blocks[1], scale, heads)


def attend(query: Tensor, cache: Tensor, lengths: Tensor, context: Tensor, scale: float, heads: int) -> None:
    """query, context [R, Q, H·D]; cache [R, T, K|V]; lengths [R]: positions to attend to."""
    q, k, v = (x.float().view(*x.shape[:2], heads, -1).transpose(1, 2) for x in (query, *cache.chunk(2, dim=-1)))
    unread = torch.arange(cache.size(1), device=cache.device) >= lengths[:, None]
    # whatever lies beyond the length may be anything, NaN included
    k, v = (x.masked_fill(unread[:, None, :, None], 0.0) for x in (k, v))
    weights = (q @ k.transpose(-1, -2) * scale).masked_fill(unread[:, None, None, :], -torch.inf).softmax(dim=-1)
    context.copy_((weights @ v).transpose(1, 2).flatten(2))


def choose(
    logits: Tensor,
    suppressed: Tensor,
    fed: Tensor,
    written: Tensor,
    options: Tensor,
    uniform: Tensor,
    results: Tensor,
    vocabulary: int,
    count: int,
    longest: int,
    rows: int,
    stride: int,
    whole: float,
    **constants: int,
) -> None:
    shared = token_choice.suppress(logits, suppressed[:count], renormalise=bool(constants["RENORMALISE"]))
    tokens = logits.argmax(dim=-1)
    if constants["DRAW"]:
        places = written[:rows].clamp(max=longest - 1)
        numbers = uniform[:rows].gather(1, places[:, None])
        chosen = {
            name: column[:rows] if name == "top_k" else column[:rows].view(torch.float64)
            for name, column in zip(token_choice.OPTIONS, options, strict=True)
        }
        drawn = token_choice.draw(logits, chosen, numbers[:, 0], cut=True)
        tokens = torch.where(chosen["temperature"] > 0, drawn, tokens)
    results.view(2, rows).copy_(torch.stack([tokens.float(), logits.gather(1, tokens[:, None])[:, 0] - shared]))
    fed[:rows] = tokens
    written[:rows] += 1


def reorder(
    cache: Tensor, parents: Tensor, lengths: Tensor, slot_length: int, group: int, width: int, **constants: int
) -> None:
    rows = len(parents)
    written = torch.arange(slot_length, device=cache.device) < lengths[:rows, None]
    cache[:rows] = torch.where(written[:, :, None], cache[parents], cache[:rows])


def move(
    cache: Tensor, aside: Tensor, parents: Tensor, lengths: Tensor, slot_length: int, width: int, **constants: int
) -> None:
    rows = len(parents)
    moved = (parents != torch.arange(rows, device=cache.device))[:, None]
    moved = (moved & (torch.arange(slot_length, device=cache.device) < lengths[:rows, None]))[:, :, None]
    if constants["BACK"]:
        cache[:rows] = torch.where(moved, aside, cache[:rows])
    else:
        aside.copy_(torch.where(moved, cache[parents], aside))


def top_tokens(
    logits: Tensor,
    suppressed: Tensor,
    written: Tensor,
    values: Tensor,
    tokens: Tensor,
    vocabulary: int,
    count: int,
    best: int,
    **constants: int,
) -> None:
    shared = token_choice.suppress(logits, suppressed[:count], renormalise=bool(constants["RENORMALISE"]))
    order = logits.argsort(dim=-1, descending=True, stable=True)[:, :best]
    tokens.copy_(order)
    values.copy_(logits.gather(1, order) - shared[:, None])
    written[: len(logits)] += 1


def continue_beams(
    values: Tensor,
    tokens: Tensor,
    read: Tensor,
    write: Tensor,
    late: Tensor,
    totals: Tensor,
    fed: Tensor,
    parents: Tensor,
    results: Tensor,
    spare: int,
    width: int,
    best: int,
    kept: int,
    end: int,
    beams: int,
    **constants: int,
) -> None:
    columns = totals[: spare + 1], fed, parents
    found = token_choice.continue_beams(
        values[:, :best], tokens[:, :best], torch.stack([read, write]), late, columns, end
    )
    results.view(3, beams, kept).copy_(found)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "embed": embed,
    "linear": linear,
    "attend_own": attend_own,
    "attend_source": attend_source,
    "reorder": reorder,
    "move": move,
    "choose": choose,
    "top_tokens": top_tokens,
    "continue_beams": continue_beams,
}
