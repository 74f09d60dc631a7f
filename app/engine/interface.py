"""The engine's public interface: the `Engine` protocol, its requests and its results. Plain values, no HTTP, no
tensors. Lengths are in tokens, log-probabilities and entropies in nats, times in seconds unless a name says otherwise;
layers, heads, units and positions count from 0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from app.engine.output.text_stream import TextStream, WrittenToken
from app.engine.registry.training_curves import TrainingCurves
from models.checkpoint import DemoCard, StandInKinds
from models.decoding.options import DecodingOptions
from models.inspection.results import AttentionFindings, AttentionMap, Candidate, GateSummary, Walkthrough, doc
from models.inspection.selection import AttentionKind, AttentionSelection, GateSelection, WalkthroughFocus
from models.networks.cells import shown_names

GATES = shown_names()
if TYPE_CHECKING:
    GateName = str
else:
    GateName = Literal[GATES]  # in the schema of the API, the names of every cell
FloatArray = npt.NDArray[np.float32]
DEFAULT_DECODING = DecodingOptions()  # leaves every choice to the server
DEFAULT_SAMPLING = DecodingOptions(max_new_tokens=100, temperature=0.8)
ALL_GATES, ALL_MAPS = GateSelection(), AttentionSelection()
DEFAULT_FOCUS, NO_FINDINGS = WalkthroughFocus(), AttentionFindings()


class Token(msgspec.Struct):
    """One token of the model's vocabulary."""

    id: Annotated[int, doc("Number in the vocabulary.", 17)]
    piece: Annotated[str, doc("How the vocabulary writes it.", "▁bier")]
    text: Annotated[str, doc("How it reads.", "bier")]
    start: Annotated[int | None, doc("First character (code point) in the text, from 0; null for special tokens.", 15)]
    end: Annotated[
        int | None, doc("Character after the last; text[start:end] is the token. Null for special tokens.", 19)
    ]
    special: Annotated[bool, doc("Whether it stands for no text (begin, end, unknown).", False)]
    word: Annotated[int | None, doc("Which word of the text it belongs to, from 0; null for special tokens.", 3)] = (
        msgspec.field(default_factory=lambda: None)
    )  # a factory, since answers leave out what equals a plain default


@dataclass(frozen=True, slots=True)
class GatesQuery:
    """A lyrics model's gate activations over a text. Refused if they are more than max_values numbers."""

    text: str
    model: str | None = None
    selection: GateSelection = ALL_GATES
    top_k: int = 0
    max_values: int = 262_144


@dataclass(frozen=True, slots=True)
class TokenExpectation:
    """The next-token distribution at one position. log_probability, rank (1 is the most likely): of the actual token or
    None. entropy: of the distribution; top: the most likely tokens, best first."""

    log_probability: float | None
    rank: int | None
    entropy: float
    top: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class GatesResult:
    """Gate activations. values: gate -> [layers, T, units] after each of T `tokens`; units: selected, per layer. depth,
    hidden: of the whole model. bounds: of all gates of the cell, selected or not. steps: the distribution after each
    token; the last has no actual token."""

    model: str
    cell: str
    depth: int
    hidden: int
    convention: str
    text: str
    tokens: tuple[Token, ...]
    layers: tuple[int, ...]
    units: tuple[tuple[int, ...], ...]
    values: Mapping[str, FloatArray]
    bounds: Mapping[str, tuple[float, float] | None]
    summaries: tuple[GateSummary, ...]
    steps: tuple[TokenExpectation, ...]


@dataclass(frozen=True, slots=True)
class ScoreQuery:
    """The log-probability of `text` under a lyrics model, or as a translation of `source`. by_rules: under the
    decoding distribution, without suppressed tokens; else under the whole vocabulary. ids: a lyrics model's tokens,
    instead of `text`. least_predicted: 0 admits a text of one token, which is not predicted. target_language: as in
    `SentenceQuery`."""

    text: str
    source: str | None = None
    model: str | None = None
    top_k: int = 0
    by_rules: bool = True
    ids: tuple[int, ...] | None = None
    least_predicted: int = 1
    target_language: str | None = None


