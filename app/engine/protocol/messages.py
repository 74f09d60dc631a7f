"""Messages between the front end and a device process, in the frames of `models.child_process`. Times are
CLOCK_MONOTONIC seconds, which all processes of a machine share."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Annotated, Generic, Literal, TypeVar, get_type_hints

import msgspec

from models.decoding.options import DecodingOptions, Hypothesis, TopTokens
from models.inspection.results import AttentionFindings, AttentionMap, GateSummary, Walkthrough
from models.inspection.selection import AttentionKind, AttentionSelection, GateSelection, WalkthroughFocus


class Message(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Base of all messages."""


class Answer(Message, frozen=True, tag=True, array_like=True):
    """A device's answer to the request with this id."""

    id: int


AnswerT = TypeVar("AnswerT", covariant=True)


class Request(Message, Generic[AnswerT], frozen=True, tag=True, array_like=True):
    """Answered with `AnswerT` or `Failed`. No compute starts after its deadline; 0: none. model: a loaded version."""

    id: int
    model: str


class Inspection(Request[AnswerT], Generic[AnswerT], frozen=True, tag=True, array_like=True, kw_only=True):
    """Computed by forward passes over its texts, one inspection at a time, and answered exactly once, even if it is
    cancelled: the answer ends its turn (`app.engine.dispatch.inspection_turns`). threads: 0: beside the decoding steps,
    with the threads and at the priority that leave the steps their speed; otherwise between two steps, with so many
    threads, for a machine that decodes nothing."""

    deadline: float = 0.0
    threads: int = 0


# Answers of a device process ----------------------------------------------------------------------------------


class Timing(Message, frozen=True, tag=True, array_like=True):
    """Seconds from a request's arrival at the device process to its prefill, its first token, and its end."""

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
    """The distribution at each of T positions and the first n actual tokens (`models.scoring.Expected`).
    log_probabilities [n], entropies [T], top_log_probabilities [T, k]: nats. tokens [T][k]: best first."""

    log_probabilities: FloatTensor
    ranks: list[int]
    entropies: FloatTensor
    tokens: list[list[int]]
    top_log_probabilities: FloatTensor


class GatesInspected(Answer, frozen=True, tag=True, array_like=True):
    """Gate activations. values: gate -> [layers, T, units]. units: selected, per layer. depth: of the whole model."""

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
    """If requested, links: (source unit, target unit, weight) per pair; nats: of each pair's predicted tokens."""

    links: list[list[tuple[int, int, float]]]
    nats: list[list[float]]


class Failed(Message, frozen=True, tag=True, array_like=True):
    """The request with this id failed. code: the code of the `EngineError` to raise."""

    id: int
    code: str
    reason: str
    field: str | None = None


# Requests to a device process ---------------------------------------------------------------------------------


class Decode(Request[Finished | None], frozen=True, tag=True, array_like=True):
    """Decodes one sequence. options.streamed: send tokens as `Tokens` while decoding; from a beam, the tokens on which
    all live hypotheses agree. start_by: if the request still waits for a slot then, it is refused ("overloaded"); 0: no
    limit. siblings: id shared by the sequences of one request, which take turns as one; 0: a single sequence. at_once:
    send tokens with each step (`app.engine.worker.scheduler.TokenSender`): any token may complete a stop string."""

    source: list[int]
    prefix: list[int]
    deadline: float
    options: DecodingOptions
    start_by: float = 0.0
    siblings: int = 0
    at_once: bool = False


class InspectAttention(Inspection[AttentionInspected], frozen=True, tag=True, array_like=True):
    """One teacher-forced pass over the encoder input (source), the decoder input (inputs) and the predicted tokens
    (outputs). units: the word of each token, None for special tokens. starts, ends: number of special tokens before and
    after the source. decoding, prefix: for the search with masked heads. The front end checks its size."""

    source: list[int]
    inputs: list[int]
    outputs: list[int]
    selection: AttentionSelection
    source_units: list[int | None] = []
    target_units: list[int | None] = []
    starts: int = 0
    ends: int = 0
    decoding: DecodingOptions = DecodingOptions(max_new_tokens=256)
    prefix: list[int] = []


class InspectWalkthrough(Inspection[WalkthroughInspected], frozen=True, tag=True, array_like=True):
    """The intermediate values of one forward pass, selected by `focus`."""

    source: list[int]
    inputs: list[int]
    focus: WalkthroughFocus


class InspectGates(Inspection[GatesInspected], frozen=True, tag=True, array_like=True):
    """The gates over one text. More than max_values values are refused."""

    tokens: list[int]
    selection: GateSelection
    top_k: int
    max_values: int


class ScoreTokens(Inspection[TokensScored], frozen=True, tag=True, array_like=True):
    """Log-probabilities of `target` after its first token. by_rules: as in decoding, without suppressed tokens."""

    source: list[int]
    target: list[int]
    top_k: int
    by_rules: bool


class TokenPair(msgspec.Struct, frozen=True, array_like=True):
    """Encoder input and target tokens of one pair; the first `given` target tokens are the start. units: the word of
    each source token and of each target token after the start; None: no word."""

    source: list[int]
    target: list[int]
    given: int
    source_units: list[int | None]
    target_units: list[int | None]


