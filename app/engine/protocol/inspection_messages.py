"""Messages of inspections: attention, walkthroughs, gates, scores and word alignment.

They cross with all other messages (`messages`). Findings are plain values that are written as JSON as they are.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from models.decoding.options import DecodingOptions
from models.inspection.results import HeadStatistics

AttentionMapKind = Literal["encoder", "decoder", "cross"]
Convention = Literal["predicting", "input"]


class HeadChoice(msgspec.Struct, frozen=True):
    """Numbers count from 0, negative ones from the end."""

    kind: AttentionMapKind
    layer: int
    head: int


class RowChoice(msgspec.Struct, frozen=True):
    """One query of one head."""

    kind: AttentionMapKind
    layer: int
    head: int
    row: int


class Rollout(msgspec.Struct, frozen=True):
    """encoder[source][source] and cross[step][source]; source_share[step]: how much comes from the source."""

    encoder: list[list[float]]
    cross: list[list[float]]
    source_share: list[float]
    method: str
    caveat: str


class Alignment(msgspec.Struct, frozen=True):
    """links: source unit, target unit, weight. heads: layer and number of each whose mean they are of. error: of this
    choice on held-out sentences, where it was measured."""

    links: list[tuple[int, int, float]]
    pharaoh: str
    unit: Literal["word", "token"]
    heads: list[tuple[int, int]]
    convention: Convention
    error: float | None


class Candidate(msgspec.Struct, frozen=True):
    """piece: as the vocabulary writes it; text: as it reads. Both are filled in where tokenizers are known."""

    id: int
    logprob: float
    piece: str = ""
    text: str = ""


class OutputStep(msgspec.Struct, frozen=True):
    """Of one output token. Nats; rank 1 is the likeliest."""

    logprob: float
    rank: int
    entropy_nats: float
    top: list[Candidate]


class Ablation(msgspec.Struct, frozen=True):
    """Log-probabilities of the output tokens with all heads and without some, in nats. tokens: what the model writes
    without them; text: how that reads, filled in where tokenizers are known."""

    heads: list[HeadChoice]
    logprob_sum_before: float
    logprob_sum_after: float
    per_step_delta: list[float]
    tokens: list[int] = []
    text_after: str = ""


class WorkedRow(msgspec.Struct, frozen=True):
    """softmax(scores where the mask lets the row look) = softmax, the map's own row. scores: q·k·scale."""

    kind: AttentionMapKind
    layer: int
    head: int
    row: int
    scale: float
    scores: list[float]
    mask: list[bool]
    softmax: list[float]


class WalkthroughStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """A step of a forward pass (`models.inspection.walkthrough`). indices: tokens of the vocabulary that the values
    are of;
    texts: how these read, filled in where tokenizers are known. A score that is masked is null."""

    part: str
    name: str
    formula: str
    shape: list[int]
    values: list[float | list[float | None] | None]
    indices: list[int] | None = None
    texts: list[str] | None = None


class AttentionOptions(msgspec.Struct, frozen=True):
    """What is asked beside the maps of some layers and heads. units: of each token the word that it belongs to, None
    for special tokens; unit: what these are. starts, ends: how many special tokens stand before and behind the source.
    decoding: of the translation without heads, which begins with `prefix`."""

    reduce_heads: Literal["none", "mean", "max"] = "none"
    reduce_layers: Literal["none", "mean"] = "none"
    include: list[Literal["alignment", "rollout", "stats", "steps"]] = []
    top_k: int = 0
    masked: list[HeadChoice] = []
    row: RowChoice | None = None
    source_units: list[int | None] = []
    target_units: list[int | None] = []
    unit: Literal["word", "token"] = "token"
    starts: int = 0
    ends: int = 0
    decoding: DecodingOptions = DecodingOptions(max_new_tokens=256)
    prefix: list[int] = []


class AttentionFindings(msgspec.Struct, frozen=True):
    """The answer to a question. logprob_sum: of the output tokens, in nats."""

    logprob_sum: float = 0.0
    stats: dict[str, list[list[HeadStatistics]]] | None = None
    rollout: Rollout | None = None
    alignment: Alignment | None = None
    steps: list[OutputStep] | None = None
    ablation: Ablation | None = None
    qk: WorkedRow | None = None


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
    question: AttentionOptions = AttentionOptions()
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
    hidden_change [layers, T], of all units (`models.inspection.gate_traces.LayerSummary`). depth: how many layers
    the model has."""

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