@dataclass(frozen=True, slots=True)
class ScoreResult:
    """A scored text. steps: per token, None if it is not predicted. characters: code points of the predicted tokens."""

    model: str
    text: str
    tokens: tuple[Token, ...]
    steps: tuple[TokenExpectation | None, ...]
    log_probability: float
    predicted: int
    characters: int


@dataclass(frozen=True, slots=True)
class TokenQuery:
    """A text as a lyrics model's tokens. ids: the tokens, instead of `text`. start: with the start token, if any."""

    text: str
    model: str | None = None
    ids: tuple[int, ...] | None = None
    start: bool = False


@dataclass(frozen=True, slots=True)
class TokenResult:
    """pieces: of `ids`, as the vocabulary writes them. special: the pieces of "bos", "eos", "unk" and "pad", None
    without one. kind: of the tokenizer; max_tokens: of a prompt."""

    model: str
    text: str
    ids: tuple[int, ...]
    pieces: tuple[str, ...]
    special: Mapping[str, str | None]
    kind: str
    vocabulary: int
    max_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceQuery:
    """Inspects one sentence pair. source_ids: instead of `source`, without the checkpoint's prefix and suffix. target:
    None for the model's own translation, decoded with `prefix` and `decoding`. target_language: required of a model
    that translates into several."""

    source: str | None
    target: str | None = None
    model: str | None = None
    source_ids: tuple[int, ...] | None = None
    prefix: str | None = None
    decoding: DecodingOptions = DEFAULT_DECODING
    target_language: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionQuery(SentenceQuery):
    """Attention maps and findings of one forward pass. max_values: the most weights in the answer; max_bytes: if
    encoded as bytes. max_digits: of the rollout, digits in any encoding. one_map: only one cross-attention map fits."""

    selection: AttentionSelection = ALL_MAPS
    max_values: int = 262_144
    max_bytes: int = 1_048_576
    max_digits: int = 262_144
    one_map: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkthroughQuery(SentenceQuery):
    """Every intermediate value of one forward pass, selected by `focus`."""

    focus: WalkthroughFocus = DEFAULT_FOCUS


@dataclass(frozen=True, slots=True)
class InspectionTimings:
    """Wall clock: tokenizing; decoding (None for a forced target); forward pass. The last two include waiting."""

    encode_s: float = 0.0
    decode_s: float | None = None
    attention_s: float = 0.0


@dataclass(frozen=True, slots=True)
class AttentionResult:
    """Row t of `decoder` and `cross` maps reads input token t and predicts output token t. network: its dimensions, and
    the SHA-256 of the weights file. finished: whether the last output token is the end token. found_logprob: the
    log-probability of the decoded translation. max_source_tokens, max_target_tokens: the model's limits."""

    model: str
    network: Mapping[str, object]
    source_text: str
    target_text: str
    forced: bool
    finished: bool
    source_tokens: tuple[Token, ...]
    input_tokens: tuple[Token, ...]
    output_tokens: tuple[Token, ...]
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
    source_tokens: tuple[Token, ...]
    input_tokens: tuple[Token, ...]
    walkthrough: Walkthrough


FinishReason = Literal["stop", "length", "repetition"]
TranslationDetail = Literal["scores", "tokens", "alignment"]
EPOCH = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and times of an answer, counted from admission. queued_s: until a device starts, None if not reported.
    first_token_s: streams only. For several continuations: the earliest start and the latest end."""

    read_tokens: int = 0
    new_tokens: int = 0
    queued_s: float | None = None
    first_token_s: float | None = None
    total_s: float = 0.0


@dataclass(frozen=True, slots=True)
class TranslationOptions:
    """Options of all sentences of a text. model: None: the first loaded translator of the pair. alternatives: how many
    more. prefix: forced start. wants: details to return. decoding: unset options take the server's settings."""

    source_language: str
    target_language: str
    model: str | None = None
    alternatives: int = 0
    prefix: str = ""
    wants: frozenset[TranslationDetail] = frozenset()
    decoding: DecodingOptions = DEFAULT_DECODING


