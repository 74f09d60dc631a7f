"""The Transformer in NumPy's float64, from the bare matrices and the papers: an independent walkthrough."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from models.networks.transformer import Transformer

Array = npt.NDArray[np.float64]
Steps = list[tuple[str, Array]]
ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2,
}


class InNumpy:
    def __init__(self, network: Transformer) -> None:
        self.config = network.config
        self.w: dict[str, Array] = {name: value.double().numpy() for name, value in network.state_dict().items()}
        self.steps: Steps = []

    def linear(self, name: str, x: Array, rows: slice = slice(None)) -> Array:
        bias = self.w.get(f"{name}.bias")
        return x @ self.w[f"{name}.weight"][rows].T + (0 if bias is None else bias[rows])

    def norm(self, name: str, x: Array) -> Array:
        middle = x - x.mean(-1, keepdims=True)
        scaled = middle / np.sqrt((middle**2).mean(-1, keepdims=True) + self.config.norm_epsilon)
        return scaled * self.w[f"{name}.weight"] + self.w[f"{name}.bias"]

    def embedded(self, table: str, ids: list[int], at: int) -> Array:
        width = self.config.d_model
        places = np.zeros((len(ids), width))
        for p in range(len(ids)):
            for i in range(width // 2):
                angle = p / 10000 ** (2 * i / width)
                sine, cosine = (2 * i, 2 * i + 1) if self.config.positions == "interleaved" else (i, width // 2 + i)
                places[p, sine], places[p, cosine] = math.sin(angle), math.cos(angle)
        rows = self.w[f"{table}.weight"][ids]
        scaled = rows * (math.sqrt(width) if self.config.scale_embedding else 1.0)
        self.tell(at, ("token embedding", rows), ("scale", scaled), ("position", places), ("sum", scaled + places))
        return scaled + places

    def tell(self, at: int | None, *pairs: tuple[str, Array]) -> None:
        if at is not None:
            self.steps += [(name, x[at]) for name, x in pairs]

    def around(self, name: str, x: Array, sublayer: Callable[[Array], Array], at: int | None) -> Array:
        if self.config.norm == "pre":
            entered = self.norm(name, x)
            self.tell(at, ("norm", entered))
            left = x + sublayer(entered)
            self.tell(at, ("residual", left))
            return left
        summed = x + sublayer(x)
        left = self.norm(name, summed)
        self.tell(at, ("residual", summed), ("norm", left))
        return left

    def attention(self, name: str, x: Array, y: Array, seen: Array, at: int | None, head: int) -> Array:
        heads, width = self.config.heads, self.config.head_width
        inner, contexts, per_head = heads * width, list[Array](), list[Steps]()
        for h in range(heads):
            own = [slice(part * inner + h * width, part * inner + (h + 1) * width) for part in range(3)]
            q, k, v = (self.linear(f"{name}.projection", z, rows) for z, rows in zip((x, y, y), own, strict=True))
            scores = q @ k.T * (self.config.attention_scale or 1 / math.sqrt(width))
            masked = np.where(seen, scores, -np.inf)
            weights = np.exp(masked - masked.max(-1, keepdims=True))
            weights /= weights.sum(-1, keepdims=True)
            contexts.append(weights @ v)
            if at is not None:
                numbers: Any = (q[at], k, v, scores[at], masked[at], weights[at], contexts[h][at])
                names = ("query", "keys", "values", "scores", "masked scores", "softmax", "context")
                per_head.append(list(zip(names, numbers, strict=True)))
        joined = np.concatenate(contexts, axis=-1)
        output = self.linear(f"{name}.output", joined)
        if at is not None:
            self.steps += [*per_head[head], ("heads concatenated", joined[at]), ("output projection", output[at])]
        return output

    def layer(
        self, side: str, number: int, x: Array, memory: Array | None, seen: list[Array], at: int | None, head: int
    ) -> Array:
        name = f"{side}.{number}"
        if number:
            self.tell(at, ("layer input", x))

        def self_attention(y: Array) -> Array:
            return self.attention(f"{name}.attention", y, y, seen[0], at, head)

        def cross_attention(y: Array) -> Array:
            assert memory is not None
            return self.attention(f"{name}.cross_attention", y, memory, seen[1], at, head)

        def feed_forward(y: Array) -> Array:
            wide = self.linear(f"{name}.feed_forward.widen", y)
            active = ACTIVATIONS[self.config.activation](wide)
            narrow = self.linear(f"{name}.feed_forward.narrow", active)
            self.tell(at, ("widen", wide), ("activation", active), ("narrow", narrow))
            return narrow

        x = self.around(f"{name}.around_attention.norm", x, self_attention, at)
        if memory is not None:
            x = self.around(f"{name}.around_cross.norm", x, cross_attention, at)
        return self.around(f"{name}.around_feed_forward.norm", x, feed_forward, at)

    def stack(
        self, side: str, x: Array, memory: Array | None, seen: list[Array], layer: int | None, at: int, head: int
    ) -> Array:
        depth = self.config.encoder_layers if side == "encoder" else self.config.decoder_layers
        for number in range(depth):
            x = self.layer(side, number, x, memory, seen, at if number == layer else None, head)
        if self.config.norm == "pre":
            x = self.norm(f"{side}_norm", x)
            if layer == depth - 1:
                self.tell(at, ("final norm", x))
        return x

    def walk(self, source: list[int], inputs: list[int], side: str, layer: int, head: int, at: int) -> Steps:
        """As `walkthrough`, with every number; probabilities cover the full vocabulary."""
        readable = np.array([token != self.config.pad for token in source])[None, :]
        x = self.embedded("source_embedding", source, at if side == "encoder" else 0)
        memory = self.stack("encoder", x, None, [readable], layer if side == "encoder" else None, at, head)
        if side == "encoder":
            return self.steps
        self.steps = []
        causal = np.tril(np.ones((len(inputs), len(inputs)), dtype=bool))
        tied = self.config.tied != "none"
        table = "source_embedding" if self.config.tied == "all" else "target_embedding"
        x = self.embedded(table, inputs, at)
        x = self.stack("decoder", x, memory, [causal, readable], layer, at, head)
        if layer == self.config.decoder_layers - 1:
            logits = x @ self.w[f"{table}.weight" if tied else "output.weight"].T
            logits = logits + self.w.get("output_bias", np.zeros(logits.shape[-1]))
            powers = np.exp(logits[at] - logits[at].max())
            self.steps += [("logits", logits[at]), ("probabilities", powers / powers.sum())]
        return self.steps
