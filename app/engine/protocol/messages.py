"""Messages between the front end and a device process: named, typed, msgpack; never pickle.

A frame holds one msgpack array of messages. Times are CLOCK_MONOTONIC seconds, which all processes of a machine share.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Generic, Literal, TypeVar

import msgspec

from models.decoding.options import DecodingOptions, Hypothesis, TopTokens
from models.inspection.results import AttentionFindings, AttentionMap, GateSummary, Walkthrough
from models.inspection.selection import AttentionKind, AttentionSelection, GateSelection, WalkthroughFocus


class Message(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Base of all messages."""


class Answer(Message, frozen=True, tag=True, array_like=True):
    """What a device answers to the request of that id."""

    id: int


AnswerT = TypeVar("AnswerT", covariant=True)


class Request(Message, Generic[AnswerT], frozen=True, tag=True, array_like=True):
    """Answered with an `AnswerT`, or with `Failed`. Nothing is computed for it after its deadline; 0: none. model: one
    loaded version."""

    id: int
    model: str


class Inspection(Request[AnswerT], Generic[AnswerT], frozen=True, tag=True, array_like=True):
    """Answered between two steps, by one pass over given texts."""


# Answers of a device process ----------------------------------------------------------------------------------


class Timing(Message, frozen=True, tag=True, array_like=True):
    """Seconds from a request's arrival at the device process: until its prefill began, until its first token, and
    until its end."""

    queued_s: float
    first_token_s: float
    total_s: float


class Finished(Answer, frozen=True, tag=True, array_like=True):
    hypotheses: list[Hypothesis]
    timing: Timing | None = None


class AttentionInspected(Answer, frozen=True, tag=True, array_like=True):
    maps: dict[AttentionKind, AttentionMap]
    findings: AttentionFindings = AttentionFindings()


class WalkthroughInspected(Answer, frozen=True, tag=True, array_like=True):
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


class GatesInspected(Answer, frozen=True, tag=True, array_like=True):
    """values: gate -> [layers, T, units]. units: those of each layer. depth: how many layers the model has."""

    cell: str
    depth: int
    hidden: int
    layers: list[int]
    units: list[list[int]]
    values: dict[str, FloatTensor]
    summaries: tuple[GateSummary, ...]
    expected: ExpectedTokens


class TokensScored(Answer, frozen=True, tag=True, array_like=True):
    expected: ExpectedTokens


class PairsAligned(Answer, frozen=True, tag=True, array_like=True):
    """links: of each pair, (source unit, target unit, weight), where they were wanted. nats: of each pair, of the
    tokens behind the given ones, likewise."""

    links: list[list[tuple[int, int, float]]]
    nats: list[list[float]]


class Failed(Message, frozen=True, tag=True, array_like=True):
    """code: that of the `EngineError` to raise."""

    id: int
    code: str
    reason: str
    field: str | None = None


# Requests to a device process ---------------------------------------------------------------------------------


class Decode(Request[Finished | None], frozen=True, tag=True, array_like=True):
    """Decode one sequence. options.streamed: send the tokens as they come, as `Tokens`; of a beam those on which all
    live hypotheses agree. start_by: a request that still waits for a slot then is refused ("overloaded") without any
    compute; 0: no limit. siblings: a number that the sequences of one request share, and which take turns with others
    as one; 0: it is alone. at_once: tokens leave with each step (see `app.engine.worker.token_sender`), for each may
    end the text."""

    source: list[int]
    prefix: list[int]
    deadline: float
    options: DecodingOptions
    start_by: float = 0.0
    siblings: int = 0
    at_once: bool = False


class InspectAttention(Inspection[AttentionInspected], frozen=True, tag=True, array_like=True):
    """One teacher-forced pass: what the encoder reads (source), what the decoder reads (inputs) and is to write
    (outputs). units: of each token the word that it belongs to, None for special tokens. starts, ends: how many special
    tokens stand before and behind the source. decoding, prefix: of the search without the masked heads. More weights
    than max_values are refused."""

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


class InspectWalkthrough(Inspection[WalkthroughInspected], frozen=True, tag=True, array_like=True):
    """A forward pass step by step, as the focus sees it."""

    source: list[int]
    inputs: list[int]
    focus: WalkthroughFocus
    deadline: float = 0.0


class InspectGates(Inspection[GatesInspected], frozen=True, tag=True, array_like=True):
    """The gates of one text, which is read whole. More values than max_values are refused."""

    tokens: list[int]
    selection: GateSelection
    top_k: int
    max_values: int
    deadline: float = 0.0


class ScoreTokens(Inspection[TokensScored], frozen=True, tag=True, array_like=True):
    """How probable a text is. target: its tokens, the first of which is given. by_rules: as decoding chooses, with what
    is never chosen left out; else of the whole vocabulary."""

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


