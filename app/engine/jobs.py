"""What the API asks of the pool and what the pool answers: plain values, no HTTP, no tensors.

Lengths are in tokens, log-probabilities in nats, times in seconds unless a name says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from app.engine.curves import TrainingCurves
from app.engine.findings import Findings, HeadChoice, RowChoice, Told
from app.engine.insights import GatesJob, GatesReport, ScoreJob, ScoreReport, TokenView
from app.engine.streaming import TextStream
from app.engine.token_texts import WrittenToken

AttentionKind = Literal["encoder", "decoder", "cross"]
FinishReason = Literal["stop", "length"]
NOTHING_FOUND = Findings()
EPOCH = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class Usage:
    """What an answer took. Times count from its admission: queued_s until a device began to read, where the device
    says so; first_token_s where somebody listened. Several continuations: the first to begin, the last to end."""

    read_tokens: int = 0
    new_tokens: int = 0
    queued_s: float | None = None
    first_token_s: float | None = None
    total_s: float = 0.0


@dataclass(frozen=True, slots=True)
class TranslationJob:
    """One text to translate. `model` None: the first loaded translator of the pair."""

    text: str
    source_language: str
    target_language: str
    model: str | None = None
    alternatives: int = 0


@dataclass(frozen=True, slots=True)
class Translation:
    """`finish_reason` "length" means that the decoder ran into its limit before it ended the sentence."""

    text: str
    alternatives: tuple[str, ...]
    finish_reason: FinishReason
    model: str
    usage: Usage = Usage()


@dataclass(frozen=True, slots=True)
class GenerationJob:
    """A text to continue. `seed` None: the pool draws one and says which. Sample i of n uses `seed + i`. logprobs: with
    its tokens, and how probable the model itself found each."""

    prompt: str
    model: str | None = None
    max_new_tokens: int = 100
    temperature: float = 0.8
    top_k: int = 0  # 0: off
    top_p: float = 1.0  # 1: off
    seed: int | None = None
    n: int = 1
    stop: tuple[str, ...] = ()
    logprobs: bool = False


@dataclass(frozen=True, slots=True)
class Continuation:
    """tokens: whose texts join to the text; None where they were not asked for."""

    text: str
    finish_reason: FinishReason
    seed: int
    tokens: tuple[WrittenToken, ...] | None = None


@dataclass(frozen=True, slots=True)
class Generation:
    """`continuations` has n members; the first is the answer, the rest are its alternatives."""

    continuations: tuple[Continuation, ...]
    model: str
    usage: Usage = Usage()


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


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """One loaded checkpoint, as `GET /models` shows it. Languages are None for lyricists. precision: what it decodes
    in, None where it is on no device;  loaded_at: when this version was read."""

    name: str
    kind: Literal["translator", "lyrics"]
    architecture: str
    parameters: int
    source_language: str | None
    target_language: str | None
    vocabulary: int
    max_source_tokens: int | None
    max_new_tokens: int
    devices: tuple[str, ...]
    scores: Mapping[str, Any] = field(default_factory=dict)
    version: int = 1  # counts the loads of this name since the start
    precision: str | None = None
    licence: str | None = None
    loaded_at: datetime = EPOCH


@dataclass(frozen=True, slots=True)
class ModelChange:
    """What loading, reloading or unloading came to, and how long it took."""

    model: ModelInfo
    seconds: float


@dataclass(frozen=True, slots=True)
class PoolStatus:
    """`ready` when at least one device can take requests; what is less than whole stands in `problems`."""

    ready: bool
    devices: Mapping[str, str]  # device -> "ready" | "starting" | "restarting" | "stopped"
    models: int
    problems: tuple[str, ...]  # one sentence each: checkpoints that were not loaded, devices that are down


class Engine(Protocol):
    """What `app.api` sees of the pool. Every method may raise `EngineError`s."""

    def status(self) -> PoolStatus: ...

    def models(self) -> Sequence[ModelInfo]: ...

    async def curves(self, name: str) -> TrainingCurves:
        """How a model that is loaded was trained, as its folder has it now."""
        ...

    def check_room(self) -> None:
        """Raises what the smallest request would be refused with now; cheap, before anything of it is parsed."""
        ...

    async def translate(self, jobs: Sequence[TranslationJob]) -> list[Translation]:
        """Answers in the order of `jobs`; admitted or refused together."""
        ...

    async def generate(self, job: GenerationJob) -> Generation: ...

    def stream_translation(self, job: TranslationJob) -> AbstractAsyncContextManager[TextStream[Translation]]:
        """The same answer, its text as it is found. Until the context is open nothing has been said."""
        ...

    def stream_generation(self, job: GenerationJob) -> AbstractAsyncContextManager[TextStream[Generation]]: ...

    async def attention(self, job: AttentionJob) -> AttentionReport: ...

    async def walkthrough(self, job: WalkthroughJob) -> WalkthroughReport: ...

    async def gates(self, job: GatesJob) -> GatesReport: ...

    async def score(self, job: ScoreJob) -> ScoreReport: ...

    async def load_model(self, name: str) -> ModelChange:
        """Serve a folder that is not served yet; names are those of the folders among the checkpoints."""
        ...

    async def reload_model(self, name: str) -> ModelChange:
        """Serve a folder's new content under the same name; the old one goes on if it cannot be served."""
        ...

    async def unload_model(self, name: str) -> ModelChange:
        """Serve it no more; returns when the requests that have it are done."""
        ...
