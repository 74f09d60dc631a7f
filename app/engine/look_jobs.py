"""What is asked of a look into a translator, and what is answered: its attention, or one forward pass step by step.

Layers, heads and places count from 0. Log-probabilities are in nats, times in seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from app.engine.findings import Findings, HeadChoice, RowChoice, Told
from app.engine.insights import TokenView

AttentionKind = Literal["encoder", "decoder", "cross"]
NOTHING_FOUND = Findings()


@dataclass(frozen=True, slots=True)
class AttentionJob:
    """A look at one sentence, `source` or `source_ids` (without what a checkpoint puts around them); `target` None: the
    model's own translation, which begins with `prefix`. Layers and heads count from 0; None means all, negative numbers
    count from the end. beam 0 and None: the server's own."""

    source: str | None
    target: str | None = None
    model: str | None = None
    kinds: tuple[AttentionKind, ...] = ("encoder", "decoder", "cross")
    layers: tuple[int, ...] | None = None
    heads: tuple[int, ...] | None = None
    max_values: int = 262_144  # more weights than these are refused
    max_bytes: int = 1_048_576  # so many would not be, were they asked for as bytes
    max_digits: int = 262_144  # of what is digits in any encoding: the rollout
    one_map: bool = False  # whether the answer has room for one only, of the cross-attention
    source_ids: tuple[int, ...] | None = None
    prefix: str | None = None
    beam: int = 0
    length_penalty: float | None = None
    max_new_tokens: int | None = None
    reduce_heads: Literal["none", "mean", "max"] = "none"
    reduce_layers: Literal["none", "mean"] = "none"
    include: tuple[Literal["alignment", "rollout", "stats", "steps"], ...] = ()
    top_k: int = 0
    masked: tuple[HeadChoice, ...] = ()
    row: RowChoice | None = None


@dataclass(frozen=True, slots=True)
class AttentionMap:
    """weights [layer][head][query][key], little-endian float32 in C order; `layers` and `heads` say which ones, counted
    from 0: where they were reduced, those that went into the one."""

    layers: tuple[int, ...]
    heads: tuple[int, ...]
    shape: tuple[int, ...]
    weights: bytes

    @property
    def values(self) -> npt.NDArray[np.float32]:
        """[layers, heads, Q, K], which may not be written to."""
        return np.frombuffer(self.weights, dtype="<f4").reshape(self.shape)


@dataclass(frozen=True, slots=True)
class NetworkFacts:
    """sha256: of the weights' file."""

    sha256: str | None
    encoder_layers: int
    decoder_layers: int
    heads: int
    head_width: int
    norm: str


@dataclass(frozen=True, slots=True)
class Took:
    """Wall clock of the parts of a look: texts to tokens; the search for the model's own translation, None where there
    was none; the pass that is shown. The last two with their waits for a device."""

    encode_s: float = 0.0
    decode_s: float | None = None
    attention_s: float = 0.0


@dataclass(frozen=True, slots=True)
class AttentionReport:
    """Both decoder sides are given: row t of `decoder` and `cross` read input token t to predict output token t.
    finished: whether the last output token is the end. found_logprob: what the search said of its own translation.
    max_source_tokens, max_target_tokens: the longest that the model takes."""

    model: str
    network: NetworkFacts
    source_text: str
    target_text: str
    forced: bool
    finished: bool
    source_tokens: tuple[TokenView, ...]
    input_tokens: tuple[TokenView, ...]
    output_tokens: tuple[TokenView, ...]
    maps: Mapping[AttentionKind, AttentionMap]
    findings: Findings = NOTHING_FOUND
    found_logprob: float | None = None
    max_source_tokens: int = 256
    max_target_tokens: int = 256
    took: Took = Took()


@dataclass(frozen=True, slots=True)
class WalkthroughJob:
    """One forward pass, as one place of a layer and a head sees it. target None: the model's own translation. Numbers
    count from 0, negative ones from the end. most: values told of a vector; most_keys: places told of."""

    source: str
    target: str | None = None
    model: str | None = None
    side: Literal["encoder", "decoder"] = "decoder"
    layer: int = 0
    head: int = 0
    position: int = 0
    most: int = 8
    most_keys: int = 64


@dataclass(frozen=True, slots=True)
class WalkthroughReport:
    """layer, head, position: counted from 0."""

    model: str
    source_text: str
    target_text: str
    forced: bool
    source_tokens: tuple[TokenView, ...]
    input_tokens: tuple[TokenView, ...]
    layer: int
    head: int
    position: int
    steps: tuple[Told, ...]
