"""What the rest of the service sees of the engine: the `Engine` protocol, its requests and its results.

Plain values, no HTTP, no tensors. Lengths are in tokens, log-probabilities and entropies in nats, times in seconds
unless a name says otherwise; layers, heads, units and positions count from 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from app.engine.output.text_stream import TextStream, WrittenToken
from app.engine.registry.training_curves import TrainingCurves
from models.decoding.options import DecodingOptions
from models.inspection.results import AttentionFindings, AttentionMap, Candidate, GateSummary, Walkthrough
from models.inspection.selection import AttentionKind, AttentionSelection, GateSelection, WalkthroughFocus

GateName = Literal["r", "z", "n", "i", "f", "g", "o", "c", "h"]
FloatArray = npt.NDArray[np.float32]
DEFAULT_DECODING = DecodingOptions()  # leaves every choice to the server
DEFAULT_SAMPLING = DecodingOptions(max_new_tokens=100, temperature=0.8)
ALL_GATES, ALL_MAPS = GateSelection(), AttentionSelection()
DEFAULT_FOCUS, NO_FINDINGS = WalkthroughFocus(), AttentionFindings()


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
class GatesQuery:
    """The gates of a lyricist over one text. More gate values than max_values are refused."""

    text: str
    model: str | None = None
    selection: GateSelection = ALL_GATES
    top_k: int = 0
    max_values: int = 262_144


@dataclass(frozen=True, slots=True)
class TokenExpectation:
    """What was expected at one place. log_probability, rank (1 is the likeliest): of the token that came there; None
    where none did. entropy of all that might have come; top: the likeliest, best first."""

    log_probability: float | None
    rank: int | None
    entropy: float
    top: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class GatesResult:
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
    values: Mapping[str, FloatArray]
    bounds: Mapping[str, tuple[float, float] | None]
    summaries: tuple[GateSummary, ...]
    steps: tuple[TokenExpectation, ...]


@dataclass(frozen=True, slots=True)
class ScoreQuery:
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
class ScoreResult:
    """steps: one for each of the `tokens`, what was expected there; None where the token was given. characters: how
    many code points of the text the predicted tokens stand for; a translation's end token is predicted, and is none."""

    model: str
    text: str
    tokens: tuple[TokenView, ...]
    steps: tuple[TokenExpectation | None, ...]
    log_probability: float
    predicted: int
    characters: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceQuery:
    """An inspection of one sentence, `source` or `source_ids` (without what a checkpoint puts around them); `target`
    None: the model's own translation, which begins with `prefix` and is searched for as `decoding` says."""

    source: str | None
    target: str | None = None
    model: str | None = None
    source_ids: tuple[int, ...] | None = None
    prefix: str | None = None
    decoding: DecodingOptions = DEFAULT_DECODING


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionQuery(SentenceQuery):
    """Attention maps and findings of one forward pass.

    More weights than max_values are refused; max_bytes of them would not be, were they returned as bytes. max_digits:
    limit of what is digits in any encoding, the rollout. one_map: the answer has room for one map, of cross-attention.
    """

    selection: AttentionSelection = ALL_MAPS
    max_values: int = 262_144
    max_bytes: int = 1_048_576
    max_digits: int = 262_144
    one_map: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkthroughQuery(SentenceQuery):
    """Every intermediate of one forward pass, as the focus sees it."""

    focus: WalkthroughFocus = DEFAULT_FOCUS


@dataclass(frozen=True, slots=True)
class InspectionTimings:
    """Wall clock of the parts of an inspection: texts to tokens; the search for the model's own translation, None where
    there was none; the pass that is shown. The last two with their waits for a device."""

    encode_s: float = 0.0
    decode_s: float | None = None
    attention_s: float = 0.0


@dataclass(frozen=True, slots=True)
class AttentionResult:
    """Both decoder sides are given: row t of `decoder` and `cross` read input token t to predict output token t.
    network: its measures, and the sha256 of its weights' file. finished: whether the last output token is the end.
    found_logprob: what the search said of its own translation. max_source_tokens, max_target_tokens: the longest that
    the model takes."""

    model: str
    network: Mapping[str, object]
    source_text: str
    target_text: str
    forced: bool
    finished: bool
    source_tokens: tuple[TokenView, ...]
    input_tokens: tuple[TokenView, ...]
    output_tokens: tuple[TokenView, ...]
    maps: Mapping[AttentionKind, AttentionMap]
    findings: AttentionFindings = NO_FINDINGS
    found_logprob: float | None = None
    max_source_tokens: int = 256
    max_target_tokens: int = 256
    took: InspectionTimings = InspectionTimings()


@dataclass(frozen=True, slots=True)
class WalkthroughResult:
    model: str
    source_text: str
    target_text: str
    forced: bool
    source_tokens: tuple[TokenView, ...]
    input_tokens: tuple[TokenView, ...]
    walkthrough: Walkthrough


FinishReason = Literal["stop", "length", "repetition"]
TranslationDetail = Literal["scores", "tokens", "alignment"]
EPOCH = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class Usage:
    """What an answer took. Times count from its admission: queued_s until a device began to read, where the device
    says so; first_token_s of streams. Several continuations: the first to begin, the last to end."""

    read_tokens: int = 0
    new_tokens: int = 0
    queued_s: float | None = None
    first_token_s: float | None = None
    total_s: float = 0.0