class AlignPairs(Inspection[PairsAligned], frozen=True, tag=True, array_like=True):
    """Pairs for one pass. links: return alignments. nats: return log-probabilities, as in decoding, after the start."""

    pairs: list[TokenPair]
    links: bool = True
    nats: bool = False


class Cancel(Message, frozen=True, tag=True, array_like=True):
    id: int


# Models and processes -----------------------------------------------------------------------------------------


class Configure(Message, frozen=True, tag=True, array_like=True):
    """The first message to a process. device: torch's name for it; name: its name in logs, which may be cuda:1 where
    torch sees one cuda:0. threads: 0: torch's default. slots: of each model; 0: 64 on a CPU, and on a GPU from its free
    memory. stream_interval_s: how long streamed tokens are batched, after a request's first. beat_s: maximum interval
    between `Heartbeat`s, except while a model moves to a GPU. inspection_hang_s: the process ends if a cancelled
    inspection still computes after so long."""

    device: str
    threads: int
    slots: int
    precision: str = "fp32"
    beam: int = 1
    prefill_tokens: int = 2048
    beat_s: float = 1.0
    log_level: str = "info"
    stream_interval_s: float = 0.0
    inspection_hang_s: float = 60.0
    log_format: Literal["text", "json"] = "text"
    name: str = ""


class Load(Message, frozen=True, tag=True, array_like=True):
    """name: a version such as everyday@2; requests name it, so that old and new weights never mix. files: SHA-256 of
    the files that the front end read; a folder changed since is refused, or read from `pinned` (name -> path)."""

    name: str
    folder: str
    files: dict[str, str] | None = None
    pinned: dict[str, str] = msgspec.field(default_factory=dict)


class Unload(Message, frozen=True, tag=True, array_like=True):
    """Frees a version; requests in flight on it fail."""

    name: str


class Stop(Message, frozen=True, tag=True, array_like=True):
    """Ends the process, after the front end has drained it."""


class Started(Message, frozen=True, tag=True, array_like=True):
    device: str


class Ended(Message, frozen=True, tag=True, array_like=True):
    """The last message of a process that cannot go on. reason: a clause."""

    reason: str


class Loaded(Message, frozen=True, tag=True, array_like=True):
    """A version is ready. precision: such as "bf16" or "int8 native". reason: the backend and the reason for it."""

    name: str
    seconds: float
    precision: str = "fp32"
    reason: str = ""


class LoadFailed(Message, frozen=True, tag=True, array_like=True):
    name: str
    reason: str


# Progress of requests -----------------------------------------------------------------------------------------


class Tokens(Message, frozen=True, tag=True, array_like=True):
    """New tokens by request id; log-probabilities (nats) and top tokens if wanted. The last are in `Finished`."""

    tokens: dict[int, list[int]]
    log_probabilities: dict[int, list[float]] = msgspec.field(default_factory=dict)
    top: dict[int, list[TopTokens]] = msgspec.field(default_factory=dict)


class Tally(msgspec.Struct, array_like=True):
    """Work of one model since the last `Heartbeat`. A field with a title is the counter of that name in `/metrics`."""

    step_seconds: list[float] = []
    step_rows: Annotated[int, msgspec.Meta(title="step_rows", description="Live sequences, summed over all steps.")] = 0
    read_tokens: Annotated[int, msgspec.Meta(title="prefill_tokens", description="Tokens that prefills read.")] = (
        0  # source and prefix
    )
    padded_tokens: Annotated[
        int,
        msgspec.Meta(
            title="prefill_padded_tokens", description="Tokens that prefills computed as padding, for nothing."
        ),
    ] = 0
    cancelled_tokens: Annotated[
        int,
        msgspec.Meta(title="cancelled_tokens", description="Tokens computed for sequences that were ended early."),
    ] = 0
    cancelled_work: int = 0  # the same as counted by `app.engine.admission`: a beam's tokens count once


def counted_fields() -> dict[str, tuple[str, str]]:
    """Field of `Tally` -> the name and the sentence of its counter."""
    hints = get_type_hints(Tally, include_extras=True)
    metas = {field: getattr(hint, "__metadata__", (None,))[0] for field, hint in hints.items()}
    return {field: (meta.title, meta.description) for field, meta in metas.items() if meta is not None}


class ModelStatistics(Message, frozen=True, tag=True, array_like=True):
    """The current load of one model and its work. Rows are live sequences: a beam of k counts k."""

    model: str
    slots: int
    rows: int
    active: int  # requests
    waiting: int  # requests
    done: Tally


class Heartbeat(Message, frozen=True, tag=True, array_like=True):
    """Sent regularly by the main loop, as a sign of life."""

    models: list[ModelStatistics]


Inspections = InspectAttention | InspectWalkthrough | InspectGates | ScoreTokens | AlignPairs
Inspected = AttentionInspected | WalkthroughInspected | GatesInspected | TokensScored | PairsAligned
ToDevice = Configure | Load | Unload | Decode | Inspections | Cancel | Stop
FromDevice = Started | Ended | Loaded | LoadFailed | Heartbeat | Tokens | Finished | Failed | Inspected

to_device = msgspec.msgpack.Decoder(list[ToDevice]).decode  # the body of a frame -> its messages
from_device = msgspec.msgpack.Decoder(list[FromDevice]).decode


@lru_cache(maxsize=1024)
def plain_name(key: str) -> str:
    """A model's name without its version: everyday for everyday@2."""
    return re.sub(r"@\d+$", "", key)