@dataclass(frozen=True, slots=True)
class TranslationRequest:
    """A sentence, or as much text as the model reads. required: terms to contain, each in any of its forms."""

    text: str
    options: TranslationOptions
    required: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class AlignedWord:
    """A target word and the source word that it attends to most, in code points, ends exclusive. weight: 0 to 1."""

    target_start: int
    target_end: int
    source_start: int
    source_end: int
    weight: float


NoticeCode = Literal[
    "unknown_words",
    "invented_words",
    "repetition",
    "low_probability",
    "dropped_sentences",
    "already_in_target_language",
    "unsupported_language",
    "pivot",
    "translated_in_parts",
]


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that a reader of a translation should know. message: one sentence for people. start, end: the place in
    the source text, in code points; None for all of it or without one. models: of a pivot, in the order of use. word:
    of the translation, which the notice is about."""

    code: NoticeCode
    message: str
    start: int | None = None
    end: int | None = None
    models: tuple[str, ...] = ()
    word: str = ""

    def moved(self, by: int) -> Notice:
        """The notice of a text in which its own text begins at `by`."""
        if self.start is None or self.end is None:
            return self
        return replace(self, start=self.start + by, end=self.end + by)


@dataclass(frozen=True, slots=True)
class TranslationResult:
    """A translation. finish_reason: "repetition" if the text loops. scores: best text first, log-probability / length
    ** length_penalty. tokens: join to the text. scores, tokens, alignment: None if not requested."""

    text: str
    alternatives: tuple[str, ...] = ()
    finish_reason: FinishReason = "stop"
    model: str = ""
    usage: Usage = Usage()
    scores: tuple[float, ...] | None = None
    tokens: tuple[WrittenToken, ...] | None = None
    alignment: tuple[AlignedWord, ...] | None = None
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """A prompt to continue n times. Sample i uses `seed + i`; without a seed the engine draws one and returns it.
    prompt_ids: the prompt as tokens, instead of `prompt`. decoding.logprobs: return the tokens too."""

    prompt: str
    model: str | None = None
    n: int = 1
    stop: tuple[str, ...] = ()
    prompt_ids: tuple[int, ...] | None = None
    decoding: DecodingOptions = DEFAULT_SAMPLING


@dataclass(frozen=True, slots=True)
class Continuation:
    """One sampled text. tokens: joined, they are the text; None if not requested."""

    text: str
    finish_reason: FinishReason
    seed: int
    tokens: tuple[WrittenToken, ...] | None = None


@dataclass(frozen=True, slots=True)
class GenerationResult:
    """The samples of a request: n continuations; the first is the answer, the others are alternatives."""

    continuations: tuple[Continuation, ...]
    model: str
    usage: Usage = Usage()


ModelOrder = Literal["named", "name", "demo"]


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A loaded checkpoint, as in `GET /models`. source_language, target_language: None for lyrics models and
    multilingual translators. language_pairs: (source, target) of a translator. precision, precision_reason: None if not
    on a device. demo: what a model that comes with Parlance knows. source_words: as in `NoticeRecord`. order: as in
    `ModelRegistry.order_of`. stand_ins: the kinds that it copies (`models.stand_ins`), of the language pairs of which
    they were tried."""

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
    version: int = 1  # the number of loads of this name since the start
    precision: str | None = None
    precision_reason: str | None = None
    licence: str | None = None
    loaded_at: datetime = EPOCH
    language_pairs: tuple[tuple[str, str], ...] = ()
    demo: DemoCard | None = None
    source_words: frozenset[str] | None = field(default=None, repr=False)
    order: ModelOrder = "name"
    stand_ins: StandInKinds = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class ModelChange:
    """The result of loading, reloading or unloading a model, and its duration."""

    model: ModelInfo
    seconds: float


