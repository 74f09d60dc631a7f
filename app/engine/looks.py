"""The messages of looks inside a network: at its attention and the steps of a pass, at its gates over a text, at how
probable a text is, and at which word of a source each word of a translation comes from. They cross with all others
(`messages`)."""

from __future__ import annotations

import msgspec

from app.engine.findings import Question


class Message(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Base of all messages."""


class Attend(Message, frozen=True, tag=True, array_like=True):
    """A look at one sentence: what the encoder reads (source), what the decoder reads (inputs) and is to write
    (outputs). Nothing is computed after deadline; 0: none."""

    id: int
    model: str
    source: list[int]
    inputs: list[int]
    outputs: list[int]
    kinds: list[str]
    layers: list[int] | None
    heads: list[int] | None
    max_values: int
    question: Question = Question()
    deadline: float = 0.0


class Walk(Message, frozen=True, tag=True, array_like=True):
    """A forward pass told step by step, as one place sees it. most: values of a vector; most_keys: places."""

    id: int
    model: str
    source: list[int]
    inputs: list[int]
    side: str
    layer: int
    head: int
    position: int
    most: int
    most_keys: int
    deadline: float = 0.0


class Trace(Message, frozen=True, tag=True, array_like=True):
    """The gates of one text, which is read whole. gates, layers: None for all. units: by number, or None for the
    `most_varied` of each layer. Nothing is computed after deadline; 0: none."""

    id: int
    model: str
    tokens: list[int]
    gates: list[str] | None
    layers: list[int] | None
    units: list[int] | None
    most_varied: int
    top_k: int
    max_values: int
    deadline: float = 0.0


class Score(Message, frozen=True, tag=True, array_like=True):
    """How probable a text is. target: its tokens, the first of which is given. by_rules: as decoding chooses, with what
    is never chosen left out; else of the whole vocabulary. Nothing is computed after deadline; 0: none."""

    id: int
    model: str
    source: list[int]
    target: list[int]
    top_k: int
    by_rules: bool
    deadline: float = 0.0


class Values(Message, frozen=True, tag=True, array_like=True):
    """Little-endian float32 in C order."""

    shape: list[int]
    data: bytes


class Expected(Message, frozen=True, tag=True, array_like=True):
    """What was expected at each of T places, and what came at the first n of them (`models.scoring.Expected`).
    log_probabilities [n], entropies [T], top_log_probabilities [T, k]: nats. tokens [T][k]: best first."""

    log_probabilities: Values
    ranks: list[int]
    entropies: Values
    tokens: list[list[int]]
    top_log_probabilities: Values


class Traced(Message, frozen=True, tag=True, array_like=True):
    """values: gate -> [layers, T, units]. units: those of each layer. mean, low, high: gate -> [layers, T], and
    hidden_change [layers, T], of all units (`models.gates.Summary`). depth: how many layers the model has."""

    id: int
    cell: str
    depth: int
    hidden: int
    layers: list[int]
    units: list[list[int]]
    values: dict[str, Values]
    mean: dict[str, Values]
    low: dict[str, Values]
    high: dict[str, Values]
    hidden_change: Values
    expected: Expected


class Scored(Message, frozen=True, tag=True, array_like=True):
    id: int
    expected: Expected


class Pair(msgspec.Struct, frozen=True, array_like=True):
    """A source as the encoder reads it, and its translation: all tokens, the first `given` of them the start. units: of
    each source token, and of each target token behind the given ones, the word that it belongs to; None: to none."""

    source: list[int]
    target: list[int]
    given: int
    source_units: list[int | None]
    target_units: list[int | None]


class Align(Message, frozen=True, tag=True, array_like=True):
    """Pairs that are read together, in one pass. links: which source word each target word comes from. nats: how
    probable each target token behind the given ones is, as decoding chooses. Nothing is computed after deadline."""

    id: int
    model: str
    pairs: list[Pair]
    links: bool = True
    nats: bool = False
    deadline: float = 0.0


class Aligned(Message, frozen=True, tag=True, array_like=True):
    """links: of each pair, (source unit, target unit, weight), where they were asked for. nats: of each pair, of the
    tokens behind the given ones, likewise."""

    id: int
    links: list[list[tuple[int, int, float]]]
    nats: list[list[float]]
