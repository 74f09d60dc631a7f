"""The layers of the Transformer as they are decoded: flat functions over tensors, no modules.

At few rows a step costs calls, not arithmetic, so these functions are compiled to TorchScript on CPUs (`compiled`),
which calls the same operators without Python between them. Where TorchScript is not to be had, Python runs them as
they stand. TorchScript reads annotations at run time, hence none are postponed in this file.
"""

import logging
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from models.backends.torch.products import Product, product

log = logging.getLogger(__name__)


class Norm(NamedTuple):
    """A residual connection's norm; `before`: pre-norm, it stands before the sublayer and not after the sum."""

    weight: Tensor
    bias: Tensor
    epsilon: float
    before: bool


class SelfAttention(NamedTuple):
    projection: Product
    output: Product
    around: Norm


class CrossAttention(NamedTuple):
    query: Product
    key_value: Product
    output: Product
    around: Norm


class FeedForward(NamedTuple):
    widen: Product
    narrow: Product
    activation: str
    around: Norm


class Encoding(NamedTuple):
    """One encoder layer."""

    attention: SelfAttention
    feed_forward: FeedForward


class Decoding(NamedTuple):
    """One decoder layer."""

    attention: SelfAttention
    cross: CrossAttention
    feed_forward: FeedForward


class Heads(NamedTuple):
    """The number of them, their width, and what q·k is multiplied by."""

    number: int
    width: int
    scale: float


def enter(norm: Norm, x: Tensor) -> Tensor:
    if norm.before:
        return F.layer_norm(x, [x.size(-1)], norm.weight, norm.bias, norm.epsilon)
    return x


def leave(norm: Norm, x: Tensor, y: Tensor) -> Tensor:
    """y is a product's fresh result, and is written to."""
    y = y.add_(x)
    if norm.before:
        return y
    return F.layer_norm(y, [x.size(-1)], norm.weight, norm.bias, norm.epsilon)


def attended(heads: Heads, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """query [B, H, Q, D] -> [B·Q, H·D]; mask: what is added to the scores."""
    context = F.scaled_dot_product_attention(query, key, value, mask, 0.0, False, scale=heads.scale)
    return context.transpose(1, 2).reshape(-1, heads.number * heads.width)


def split(heads: Heads, x: Tensor, rows: int) -> Tensor:
    """[rows·T, H·D] -> [rows, H, T, D]."""
    return x.view(rows, -1, heads.number, heads.width).transpose(1, 2)


def feed_forward(layer: FeedForward, x: Tensor) -> Tensor:
    wide = product(layer.widen, enter(layer.around, x))
    if layer.activation == "relu":
        wide = wide.relu_()
    elif layer.activation == "gelu":
        wide = F.gelu(wide)
    else:
        wide = F.silu(wide)
    return leave(layer.around, x, product(layer.narrow, wide))


def cross_attention(
    layer: CrossAttention, heads: Heads, x: Tensor, key: Tensor, value: Tensor, mask: Tensor | None
) -> Tensor:
    """x [R·Q, C]; key, value [R, H, S, D]: Q rows one after the other read the same source."""
    query = split(heads, product(layer.query, enter(layer.around, x)), key.size(0))
    return leave(layer.around, x, product(layer.output, attended(heads, query, key, value, mask)))


def encode(layers: list[Encoding], heads: Heads, x: Tensor, rows: int, mask: Tensor | None) -> Tensor:
    """All encoder layers over a padded batch whose positions stand one below the other, [B·S, C]."""
    for layer in layers:
        own = layer.attention
        parts = product(own.projection, enter(own.around, x)).chunk(3, dim=-1)
        context = attended(
            heads, split(heads, parts[0], rows), split(heads, parts[1], rows), split(heads, parts[2], rows), mask
        )
        x = feed_forward(layer.feed_forward, leave(own.around, x, product(own.output, context)))
    return x


def step(
    layers: list[Decoding],
    heads: Heads,
    x: Tensor,
    flat: list[Tensor],
    places: Tensor,
    keys: list[Tensor],
    values: list[Tensor],
    mask: Tensor | None,
    source_keys: list[Tensor],
    source_values: list[Tensor],
    source_mask: Tensor | None,
) -> Tensor:
    """All decoder layers over one new position of each row, [B, C]. For each layer: flat, the cache [slots·T, 2·H·D]
    whose `places` take the new keys and values; keys and values, views of it, [B, H, K, D]; and those of the sources,
    [R, H, S, D], each read by B/R rows one after the other."""
    inner = heads.number * heads.width
    for number, layer in enumerate(layers):
        own = layer.attention
        new = product(own.projection, enter(own.around, x))
        flat[number].index_copy_(0, places, new[:, inner:])
        query = split(heads, new[:, :inner], x.size(0))
        context = attended(heads, query, keys[number], values[number], mask)
        x = leave(own.around, x, product(own.output, context))
        x = cross_attention(layer.cross, heads, x, source_keys[number], source_values[number], source_mask)
        x = feed_forward(layer.feed_forward, x)
    return x


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` in TorchScript, which its makers keep but no longer develop; itself where that fails."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            scripted: Callable[..., Any] = torch.jit.script(function)
            return scripted
    except Exception as error:
        log.warning("TorchScript cannot compile %s; Python runs it, slower: %s", function.__name__, error)
        return function