@dataclass(frozen=True, slots=True)
class PoolStatus:
    """The state of all devices. ready: whether at least one accepts requests, and no model that the settings name is
    missing; problems: everything degraded.
    inspections_running, inspections_waiting: on all devices, which take turns at them. outstanding: sequences that were
    admitted and are not answered yet."""

    ready: bool
    devices: Mapping[str, str]  # device -> "ready" | "starting" | "restarting" | "stopped"
    models: int
    problems: tuple[str, ...]  # one sentence each: checkpoints that failed to load, devices that are down
    inspections_running: int = 0
    inspections_waiting: int = 0
    outstanding: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """The engine's section of `app.settings`, which documents the fields. Times in seconds."""

    checkpoints: Path
    models: str = ""
    devices: str = "auto"
    cpu_threads: int = 0
    cpu_workers: int = 1
    precision: str = "auto"
    slots_per_model: int | Literal["auto"] = "auto"
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
    """The engine as `app.api` uses it. Every method may raise `EngineError`s."""

    def status(self) -> PoolStatus: ...

    def models(self) -> Sequence[ModelInfo]: ...

    async def curves(self, name: str) -> TrainingCurves:
        """The training curves of a loaded model, read from its folder now."""

    def check_room(self) -> None:
        """Raises the refusal of the smallest request, if any; cheap, for use before a body is parsed."""

    async def translate(self, requests: Sequence[TranslationRequest]) -> list[TranslationResult]:
        """Answers in the order of `requests`, which are admitted or refused together."""

    async def source_room(self, model: str | None, source_language: str, target_language: str) -> int:
        """The maximum number of tokens of one text for the translator of a language pair."""

    async def source_tokens(
        self, model: str | None, source_language: str, target_language: str, texts: Sequence[str]
    ) -> list[int]:
        """The number of tokens of each text for that translator; tokenizes only, without a device."""

    async def align(
        self, model: str | None, source_language: str, target_language: str, pairs: Sequence[tuple[str, str]]
    ) -> list[tuple[AlignedWord, ...]]:
        """The aligned words of each (text, translation) pair; () if either has no tokens."""

    async def record_stand_ins(self, name: str, version: int, pair: tuple[str, str], kinds: tuple[str, ...]) -> None:
        """Records which kinds of stand-ins a version of a model copies: `models` lists them from now on, and its folder
        keeps them where that can be written."""

    async def generate(self, request: GenerationRequest) -> GenerationResult: ...

    def stream_translation(
        self, request: TranslationRequest
    ) -> AbstractAsyncContextManager[TextStream[TranslationResult]]:
        """`translate` with its text streamed. Nothing is sent before the context is entered."""

    def stream_generation(
        self, request: GenerationRequest
    ) -> AbstractAsyncContextManager[TextStream[GenerationResult]]: ...

    async def attention(self, query: AttentionQuery) -> AttentionResult: ...

    async def walkthrough(self, query: WalkthroughQuery) -> WalkthroughResult: ...

    async def gates(self, query: GatesQuery) -> GatesResult: ...

    async def score(self, query: ScoreQuery) -> ScoreResult: ...

    async def tokenize(self, query: TokenQuery) -> TokenResult:
        """Tokenizes only, without a device."""

    async def load_model(self, name: str) -> ModelChange:
        """Loads a checkpoint folder by its name."""

    async def reload_model(self, name: str) -> ModelChange:
        """Replaces a model by the folder's new content; the old version stays if the new one fails to load."""

    async def unload_model(self, name: str) -> ModelChange:
        """Stops offering a model; returns when the requests that use it are done."""
