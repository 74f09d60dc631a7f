"""What the API asks of the pool and what the pool answers: plain values, no HTTP, no tensors.

Lengths are in tokens, log-probabilities in nats, times in seconds unless a name says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, Protocol

from app.engine.curves import TrainingCurves
from app.engine.insights import GatesJob, GatesReport, ScoreJob, ScoreReport
from app.engine.look_jobs import AttentionJob, AttentionReport, WalkthroughJob, WalkthroughReport
from app.engine.streaming import TextStream
from app.engine.token_texts import WrittenToken

FinishReason = Literal["stop", "length", "repetition"]
Wanted = Literal["scores", "tokens", "alignment"]
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
    """One sentence, or as much text as the model takes. `model` None: the first loaded translator of the pair. None of
    beam_size, length_penalty, max_new_tokens: the server's own. prefix: what the translation begins with. required:
    terms that it has to hold, each in any one of its forms. no_repeat_ngram_size: no run of so many tokens comes twice;
    0: off. wants: what is told beside the text."""

    text: str
    source_language: str
    target_language: str
    model: str | None = None
    alternatives: int = 0
    beam_size: int | None = None
    length_penalty: float | None = None
    max_new_tokens: int | None = None
    prefix: str = ""
    required: tuple[tuple[str, ...], ...] = ()
    no_repeat_ngram_size: int = 0
    wants: frozenset[Wanted] = frozenset()


@dataclass(frozen=True, slots=True)
class AlignedWord:
    """One word of a translation and the source word that the model read most while it wrote it, as code points of the
    two texts, ends exclusive. weight: the share of its attention, 0 to 1."""

    target_start: int
    target_end: int
    source_start: int
    source_end: int
    weight: float


@dataclass(frozen=True, slots=True)
class Translation:
    """`finish_reason` "length" means that the decoder ran into its limit before it ended the sentence; "repetition",
    that the text goes round in circles. scores: of the text and of each alternative, log-probability over length to the
    power of the length penalty. tokens: whose texts join to the text. Both and alignment None: not asked for."""

    text: str
    alternatives: tuple[str, ...]
    finish_reason: FinishReason
    model: str
    usage: Usage = Usage()
    scores: tuple[float, ...] | None = None
    tokens: tuple[WrittenToken, ...] | None = None
    alignment: tuple[AlignedWord, ...] | None = None


@dataclass(frozen=True, slots=True)
class GenerationJob:
    """A text to continue. `seed` None: the pool draws one and says which. Sample i of n uses `seed + i`. logprobs: with
    its tokens, and how probable the model itself found each. prompt_ids: the prompt as tokens, instead."""

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
    top_logprobs: int = 0  # with logprobs: so many of the likeliest tokens at each place
    presence_penalty: float = 0.0  # off the logit of each token written before, once
    frequency_penalty: float = 0.0  # and for each time that it was written
    repetition_penalty: float = 1.0  # by which positive logits of these are divided, negative ones multiplied; 1: off
    no_repeat_ngram_size: int = 0
    prompt_ids: tuple[int, ...] | None = None


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

    def source_room(self, model: str | None, source_language: str, target_language: str) -> int:
        """The most tokens that one text may have for the translator of a pair of languages."""
        ...

    async def source_tokens(
        self, model: str | None, source_language: str, target_language: str, texts: Sequence[str]
    ) -> list[int]:
        """How many tokens each text has for that translator: tokenizing alone, no device."""
        ...

    async def align(
        self, model: str | None, source_language: str, target_language: str, pairs: Sequence[tuple[str, str]]
    ) -> list[tuple[AlignedWord, ...]]:
        """Of texts and their translations, whoever made these; () where one of the two has no tokens."""
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
