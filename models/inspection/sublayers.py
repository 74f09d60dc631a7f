"""The sublayers of one layer, told while they run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from models.attention import Attended, Capture, MultiHeadAttention
from models.inspection.walked import Walk
from models.layers import FeedForward, Residual


class Place(NamedTuple):
    """The layer, the head and the position that are told of, from 0."""

    layer: int
    head: int
    position: int


@dataclass(frozen=True, slots=True)
class Sublayers:
    walk: Walk
    place: Place
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
