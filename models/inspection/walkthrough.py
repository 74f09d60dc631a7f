"""A forward pass step by step, as one position of one layer and one head sees it.

The numbers are those that the network computes on the way: its own modules run, in their own order, and what goes in
and comes out is recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from models.decoding.logits_processors import log_probabilities
from models.decoding.options import TokenRules
from models.inspection.forced_pass import one_row, require_inspectable
from models.inspection.head_selection import SelectionError, within
from models.networks.layers import Attended, Capture, FeedForward, MultiHeadAttention, Residual
from models.networks.transformer import Transformer

Values = tuple[float, ...] | tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class WalkedStep:
    """part: "embedding", "layer input", "self-attention", "cross-attention", "feed-forward" or "output". formula: plain
    text. shape: of the whole. values: a vector or the rows of a matrix, each row and their number cut where `shape`
    says more; -inf stands for scores that are masked. indices: which entries of the vector these are; None: the first.
    """

    part: str
    name: str
    formula: str
    shape: tuple[int, ...]
    values: Values
    indices: tuple[int, ...] | None = None


@dataclass(slots=True)
class WalkRecorder:
    """most: how many values of a vector are told; most_keys: of how many places."""

    most: int
    most_keys: int
    steps: list[WalkedStep] = field(default_factory=list)
    part: str = "embedding"

    def vector(self, name: str, formula: str, x: Tensor) -> None:
        """x [n]: of one place."""
        self._tell(name, formula, x, tuple(x[: self.most].double().tolist()))

    def keys(self, name: str, formula: str, x: Tensor) -> None:
        """x [K]: a number, or [K, n]: a vector, of each key."""
        shown = x[: self.most_keys].double()
        if x.dim() == 1:
            self._tell(name, formula, x, tuple(shown.tolist()))
        else:
            self._tell(name, formula, x, tuple(tuple(row) for row in shown[:, : self.most].tolist()))

    def largest(self, name: str, formula: str, x: Tensor) -> None:
        """x [V]: the largest ones."""
        values, places = x.double().topk(min(self.most, len(x)))
        step = WalkedStep(self.part, name, formula, (len(x),), tuple(values.tolist()), tuple(places.tolist()))
        self.steps.append(step)

    def _tell(self, name: str, formula: str, x: Tensor, values: Values) -> None:
        self.steps.append(WalkedStep(self.part, name, formula, tuple(x.shape), values))


class Focus(NamedTuple):
    """The layer, the head and the position that are told of, from 0."""

    layer: int
    head: int
    position: int


@dataclass(frozen=True, slots=True)
class SublayerRecorder:
    walk: WalkRecorder
    place: Focus
    activation: str

    def entering(self, x: Tensor) -> None:
        """x [1, T, C]: what the layer before left, if there was one."""
        if self.place.layer:
            self.walk.part = "layer input"
            self.walk.vector("layer input", f"x, as layer {self.place.layer - 1} left it", x[0, self.place.position])

    def attention(
        self,
        module: MultiHeadAttention,
        around: Residual,
        x: Tensor,
        memory: Tensor | None,
        mask: Tensor | None,
        part: str,
    ) -> Tensor:
        """memory: what keys and values come from; None: from where the queries do. mask None: each position sees itself
        and those before it."""
        self.walk.part = part
        entered = "n" if around.before else "x"

        def attend(y: Tensor) -> Tensor:
            capture = Capture(traced=0)
            if memory is None:
                query, key, value = module.query_key_value(y)
            else:
                query, (key, value) = module.query(y), module.key_value(memory)
            output = module.attend(query, key, value, mask, capture, causal=mask is None)
            assert capture.trace is not None
            self._head(module, capture.trace, entered, entered if memory is None else "m")
            self._heads(module, capture.trace, output)
            return output

        return self._around(around, x, attend)

    def feed_forward(self, module: FeedForward, around: Residual, x: Tensor) -> Tensor:
        self.walk.part = "feed-forward"
        at, entered = self.place.position, "n" if around.before else "x"

        def forward(y: Tensor) -> Tensor:
            wide = module.widen(y)
            active = module.activation(wide)
            narrow: Tensor = module.narrow(active)
            self.walk.vector("widen", f"w = {entered}·W_1 + b_1", wide[0, at])
            self.walk.vector("activation", f"a = {self.activation}(w)", active[0, at])
            self.walk.vector("narrow", "o = a·W_2 + b_2", narrow[0, at])
            return narrow

        return self._around(around, x, forward)

    def _around(self, around: Residual, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """The sublayer in its residual connection, with the norm and the sum."""
        at, added = self.place.position, list[Tensor]()

        def watched(y: Tensor) -> Tensor:
            if around.before:
                self.walk.vector("norm", "n = LayerNorm(x)", y[0, at])
            added.append(sublayer(y))
            return added[0]

        left: Tensor = around(x, watched)
        self.walk.vector("residual", "r = x + o", (x + added[0])[0, at])
        if not around.before:
            self.walk.vector("norm", "x' = LayerNorm(r)", left[0, at])
        return left

    def _head(self, module: MultiHeadAttention, trace: Attended, entered: str, read: str) -> None:
        walk, (_, head, at) = self.walk, self.place
        bias = "" if module.projection.bias is None else " + b"
        scores = masked = trace.scores[0, head, at]
        if trace.mask is not None:
            masked = scores.masked_fill(~trace.mask.expand(trace.scores.shape)[0, head, at], -torch.inf)
        walk.vector("query", f"q = {entered}·W_Q{bias}, head {head}", trace.query[0, head, at])
        walk.keys("keys", f"K = {read}·W_K{bias}, head {head}, a row for each key", trace.key[0, head])
        walk.keys("values", f"V = {read}·W_V{bias}, head {head}, a row for each key", trace.value[0, head])
        walk.keys("scores", f"s = {module.scale:.6g} · q·Kᵀ", scores)
        walk.keys("masked scores", "s where the key may be read, otherwise -inf", masked)
        walk.keys("softmax", "a = exp(s) / sum(exp(s))", trace.weights[0, head, at])
        walk.vector("context", "c = a·V", trace.context[0, head, at])

    def _heads(self, module: MultiHeadAttention, trace: Attended, output: Tensor) -> None:
        at, joined = self.place.position, f"[c_0 … c_{module.heads - 1}]"
        bias = "" if module.output.bias is None else " + b_O"
        self.walk.vector("heads concatenated", joined, trace.context.transpose(1, 2).flatten(2)[0, at])
        self.walk.vector("output projection", f"o = {joined}·W_O{bias}", output[0, at])


Side = Literal["encoder", "decoder"]


@torch.inference_mode()
def walkthrough(
    network: Transformer,
    source: Sequence[int],
    inputs: Sequence[int],
    *,
    side: Side,
    layer: int,
    head: int,
    position: int,
    rules: TokenRules,
    most: int = 8,
    most_keys: int = 64,
) -> list[WalkedStep]:
    """source: encoder ids; inputs: decoder ids. side: whose layer, head and position. Of each vector the first `most`
    values are told, of matrices by key the first `most_keys` keys, of logits and probabilities the `most` largest.
    rules: by which probabilities are counted. SelectionError for what is not there."""
    require_inspectable(network)
    if most < 1 or most_keys < 1:
        raise SelectionError("At least one value must be told of each vector.", "most")
    place = _resolved_focus(network, side, layer, head, position, len(source if side == "encoder" else inputs))
    walk = WalkRecorder(most, most_keys)
    if side == "encoder":
        _encoder(network, walk, place, one_row(source, network))
    else:
        memory = network.encode(one_row(source, network), Capture())
        _output(network, walk, place, _decoder(network, walk, place, one_row(inputs, network), *memory), rules)
    return walk.steps


def _resolved_focus(network: Transformer, side: str, layer: int, head: int, position: int, length: int) -> Focus:
    config = network.config
    if side not in ("encoder", "decoder"):
        raise SelectionError(f"There is no side {side!r}; the sides are encoder, decoder.", "side")
    depth = config.encoder_layers if side == "encoder" else config.decoder_layers
    return Focus(
        within(layer, depth, f"{side} layer", "layer"),
        within(head, config.heads, "head", "head"),
        within(position, length, "position", "position", f"the {side}'s input"),
    )


def _encoder(network: Transformer, walk: WalkRecorder, place: Focus, source: Tensor) -> None:
    mask = (source != network.config.pad)[:, None, None, :]
    x = _embedded(network, walk, place, network.source_embedding, source)
    for layer in network.encoder_layers[: place.layer]:
        x = layer(x, mask, Capture())
    told, layer = SublayerRecorder(walk, place, network.config.activation), network.encoder_layers[place.layer]
    told.entering(x)
    x = told.attention(layer.attention, layer.around_attention, x, None, mask, "self-attention")
    x = told.feed_forward(layer.feed_forward, layer.around_feed_forward, x)
    if place.layer == len(network.encoder) - 1:
        _final(network.encoder_norm, walk, place, x)


def _decoder(
    network: Transformer, walk: WalkRecorder, place: Focus, target: Tensor, memory: Tensor, readable: Tensor
) -> Tensor | None:
    """What goes into the output projection; None where another layer comes before that."""
    mask = readable[:, None, None, :]
    x = _embedded(network, walk, place, network.target_embedding, target)
    for layer in network.decoder_layers[: place.layer]:
        given = layer.cross_attention.key_value(memory)
        x = layer(x, lambda key, value: (key, value), None, given, mask, (Capture(), Capture()))
    told, layer = SublayerRecorder(walk, place, network.config.activation), network.decoder_layers[place.layer]
    told.entering(x)
    x = told.attention(layer.attention, layer.around_attention, x, None, None, "self-attention")
    x = told.attention(layer.cross_attention, layer.around_cross, x, memory, mask, "cross-attention")
    x = told.feed_forward(layer.feed_forward, layer.around_feed_forward, x)
    return _final(network.decoder_norm, walk, place, x) if place.layer == len(network.decoder) - 1 else None


def _embedded(network: Transformer, walk: WalkRecorder, place: Focus, embedding: nn.Module, ids: Tensor) -> Tensor:
    at, scale = place.position, network.embedding_scale
    row, x = embedding(ids)[0, at], network.embed(embedding, ids)
    walk.vector("token embedding", f"e = E[{int(ids[0, at])}]", row)
    walk.vector("scale", f"s = {scale:.6g} · e", row * scale)
    walk.vector("position", f"p = PE[{at}]", network.positions(ids.size(1))[at])
    walk.vector("sum", "x = s + p", x[0, at])
    return x


def _final(norm: nn.Module, walk: WalkRecorder, place: Focus, x: Tensor) -> Tensor:
    """What the stack gives, behind its own norm if it has one."""
    if isinstance(norm, nn.Identity):
        return x
    walk.part = "output"
    normed: Tensor = norm(x)
    walk.vector("final norm", "x' = LayerNorm(x)", normed[0, place.position])
    return normed


def _output(network: Transformer, walk: WalkRecorder, place: Focus, x: Tensor | None, rules: TokenRules) -> None:
    if x is None:
        return
    walk.part = "output"
    logits = network.project(x)[0, place.position]
    bias = "" if network.output_bias is None else " + b"
    walk.largest("logits", f"l = x'·Uᵀ{bias}", logits)
    probabilities = log_probabilities(logits[None], rules).double().exp()[0]
    walk.largest("probabilities", "exp(l) / sum(exp(l)), as decoding counts them", probabilities)
