"""Messages between the front end and a device process: named, typed, msgpack; never pickle.

A frame holds one msgpack array of messages. Times are CLOCK_MONOTONIC seconds, which all processes of a machine share.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

import msgspec

from app.engine.protocol.inspection_messages import AlignPairs as AlignPairs
from app.engine.protocol.inspection_messages import AttentionInspected as AttentionInspected
from app.engine.protocol.inspection_messages import ExpectedTokens as ExpectedTokens
from app.engine.protocol.inspection_messages import FloatTensor as FloatTensor
from app.engine.protocol.inspection_messages import GatesInspected as GatesInspected
from app.engine.protocol.inspection_messages import InspectAttention as InspectAttention
from app.engine.protocol.inspection_messages import Inspected as Inspected
from app.engine.protocol.inspection_messages import InspectGates as InspectGates
from app.engine.protocol.inspection_messages import Inspection as Inspection
from app.engine.protocol.inspection_messages import InspectWalkthrough as InspectWalkthrough
from app.engine.protocol.inspection_messages import Message as Message
from app.engine.protocol.inspection_messages import PairsAligned as PairsAligned
from app.engine.protocol.inspection_messages import ScoreTokens as ScoreTokens
from app.engine.protocol.inspection_messages import TokenPair as TokenPair
from app.engine.protocol.inspection_messages import TokensScored as TokensScored
from app.engine.protocol.inspection_messages import WalkthroughInspected as WalkthroughInspected
from models.decoding.options import DecodingOptions, Hypothesis, TopTokens

# To a device process ---------------------------------------------------------------------------------------


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


class Decode(Message, frozen=True, tag=True, array_like=True):
    """Decode one sequence. options.streamed: send the tokens as they come, as `Tokens`; of a beam those on which all
    live hypotheses agree. start_by: a request that still waits for a slot then is refused ("overloaded") without any
    compute; 0: no limit. siblings: a number that the sequences of one request share, and which take turns with others
    as one; 0: it is alone. at_once: tokens leave with each step (see `app.engine.worker.token_sender`), for each may
    end the text."""

    id: int
    model: str
    source: list[int]
    prefix: list[int]
    deadline: float
    options: DecodingOptions
    start_by: float = 0.0
    siblings: int = 0
    at_once: bool = False


class Cancel(Message, frozen=True, tag=True, array_like=True):
    id: int


class Stop(Message, frozen=True, tag=True, array_like=True):
    """End the process; the pool has drained it before."""


# From a device process -------------------------------------------------------------------------------------


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


class Tokens(Message, frozen=True, tag=True, array_like=True):
    """New tokens of one step or several, by the id of their request; where options want them, their log-probabilities
    (nats) and the likeliest tokens at their places. A request's last tokens are in `Finished`."""

    tokens: dict[int, list[int]]
    log_probabilities: dict[int, list[float]] = msgspec.field(default_factory=dict)
    top: dict[int, list[TopTokens]] = msgspec.field(default_factory=dict)


class Timing(Message, frozen=True, tag=True, array_like=True):
    """Seconds from a request's arrival at the device process: until its prefill began, until its first token, and
    until its end."""

    queued_s: float
    first_token_s: float
    total_s: float


class Finished(Message, frozen=True, tag=True, array_like=True):
    id: int
    hypotheses: list[Hypothesis]
    timing: Timing | None = None


class Failed(Message, frozen=True, tag=True, array_like=True):
    """code: that of the `EngineError` to raise."""

    id: int
    code: str
    reason: str
    field: str | None = None


class Tally(msgspec.Struct, array_like=True):
    """What one model has done since the last `Beat`. Tokens to read are source and prefix tokens; padded ones are those
    a prefill computed for nothing."""

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


ToDevice = Configure | Load | Unload | Decode | Inspection | Cancel | Stop
FromDevice = Started | Loaded | LoadFailed | Heartbeat | Tokens | Finished | Failed | Inspected

encode = msgspec.msgpack.Encoder().encode  # a list of messages -> the body of a frame
to_device = msgspec.msgpack.Decoder(list[ToDevice]).decode  # the body of a frame -> its messages
from_device = msgspec.msgpack.Decoder(list[FromDevice]).decode


@lru_cache(maxsize=1024)
def plain_name(key: str) -> str:
    """The name that people use of a loaded version: demo-de-en of demo-de-en@2."""
    return re.sub(r"@\d+$", "", key)