class AlignPairs(Inspection[PairsAligned], frozen=True, tag=True, array_like=True):
    """Pairs that are read in one pass. links: whether it is wanted which source word each target word comes from. nats:
    whether it is wanted how probable each target token behind the given ones is, as decoding chooses."""

    pairs: list[TokenPair]
    links: bool = True
    nats: bool = False
    deadline: float = 0.0


class Cancel(Message, frozen=True, tag=True, array_like=True):
    id: int


# Models and processes -----------------------------------------------------------------------------------------


class Configure(Message, frozen=True, tag=True, array_like=True):
    """The first message: how to run. threads 0: torch's own choice; inspection_threads 0: as many. stream_interval_s:
    how long the tokens of streams are collected, except the first ones. A `Heartbeat` comes at least every `beat_s`,
    except while a model goes to a GPU."""

    device: str
    threads: int
    slots: int
    precision: str = "fp32"
    beam: int = 1
    prefill_tokens: int = 2048
    beat_s: float = 1.0
    log_level: str = "info"
    stream_interval_s: float = 0.0
    inspection_threads: int = 0
    log_format: Literal["text", "json"] = "text"


class Load(Message, frozen=True, tag=True, array_like=True):
    """name: one loaded version of a model, such as demo-de-en@2; requests name it, so that old and new weights never
    mix. files: the checksums that the front end read (its tokenizers'); a folder that has changed since is refused, or
    these files are read from `pinned`, name -> path, if it is given."""

    name: str
    folder: str
    files: dict[str, str] | None = None
    pinned: dict[str, str] = msgspec.field(default_factory=dict)


class Unload(Message, frozen=True, tag=True, array_like=True):
    """Free a version; what is still decoding on it fails."""

    name: str


class Stop(Message, frozen=True, tag=True, array_like=True):
    """End the process; the pool has drained it before."""


class Started(Message, frozen=True, tag=True, array_like=True):
    device: str


class Loaded(Message, frozen=True, tag=True, array_like=True):
    """precision: what it decodes in, such as "bf16" or "int8 native"."""

    name: str
    seconds: float
    precision: str = "fp32"


class LoadFailed(Message, frozen=True, tag=True, array_like=True):
    name: str
    reason: str


# Of running requests ------------------------------------------------------------------------------------------


class Tokens(Message, frozen=True, tag=True, array_like=True):
    """New tokens of one step or several, by the id of their request; where options want them, their log-probabilities
    (nats) and the likeliest tokens at their places. A request's last tokens are in `Finished`."""

    tokens: dict[int, list[int]]
    log_probabilities: dict[int, list[float]] = msgspec.field(default_factory=dict)
    top: dict[int, list[TopTokens]] = msgspec.field(default_factory=dict)


class Tally(msgspec.Struct, array_like=True):
    """What one model has done since the last `Heartbeat`. Tokens to read are source and prefix tokens; padded ones were
    computed by a prefill for nothing."""

    step_seconds: list[float] = []
    step_rows: int = 0  # the sum of the rows of all these steps
    read_tokens: int = 0
    padded_tokens: int = 0
    cancelled_tokens: int = 0  # computed for requests that were cancelled before their end
    cancelled_work: int = 0  # the same by the measure of `app.engine.admission`: a beam's tokens count once


class ModelStatistics(Message, frozen=True, tag=True, array_like=True):
    """How full one model is now, and what it has done. Rows are live sequences: a beam of k counts k."""

    model: str
    slots: int
    rows: int
    active: int  # requests
    waiting: int  # requests
    done: Tally


class Heartbeat(Message, frozen=True, tag=True, array_like=True):
    """The main loop is alive."""

    models: list[ModelStatistics]


Inspections = InspectAttention | InspectWalkthrough | InspectGates | ScoreTokens | AlignPairs
Inspected = AttentionInspected | WalkthroughInspected | GatesInspected | TokensScored | PairsAligned
ToDevice = Configure | Load | Unload | Decode | Inspections | Cancel | Stop
FromDevice = Started | Loaded | LoadFailed | Heartbeat | Tokens | Finished | Failed | Inspected

encode = msgspec.msgpack.Encoder().encode  # a list of messages -> the body of a frame
to_device = msgspec.msgpack.Decoder(list[ToDevice]).decode  # the body of a frame -> its messages
from_device = msgspec.msgpack.Decoder(list[FromDevice]).decode


@lru_cache(maxsize=1024)
def plain_name(key: str) -> str:
    """The name that people use of a loaded version: demo-de-en of demo-de-en@2."""
    return re.sub(r"@\d+$", "", key)
