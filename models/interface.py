"""Protocols of networks: `Decodable` for the decoder and the engine, `TeacherForced` for scoring.

The state of `slots` sequences is one statically allocated object. Rows 0..B-1 are live. The caller keeps them packed by
moving the last row into the gap that a finished row leaves (`copy`): a step views the first B slots, with no gather."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Precision = Literal["fp32", "bf16", "fp16", "int8"]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Prompt:
    """The start of a sequence.

    source: encoder token ids, special tokens included; () for a network without an encoder.
    prefix: decoder token ids to start from, at least one (a translator's start token; the text that a language model
        continues). `prefill` reads all but the last; the last is the token of the first `step`."""

    source: tuple[int, ...]
    prefix: tuple[int, ...]

    def unpadded_source(self, pad: int) -> tuple[int, ...]:
        """The source without padding at its end, which a network never attends to: some models end their sources with
        it (`classic`)."""
        end = len(self.source)
        while end and self.source[end - 1] == pad:
            end -= 1
        return self.source[:end]


class Decodable(Protocol):
    """A network that can be stepped. The state is opaque to callers."""

    @property
    def device(self) -> torch.device: ...

    def allocate(self, slots: int, source_length: int, target_length: int) -> Any:
        """The state for `slots` sequences of at most these many source and target tokens, on the network's device."""

    def prefill(self, state: Any, rows: Sequence[int], prompts: Sequence[Prompt]) -> None:
        """Reads each prompt into its row, overwriting the row."""

    def step(self, state: Any, tokens: Tensor, group: int = 1) -> Tensor:
        """Feeds tokens [B] to rows 0..B-1; returns float32 logits of the next tokens, [B, V] or with more columns, -inf
        beyond the vocabulary. The caller may overwrite them. group: every block of `group` rows, from row 0, shares one
        source (a beam), which needs to be read once per block."""

    def copy(
        self, state: Any, sources: Sequence[int], destinations: Sequence[int], since: Sequence[int] | None = None
    ) -> None:
        """Copies row sources[i] to row destinations[i] for all i at once, as if all were read before any is written.
        since: pair i shares its source and its first since[i] target tokens (hypotheses of one beam), so only later
        tokens need copying; None: nothing is shared."""


@runtime_checkable
class Likeliest(Protocol):
    """A `Decodable` that chooses the likeliest tokens itself, which need not take all logits."""

    def likeliest(self, state: Any, tokens: Tensor, suppressed: tuple[int, ...]) -> Tensor:
        """A step whose result is the likeliest token of each row, [B], the first of equals, as it is in the logits of
        `Decodable.step` without the suppressed tokens."""


@dataclass(slots=True, eq=False)
class BeamTable:
    """The arrays of beams of one width k over `room` places, which `models.decoding.beam.Beams` describes, and the
    rules of `TokenRules`. tokens, parents [room, longest, k], int64; log_probabilities [room, k], float32; shared
    [room, k, k]; ended_scores [room, k], float64; divisors [room, longest + 2]; lengths, limits, ended_counts [room];
    full, done [room], bool; worst [room], float64. All are contiguous and keep their places in memory."""

    eos: int | None
    suppressed: tuple[int, ...]
    renormalise: bool
    forced_end: bool
    tokens: Ints
    parents: Ints
    log_probabilities: npt.NDArray[np.float32]
    lengths: Ints
    limits: Ints
    shared: Ints
    full: npt.NDArray[np.bool_]
    done: npt.NDArray[np.bool_]
    worst: npt.NDArray[np.float64]
    ended_scores: npt.NDArray[np.float64]
    ended_counts: Ints
    divisors: npt.NDArray[np.float64]
    call: Any = None
    """What the network keeps for its next call."""


class EndedBeam(NamedTuple):
    """Hypothesis `row` of beam `beam`, ended by the end token at `length` tokens. log_probability: in nats, the end
    token's included."""

    beam: int
    row: int
    length: int
    log_probability: float
    score: float


@runtime_checkable
class AdvancesBeams(Protocol):
    """A `Decodable` that advances beams itself, several steps a call."""

    def advance_beams(
        self, state: Any, table: BeamTable, rows: Ints, prefix_lengths: Ints, feed: Ints, seconds: float
    ) -> tuple[int, list[EndedBeam]]:
        """Advances G beams, which occupy all live rows. rows [G, k]: the rows of their hypotheses; prefix_lengths [G];
        feed [slots]: the next tokens. The call updates feed and the table. It returns when a beam is done, when
        `seconds` are over, or before a step that the caller has to take, such as one that cuts hypotheses off: the
        number of steps, maybe 0, and the hypotheses that have ended."""


class TeacherForced(Protocol):
    """A network that reads given texts in one pass, so that their probability can be computed (`models.scoring`)."""

    @property
    def device(self) -> torch.device: ...

    def features(self, source: Tensor, target: Tensor) -> Tensor:
        """Teacher forcing: source [B, S] and target [B, T], start token included -> features [B, T, C], from which the
        logits of the next tokens are projected. A network without an encoder ignores the source."""

    def project(self, features: Tensor) -> Tensor:
        """features [..., C] -> logits [..., V]."""
