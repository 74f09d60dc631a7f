"""A forward pass step by step, as one position of one layer and one head sees it.

The numbers are those that the network computes on the way: it runs as ever, and what its modules read and give
is recorded.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from models.decoding.logits_processors import log_probabilities
from models.decoding.options import TokenRules
from models.inspection.forced_pass import one_row, require_finite, require_inspectable
from models.inspection.results import Walkthrough, WalkthroughStep
from models.inspection.selection import KINDS, SelectionError, WalkthroughFocus, within
from models.networks.transformer import Attended, Capture, MultiHeadAttention, Transformer

STEPS_WITH_MINUS_INFINITY = ("masked scores", "logits")


@dataclass(slots=True)
class WalkRecorder:
    """most: how many values of a vector are recorded; most_keys: of how many keys."""

    most: int
    most_keys: int
    steps: list[WalkthroughStep] = field(default_factory=list)
    part: str = "embedding"

    def vector(self, name: str, formula: str, x: Tensor) -> None:
        """x [n]: at the recorded position."""
        self._record(name, formula, x, x[: self.most])

    def keys(self, name: str, formula: str, x: Tensor) -> None:
        """x [K]: a number, or [K, n]: a vector, of each key."""
        self._record(name, formula, x, x[: self.most_keys, : self.most] if x.dim() > 1 else x[: self.most_keys])

    def largest(self, name: str, formula: str, x: Tensor) -> None:
        """x [V]: the largest ones."""
        values, places = x.double().topk(min(self.most, len(x)))
        self._record(name, formula, x, values, tuple(places.tolist()))

    def _record(
        self, name: str, formula: str, x: Tensor, shown: Tensor, indices: tuple[int, ...] | None = None
    ) -> None:
        """NonFiniteOutput for what is no number; minus infinity, of masked scores and logits, becomes None."""
        if name in STEPS_WITH_MINUS_INFINITY:
            require_finite(logits=shown)
        else:
            require_finite(shown)
        rows = [
            [value if value > -math.inf else None for value in row]
            for row in shown.double().view(len(shown), -1).tolist()
        ]
        values = tuple(map(tuple, rows)) if x.dim() > 1 else tuple(row[0] for row in rows)
        self.steps.append(WalkthroughStep(self.part, name, formula, tuple(x.shape), values, indices))


class Focus(NamedTuple):
    """The layer, the head and the position that are told of, from 0."""

    layer: int
    head: int
    position: int


Seen = Mapping[str, tuple[Tensor, Tensor]]
"""The name of a module in the layer, "" for the layer -> what it read and what it gave."""


@torch.inference_mode()
def walkthrough(
    network: Transformer, source: Sequence[int], inputs: Sequence[int], focus: WalkthroughFocus, rules: TokenRules
) -> Walkthrough:
    """source: encoder ids; inputs: decoder ids. Of logits and probabilities the `focus.most` largest are recorded.
    rules: by which probabilities are counted. What an edited layer does not have or do is left out. SelectionError for
    what is not there; NonFiniteOutput."""
    require_inspectable(network)
    if focus.most < 1 or focus.most_keys < 1:
        raise SelectionError("At least one value must be told of each vector.", "most")
    side = focus.side
    place = _resolved_focus(network, focus, len(source if side == "encoder" else inputs))
    layers, final = (
        (network.encoder, network.encoder_norm) if side == "encoder" else (network.decoder, network.decoder_norm)
    )
    embedding = network.source_embedding if side == "encoder" else network.target_embedding
    watched = dict(layers[place.layer].named_modules())
    captures = {kind: Capture(traced=place.layer) for kind in KINDS}
    with _watched(watched) as seen, _watched({"first": layers[0], "final": final}) as ends:
        memory, readable = network.encode(one_row(source, network), captures["encoder"])
        features = network.decode(one_row(inputs, network), memory, readable, (captures["decoder"], captures["cross"]))
    walk, ids = WalkRecorder(focus.most, focus.most_keys), source if side == "encoder" else inputs
    _embedded(network, walk, place, embedding, ids[place.position], ends["first"][0])
    recorder = LayerRecorder(walk, place, network.config.activation, layers[place.layer], seen)
    if place.layer:
        recorder.vector("layer input", "layer input", f"x, as layer {place.layer - 1} left it", seen[""][0])
    recorder.attention("attention", "around_attention", captures["encoder" if side == "encoder" else "decoder"])
    if side == "decoder":
        recorder.attention("cross_attention", "around_cross", captures["cross"])
    recorder.feed_forward()
    if place.layer == len(layers) - 1:
        if not isinstance(final, nn.Identity):
            recorder.vector("output", "final norm", f"x' = {type(final).__name__}(x)", ends["final"][1])
        if side == "decoder":
            _output(network, walk, network.project(features)[0, place.position], rules)
    return Walkthrough(*place, tuple(walk.steps))


def _resolved_focus(network: Transformer, focus: WalkthroughFocus, length: int) -> Focus:
    config, side = network.config, focus.side
    if side not in ("encoder", "decoder"):
        raise SelectionError(f"There is no side {side!r}; the sides are encoder, decoder.", "side")
    depth = len(network.encoder if side == "encoder" else network.decoder)
    return Focus(
        within(focus.layer, depth, f"{side} layer", "layer"),
        within(focus.head, config.heads, "head", "head"),
        within(focus.position, length, "position", "position", f"the {side}'s input"),
    )


@contextlib.contextmanager
def _watched(modules: Mapping[str, nn.Module]) -> Iterator[Seen]:
    """What each module reads first and gives, while it runs."""
    seen: dict[str, tuple[Tensor, Tensor]] = {}
    handles = []
    for name, module in modules.items():

        def hook(_: nn.Module, read: tuple[Tensor, ...], given: Tensor, name: str = name) -> None:
            if read:  # a parametrization reads none
                seen[name] = read[0], given

        handles.append(module.register_forward_hook(hook))
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


@dataclass(frozen=True, slots=True)
class LayerRecorder:
    """What the modules of one layer read and gave in a pass, put in order."""

    walk: WalkRecorder
    place: Focus
    activation: str
    layer: nn.Module
    seen: Seen

    def vector(self, part: str, name: str, formula: str, x: Tensor) -> None:
        """x [1, T, C]."""
        self.walk.part = part
        self.walk.vector(name, formula, x[0, self.place.position])

    def attention(self, name: str, around: str, capture: Capture) -> None:
        part = self.walk.part = "self-attention" if name == "attention" else "cross-attention"
        self._entering(part, around)
        if capture.trace is not None and name in self.seen:
            module = cast(MultiHeadAttention, self.layer.get_submodule(name))
            entered = "n" if self._before(around) else "x"
            self._head(module, capture.trace, entered, entered if name == "attention" else "m")
            self._heads(module, capture.trace, self.seen[name][1])
        self._leaving(part, around)

    def feed_forward(self) -> None:
        self._entering("feed-forward", around := "around_feed_forward")
        entered = "n" if self._before(around) else "x"
        if "feed_forward.widen" in self.seen and "feed_forward.narrow" in self.seen:
            (_, wide), (active, narrow) = self.seen["feed_forward.widen"], self.seen["feed_forward.narrow"]
            self.vector("feed-forward", "widen", f"w = {entered}·W_1 + b_1", wide)
            self.vector("feed-forward", "activation", f"a = {self.activation}(w)", active)
            self.vector("feed-forward", "narrow", "o = a·W_2 + b_2", narrow)
        self._leaving("feed-forward", around)

    def _before(self, around: str) -> bool:
        return bool(getattr(getattr(self.layer, around, None), "before", False))

    def _entering(self, part: str, around: str) -> None:
        if self._before(around) and f"{around}.norm" in self.seen:
            kind = type(self.layer.get_submodule(f"{around}.norm")).__name__
            self.vector(part, "norm", f"n = {kind}(x)", self.seen[f"{around}.norm"][1])

    def _leaving(self, part: str, around: str) -> None:
        """The residual connection, and a norm behind it."""
        if around not in self.seen or f"{around}.norm" not in self.seen:
            return
        if self._before(around):
            self.vector(part, "residual", "r = x + o", self.seen[around][1])
            return
        summed, normed = self.seen[f"{around}.norm"]
        self.vector(part, "residual", "r = x + o", summed)
        kind = type(self.layer.get_submodule(f"{around}.norm")).__name__
        self.vector(part, "norm", f"x' = {kind}(r)", normed)

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


def _embedded(
    network: Transformer, walk: WalkRecorder, place: Focus, embedding: nn.Module, token: int, x: Tensor
) -> None:
    """x [1, T, C]: what the first layer reads."""
    at, scale = place.position, network.embedding_scale
    row = embedding(torch.tensor([token], device=x.device))[0]
    walk.vector("token embedding", f"e = E[{token}]", row)
    walk.vector("scale", f"s = {scale:.6g} · e", row * scale)
    walk.vector("position", f"p = PE[{at}]", network.position_vectors(at + 1)[at])
    walk.vector("sum", "x = s + p", x[0, at])


def _output(network: Transformer, walk: WalkRecorder, logits: Tensor, rules: TokenRules) -> None:
    """logits [V], of one position."""
    walk.part = "output"
    bias = "" if network.output_bias is None else " + b"
    walk.largest("logits", f"l = x'·Uᵀ{bias}", logits)
    probabilities = log_probabilities(logits[None], rules).double().exp()[0]
    walk.largest("probabilities", "exp(l) / sum(exp(l)), as decoding counts them", probabilities)
