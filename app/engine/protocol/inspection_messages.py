"""Messages of inspections: attention, walkthroughs, gates, scores and word alignment.

They cross with all other messages (`messages`). Nothing is computed for a request after its deadline; 0: none.
"""

from __future__ import annotations

import msgspec

from models.decoding.options import DecodingOptions
from models.inspection.results import AttentionFindings, AttentionMap, GateSummary, Walkthrough
from models.inspection.selection import AttentionKind, AttentionSelection, GateSelection, WalkthroughFocus


class Message(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Base of all messages."""


class InspectAttention(Message, frozen=True, tag=True, array_like=True):
    """One teacher-forced pass: what the encoder reads (source), what the decoder reads (inputs) and is to write
    (outputs). units: of each token the word that it belongs to, None for special tokens. starts, ends: how many special
    tokens stand before and behind the source. decoding, prefix: of the search without the masked heads. More weights
    than max_values are refused."""

    id: int
    model: str
    source: list[int]
    inputs: list[int]
    outputs: list[int]
    selection: AttentionSelection
    max_values: int
    source_units: list[int | None] = []
    target_units: list[int | None] = []
    starts: int = 0
    ends: int = 0
    decoding: DecodingOptions = DecodingOptions(max_new_tokens=256)
    prefix: list[int] = []
    deadline: float = 0.0


class InspectWalkthrough(Message, frozen=True, tag=True, array_like=True):
    """A forward pass step by step, as the focus sees it."""

    id: int
    model: str
    source: list[int]
    inputs: list[int]
    focus: WalkthroughFocus
    deadline: float = 0.0


class InspectGates(Message, frozen=True, tag=True, array_like=True):
    """The gates of one text, which is read whole. More values than max_values are refused."""

    id: int
    model: str
    tokens: list[int]
    selection: GateSelection
    top_k: int
    max_values: int
    deadline: float = 0.0


class ScoreTokens(Message, frozen=True, tag=True, array_like=True):
    """How probable a text is. target: its tokens, the first of which is given. by_rules: as decoding chooses, with what
    is never chosen left out; else of the whole vocabulary."""

    id: int
    model: str
    source: list[int]
    target: list[int]
    top_k: int
    by_rules: bool
    deadline: float = 0.0


class TokenPair(msgspec.Struct, frozen=True, array_like=True):
    """A source as the encoder reads it, and its translation: all tokens, the first `given` of them the start. units: of
    each source token, and of each target token behind the given ones, the word that it belongs to; None: to none."""

    source: list[int]
    target: list[int]
    given: int
    source_units: list[int | None]
    target_units: list[int | None]


class AlignPairs(Message, frozen=True, tag=True, array_like=True):
    """Pairs that are read in one pass. links: whether it is wanted which source word each target word comes from. nats:
    whether it is wanted how probable each target token behind the given ones is, as decoding chooses."""

    id: int
    model: str
    pairs: list[TokenPair]
    links: bool = True
    nats: bool = False
    deadline: float = 0.0


class AttentionInspected(Message, frozen=True, tag=True, array_like=True):
    id: int
    maps: dict[AttentionKind, AttentionMap]
    findings: AttentionFindings = AttentionFindings()


class WalkthroughInspected(Message, frozen=True, tag=True, array_like=True):
    id: int
    walkthrough: Walkthrough


class FloatTensor(msgspec.Struct, frozen=True, array_like=True):
    """Little-endian float32 in C order."""

    shape: list[int]
    data: bytes


class ExpectedTokens(msgspec.Struct, frozen=True, array_like=True):
    """What was expected at each of T positions, and what came at the first n of them (`models.scoring.Expected`).
    log_probabilities [n], entropies [T], top_log_probabilities [T, k]: nats. tokens [T][k]: best first."""

    log_probabilities: FloatTensor
    ranks: list[int]
    entropies: FloatTensor
    tokens: list[list[int]]
    top_log_probabilities: FloatTensor


class GatesInspected(Message, frozen=True, tag=True, array_like=True):
    """values: gate -> [layers, T, units]. units: those of each layer. depth: how many layers the model has."""

    id: int
    cell: str
    depth: int
    hidden: int
    layers: list[int]
    units: list[list[int]]
    values: dict[str, FloatTensor]
    summaries: tuple[GateSummary, ...]
    expected: ExpectedTokens


class TokensScored(Message, frozen=True, tag=True, array_like=True):
    id: int
    expected: ExpectedTokens


class PairsAligned(Message, frozen=True, tag=True, array_like=True):
    """links: of each pair, (source unit, target unit, weight), where they were wanted. nats: of each pair, of the
    tokens behind the given ones, likewise."""

    id: int
    links: list[list[tuple[int, int, float]]]
    nats: list[list[float]]


# answered between two steps, by one pass over given texts
Inspection = InspectAttention | InspectWalkthrough | InspectGates | ScoreTokens | AlignPairs
Inspected = AttentionInspected | WalkthroughInspected | GatesInspected | TokensScored | PairsAligned
