"""A forward pass step by step, for one position of one layer and one head. Hooks record the inputs and outputs of the
modules during a normal pass, so the numbers are the network's own."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import cast

import torch
from msgspec.structs import replace
from torch import Tensor, nn

from models.decoding.logits_processors import log_probabilities
from models.decoding.options import TokenRules
from models.inspection.forced_pass import one_row, require_finite, require_inspectable
from models.inspection.results import Walkthrough, WalkthroughStep
from models.inspection.selection import KINDS, SelectionError, WalkthroughFocus, within
from models.networks.transformer import Attended, Capture, MultiHeadAttention, Transformer

STEPS_WITH_MINUS_INFINITY = ("masked scores", "logits")
FIRST, FINAL = "(first layer)", "(final norm)"  # keys beside the names of the layer's modules


@torch.inference_mode()
def walkthrough(
    network: Transformer, source: Sequence[int], inputs: Sequence[int], focus: WalkthroughFocus, rules: TokenRules
) -> Walkthrough:
    """source: encoder ids; inputs: decoder ids. Records the `focus.most` largest logits, and probabilities under
    `rules`. Omits steps an edited layer lacks. SelectionError for an unknown layer, head, position; NonFiniteOutput."""
    require_inspectable(network)
    if focus.most < 1 or focus.most_keys < 1:
        raise SelectionError("At least one value must be told of each vector.", "most")
    encoder, ids = focus.side == "encoder", source if focus.side == "encoder" else inputs
    focus = _resolved(network, focus, len(ids))
    layers, final = (network.encoder, network.encoder_norm) if encoder else (network.decoder, network.decoder_norm)
    layer, seen = layers[focus.layer], dict[str, tuple[Tensor, Tensor]]()

    def record(name: str, _: nn.Module, read: tuple[Tensor, ...], given: Tensor) -> None:
        if read:  # a parametrization has no inputs
            seen[name] = read[0], given

    captures = {kind: Capture(traced=focus.layer) for kind in KINDS}
    with contextlib.ExitStack() as hooks:
        for name, module in {**dict(layer.named_modules()), FIRST: layers[0], FINAL: final}.items():
            hooks.enter_context(module.register_forward_hook(partial(record, name)))
        memory, readable = network.encode(one_row(source, network), captures["encoder"])
        features = network.decode(one_row(inputs, network), memory, readable, (captures["decoder"], captures["cross"]))
    walk = Walk(focus, layer, seen)
    walk.embedding(network, network.source_embedding if encoder else network.target_embedding, ids[focus.position])
    if focus.layer:
        walk.part = "layer input"
        walk.position("layer input", f"x, as layer {focus.layer - 1} left it", seen[""][0])
    walk.attention("self-attention", "attention", "around_attention", captures["encoder" if encoder else "decoder"])
    if not encoder:
        walk.attention("cross-attention", "cross_attention", "around_cross", captures["cross"])
    walk.feed_forward(network.config.activation)
    if focus.layer == len(layers) - 1:
        walk.part = "output"
        if not isinstance(final, nn.Identity):
            walk.position("final norm", f"x' = {type(final).__name__}(x)", seen[FINAL][1])
        if not encoder:
            walk.output(network, network.project(features)[0, focus.position], rules)
    return Walkthrough(focus.layer, focus.head, focus.position, tuple(walk.steps))


def _resolved(network: Transformer, focus: WalkthroughFocus, length: int) -> WalkthroughFocus:
    config, side = network.config, focus.side
    if side not in ("encoder", "decoder"):
        raise SelectionError(f"There is no side {side!r}; the sides are encoder, decoder.", "side")
    depth = len(network.encoder if side == "encoder" else network.decoder)
    return replace(
        focus,
        layer=within(focus.layer, depth, f"{side} layer", "layer"),
        head=within(focus.head, config.heads, "head", "head"),
        position=within(focus.position, length, "position", "position", f"the {side}'s input"),
    )


@dataclass(slots=True)
class Walk:
    """Records steps. seen: module name in the layer ("": the layer) -> input and output. part: of the next steps."""

    focus: WalkthroughFocus
    layer: nn.Module
    seen: Mapping[str, tuple[Tensor, Tensor]]
    steps: list[WalkthroughStep] = field(default_factory=list)
    part: str = "embedding"

    def vector(self, name: str, formula: str, x: Tensor) -> None:
        """x [n]: at the recorded position."""
        self._record(name, formula, x, x[: self.focus.most])

    def position(self, name: str, formula: str, x: Tensor) -> None:
        """x [1, T, C]: takes the vector of the recorded position."""
        self.vector(name, formula, x[0, self.focus.position])

    def keys(self, name: str, formula: str, x: Tensor) -> None:
        """x [K] or [K, n]: a number or a vector per key."""
        shown = x[: self.focus.most_keys]
        self._record(name, formula, x, shown[:, : self.focus.most] if x.dim() > 1 else shown)

    def largest(self, name: str, formula: str, x: Tensor) -> None:
        """x [V]: records the largest entries."""
        values, places = x.double().topk(min(self.focus.most, len(x)))
        self._record(name, formula, x, values, tuple(places.tolist()))

    def _record(
        self, name: str, formula: str, x: Tensor, shown: Tensor, indices: tuple[int, ...] | None = None
    ) -> None:
        """NonFiniteOutput for NaN or infinity. -inf in masked scores and logits becomes None."""
        if name in STEPS_WITH_MINUS_INFINITY:
            require_finite(logits=shown)
        else:
            require_finite(shown)
        numbers = shown.double().view(len(shown), -1).tolist()
        rows = [tuple(number if number > -math.inf else None for number in row) for row in numbers]
        values = tuple(rows) if x.dim() > 1 else tuple(row[0] for row in rows)
        self.steps.append(WalkthroughStep(self.part, name, formula, tuple(x.shape), values, indices))

    def embedding(self, network: Transformer, embedding: nn.Module, token: int) -> None:
        """The embedding steps, up to the input of the first layer."""
        at, scale, x = self.focus.position, network.embedding_scale, self.seen[FIRST][0]
        row = embedding(torch.tensor([token], device=x.device))[0]
        self.vector("token embedding", f"e = E[{token}]", row)
        self.vector("scale", f"s = {scale:.6g} · e", row * scale)
        self.vector("position", f"p = PE[{at}]", network.position_vectors(at + 1)[at])
        self.position("sum", "x = s + p", x)

    def attention(self, part: str, name: str, around: str, capture: Capture) -> None:
        entered = self._enter(part, around)
        if capture.trace is not None and name in self.seen:
            module = cast(MultiHeadAttention, self.layer.get_submodule(name))
            self._head(module, capture.trace, entered, entered if name == "attention" else "m")
            joined = f"[c_0 … c_{module.heads - 1}]"
            bias = "" if module.output.bias is None else " + b_O"
            self.position("heads concatenated", joined, capture.trace.context.transpose(1, 2).flatten(2))
            self.position("output projection", f"o = {joined}·W_O{bias}", self.seen[name][1])
        self._leave(around, entered)

    def feed_forward(self, activation: str) -> None:
        entered = self._enter("feed-forward", around := "around_feed_forward")
        if "feed_forward.widen" in self.seen and "feed_forward.narrow" in self.seen:
            (_, wide), (active, narrow) = self.seen["feed_forward.widen"], self.seen["feed_forward.narrow"]
            self.position("widen", f"w = {entered}·W_1 + b_1", wide)
            self.position("activation", f"a = {activation}(w)", active)
            self.position("narrow", "o = a·W_2 + b_2", narrow)
        self._leave(around, entered)

    def output(self, network: Transformer, logits: Tensor, rules: TokenRules) -> None:
        """logits [V] at the recorded position."""
        bias = "" if network.output_bias is None else " + b"
        self.largest("logits", f"l = x'·Uᵀ{bias}", logits)
        probabilities = log_probabilities(logits[None], rules).double().exp()[0]
        self.largest("probabilities", "exp(l) / sum(exp(l)), as decoding counts them", probabilities)

    def _enter(self, part: str, around: str) -> str:
        """Records the norm before a pre-norm sublayer; returns the symbol of the sublayer's input."""
        self.part, norm = part, f"{around}.norm"
        if not getattr(getattr(self.layer, around, None), "before", False):
            return "x"
        if norm in self.seen:
            self.position("norm", f"n = {self._kind(norm)}(x)", self.seen[norm][1])
        return "n"

    def _leave(self, around: str, entered: str) -> None:
        """Records the residual connection, and the norm after it."""
        norm = f"{around}.norm"
        if around not in self.seen or norm not in self.seen:
            return
        summed, normed = self.seen[norm]
        if entered == "n":
            self.position("residual", "r = x + o", self.seen[around][1])
        else:
            self.position("residual", "r = x + o", summed)
            self.position("norm", f"x' = {self._kind(norm)}(r)", normed)

    def _kind(self, name: str) -> str:
        return type(self.layer.get_submodule(name)).__name__

    def _head(self, module: MultiHeadAttention, trace: Attended, entered: str, read: str) -> None:
        head, at = self.focus.head, self.focus.position
        bias = "" if module.projection.bias is None else " + b"
        scores = masked = trace.scores[0, head, at]
        if trace.mask is not None:
            masked = scores.masked_fill(~trace.mask.expand(trace.scores.shape)[0, head, at], -torch.inf)
        self.vector("query", f"q = {entered}·W_Q{bias}, head {head}", trace.query[0, head, at])
        self.keys("keys", f"K = {read}·W_K{bias}, head {head}, a row for each key", trace.key[0, head])
        self.keys("values", f"V = {read}·W_V{bias}, head {head}, a row for each key", trace.value[0, head])
        self.keys("scores", f"s = {module.scale:.6g} · q·Kᵀ", scores)
        self.keys("masked scores", "s where the key may be read, otherwise -inf", masked)
        self.keys("softmax", "a = exp(s) / sum(exp(s))", trace.weights[0, head, at])
        self.vector("context", "c = a·V", trace.context[0, head, at])
