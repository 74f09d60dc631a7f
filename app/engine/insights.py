"""What is asked about a text that is given, and what a look inside a model says of it: tokens, gates, probabilities.
What is asked of all is in `jobs`. Log-probabilities and entropies are in nats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

GateName = Literal["r", "z", "n", "i", "f", "g", "o", "c", "h"]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class TokenView:
    """One token; `start` and `end` are code points of the text it came from and `word` the number of its word, None for
    special tokens."""

    id: int
    piece: str
    text: str
    start: int | None
    end: int | None
    special: bool
    word: int | None = None


@dataclass(frozen=True, slots=True)
class GatesJob:
    """The gates of a lyricist over one text. gates, layers: None means all; layers and units count from 0, negative
    numbers from the end. units: numbers, or how many of those that vary most in each layer."""

    text: str
    model: str | None = None
    gates: tuple[GateName, ...] | None = None
    layers: tuple[int, ...] | None = None
    units: tuple[int, ...] | int = 16
    top_k: int = 0
    max_values: int = 262_144  # more gate values than these are refused


@dataclass(frozen=True, slots=True)
class Likely:
    """A token that might have come; `text` as it reads by itself, "" for special tokens."""

    id: int
    piece: str
    text: str
    log_probability: float


@dataclass(frozen=True, slots=True)
class Step:
    """What was expected at one place. log_probability, rank (1 is the likeliest): of the token that came there; None
    where none did. entropy of all that might have come; top: the likeliest, best first."""

    log_probability: float | None
    rank: int | None
    entropy: float
    top: tuple[Likely, ...]


@dataclass(frozen=True, slots=True)
class GateSummary:
    """Of all units of a layer, name -> [T]: the mean, and the share that is saturated at the low and at the high end;
    hidden_change [T]: the mean of |h - the h before|."""

    layer: int
    mean: Mapping[str, Floats]
    low: Mapping[str, Floats]
    high: Mapping[str, Floats]
    hidden_change: Floats


@dataclass(frozen=True, slots=True)
class GatesReport:
    """values: gate -> [layers, T, units], after each of the T `tokens`; units: those of each layer. bounds: between
    which numbers a gate lies, None where it has no bounds. depth, hidden: of the whole model. steps: after each token,
    what was expected next, and what came; after the last, nothing did."""

    model: str
    cell: str
    depth: int
    hidden: int
    convention: str
    text: str
    tokens: tuple[TokenView, ...]
    layers: tuple[int, ...]
    units: tuple[tuple[int, ...], ...]
    values: Mapping[str, Floats]
    bounds: Mapping[str, tuple[float, float] | None]
    summaries: tuple[GateSummary, ...]
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class ScoreJob:
    """How probable `text` is: to a lyricist, or as the translation of `source` to a translator. by_rules: by the
    probabilities that decoding uses, which leave out what it never chooses; else those of the whole vocabulary.
    ids: a lyricist's tokens, instead of `text`. least_predicted: 0 takes a text of one token too, which is given."""

    text: str
    source: str | None = None
    model: str | None = None
    top_k: int = 0
    by_rules: bool = True
    ids: tuple[int, ...] | None = None
    least_predicted: int = 1


@dataclass(frozen=True, slots=True)
class ScoreReport:
    """steps: one for each of the `tokens`, what was expected there; None where the token was given. characters: how
    many code points of the text the predicted tokens stand for; a translation's end token is predicted, and is none."""

    model: str
    text: str
    tokens: tuple[TokenView, ...]
    steps: tuple[Step | None, ...]
    log_probability: float
    predicted: int
    characters: int