@dataclass(frozen=True, slots=True)
class TranslationOptions:
    """How texts are translated; all sentences of a text share one. model None: the first loaded translator of the pair.
    alternatives: how many further translations are wanted. prefix: what the translation begins with. wants: what is
    returned beside the text. decoding: what it leaves open, the server's settings decide."""

    source_language: str
    target_language: str
    model: str | None = None
    alternatives: int = 0
    prefix: str = ""
    wants: frozenset[TranslationDetail] = frozenset()
    decoding: DecodingOptions = DEFAULT_DECODING


@dataclass(frozen=True, slots=True)
class TranslationRequest:
    """One sentence, or as much text as the model takes. required: terms that the translation has to hold, each in any
    one of its forms."""

    text: str
    options: TranslationOptions
    required: tuple[tuple[str, ...], ...] = ()


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
class TranslationResult:
    """`finish_reason` "length" means that the decoder ran into its limit before it ended the sentence; "repetition",
    that the text goes round in circles. scores: of the text and of each alternative, log-probability over length to the
    power of the length penalty. tokens: they join to the text. scores, tokens, alignment: None where not wanted."""

    text: str
    alternatives: tuple[str, ...] = ()
    finish_reason: FinishReason = "stop"
    model: str = ""
    usage: Usage = Usage()
    scores: tuple[float, ...] | None = None
    tokens: tuple[WrittenToken, ...] | None = None
    alignment: tuple[AlignedWord, ...] | None = None


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """A text to continue n times. Without a seed the engine draws one and returns it; sample i uses `seed + i`.
    prompt_ids: the prompt as tokens, instead. decoding.logprobs: with the tokens of each text."""

    prompt: str
    model: str | None = None
    n: int = 1
    stop: tuple[str, ...] = ()
    prompt_ids: tuple[int, ...] | None = None
    decoding: DecodingOptions = DEFAULT_SAMPLING


@dataclass(frozen=True, slots=True)
class Continuation:
    """tokens: they join to the text; None where they are not wanted."""

    text: str
    finish_reason: FinishReason
    seed: int
    tokens: tuple[WrittenToken, ...] | None = None


@dataclass(frozen=True, slots=True)
class GenerationResult:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """The engine's section of `app.settings`, which says what each field means. Times in seconds."""

    checkpoints: Path
    devices: str = "auto"
    cpu_threads: int = 0
    cpu_workers: int = 1
    precision: str = "auto"
    slots_per_model: int = 64
    max_inflight_requests: int = 1024
    max_queued_source_tokens: int = 65_536
    max_queue_age_s: float = 30.0
    request_timeout_s: float = 60.0
    stream_interval_ms: float = 20.0
    beam_size: int = 4
    length_penalty: float = 1.0
    max_new_tokens: int = 1024
    drain_timeout_s: float = 20.0
    worker_start_timeout_s: float = 60.0
    worker_hang_timeout_s: float = 10.0
    prefill_tokens: int = 2048
    log_level: str = "info"
    log_format: Literal["text", "json"] = "text"


class Engine(Protocol):
    """What `app.api` sees of the pool. Every method may raise `EngineError`s."""

    def status(self) -> PoolStatus: ...

    def models(self) -> Sequence[ModelInfo]: ...

    async def curves(self, name: str) -> TrainingCurves:
        """How a model that is loaded was trained, as its folder has it now."""

    def check_room(self) -> None:
        """Raises what the smallest request would be refused with now; cheap, before anything of it is parsed."""

    async def translate(self, requests: Sequence[TranslationRequest]) -> list[TranslationResult]:
        """Answers in the order of `requests`; admitted or refused together."""

    def source_room(self, model: str | None, source_language: str, target_language: str) -> int:
        """The most tokens that one text may have for the translator of a pair of languages."""

    async def source_tokens(
        self, model: str | None, source_language: str, target_language: str, texts: Sequence[str]
    ) -> list[int]:
        """How many tokens each text has for that translator: tokenizing alone, no device."""

    async def align(
        self, model: str | None, source_language: str, target_language: str, pairs: Sequence[tuple[str, str]]
    ) -> list[tuple[AlignedWord, ...]]:
        """The aligned words of each text and its translation; () where one of the two has no tokens."""

    async def generate(self, request: GenerationRequest) -> GenerationResult: ...

    def stream_translation(
        self, request: TranslationRequest
    ) -> AbstractAsyncContextManager[TextStream[TranslationResult]]:
        """The same answer, its text as it is found. Until the context is open nothing has been said."""

    def stream_generation(
        self, request: GenerationRequest
    ) -> AbstractAsyncContextManager[TextStream[GenerationResult]]: ...

    async def attention(self, query: AttentionQuery) -> AttentionResult: ...

    async def walkthrough(self, query: WalkthroughQuery) -> WalkthroughResult: ...

    async def gates(self, query: GatesQuery) -> GatesResult: ...

    async def score(self, query: ScoreQuery) -> ScoreResult: ...

    async def load_model(self, name: str) -> ModelChange:
        """Serve a folder that is not served yet; its name is that of its folder among the checkpoints."""

    async def reload_model(self, name: str) -> ModelChange:
        """Serve a folder's new content under the same name; the old one goes on if it cannot be served."""

    async def unload_model(self, name: str) -> ModelChange:
        """Serve it no more; returns when the requests that have it are done."""
