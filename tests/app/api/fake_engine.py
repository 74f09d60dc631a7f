"""An engine that answers at once from its script and records its requests."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Any

import numpy as np

from app.engine.interface import (
    AlignedWord,
    AttentionQuery,
    AttentionResult,
    Continuation,
    FinishReason,
    GatesQuery,
    GatesResult,
    GenerationRequest,
    GenerationResult,
    ModelChange,
    ModelInfo,
    Notice,
    PoolStatus,
    ScoreQuery,
    ScoreResult,
    Token,
    TokenExpectation,
    TokenQuery,
    TokenResult,
    TranslationRequest,
    TranslationResult,
    Usage,
    WalkthroughQuery,
    WalkthroughResult,
)
from app.engine.metrics import recorded
from app.engine.output.text_stream import ShowText, TextStream, WrittenToken
from app.engine.output.token_views import word_spans
from app.engine.registry.training_curves import Curve, TrainingCurves
from app.errors import EngineError, UnknownModel
from models.inspection.results import (
    AttentionFindings,
    AttentionMap,
    Candidate,
    GateSummary,
    Walkthrough,
    WalkthroughStep,
)


def translator(source: str, target: str) -> ModelInfo:
    return ModelInfo(
        name=f"tiny-{source}-{target}",
        kind="translator",
        architecture="transformer",
        parameters=44_140_544,
        source_language=source,
        target_language=target,
        vocabulary=8000,
        max_source_tokens=256,
        max_new_tokens=256,
        devices=("cpu",),
        scores={"BLEU": 39.1, "broken": float("nan")},
        precision="int8 native",
        precision_reason="kernels in C, int8: its shortlist",
        licence="cc-by-4.0",
        loaded_at=datetime(2026, 11, 22, 5, 12, 9, tzinfo=UTC),
        language_pairs=((source, target),),
        stand_ins={(source, target): ("numbers", "names")},
    )


LYRICIST = ModelInfo(
    name="lyrics-zh",
    kind="lyrics",
    architecture="gru",
    parameters=3_000_000,
    source_language=None,
    target_language=None,
    vocabulary=2582,
    max_source_tokens=None,
    max_new_tokens=1024,
    devices=("cpu",),
)
BIER = Token(id=17, piece="▁bier", text="bier", start=0, end=4, special=False, word=0)
END = Token(id=3, piece="</s>", text="", start=None, end=None, special=True)
START = Token(id=2, piece="<s>", text="", start=None, end=None, special=True)
FEN = Token(id=20, piece="分", text="分", start=0, end=1, special=False)
KAI = Token(id=21, piece="开", text="开", start=1, end=2, special=False)
MEASURES = {"encoder_layers": 1, "decoder_layers": 1, "heads": 1, "head_width": 4, "norm": "post"}
CAME = TokenExpectation(-0.25, 1, 1.5, (Candidate(21, -0.25, "开", "开"),))
BEER = Token(id=5, piece="▁beer", text="beer", start=0, end=4, special=False, word=0)


def word_by_word(source: str, target: str) -> tuple[AlignedWord, ...]:
    pairs = zip(word_spans(target), word_spans(source), strict=False)
    return tuple(AlignedWord(*written, *read, 1.0) for written, read in pairs)


@dataclass
class FakeEngine:
    """Set `failure` to have every request fail, `late_failure` to have streams fail after their first text;
    `finish_reason` and `weights` shape the answers."""

    loaded: list[ModelInfo] = field(
        default_factory=lambda: [translator("de", "en"), translator("en", "es"), translator("es", "en"), LYRICIST]
    )
    pool_status: PoolStatus = field(default_factory=lambda: PoolStatus(True, {"cpu": "ready"}, 4, ()))
    failure: BaseException | None = None
    full: EngineError | None = None
    late_failure: BaseException | None = None
    requests: list[object] = field(default_factory=list)
    calls: int = 0
    length_limited: frozenset[str] = frozenset()
    repetitive: frozenset[str] = frozenset()
    notices: dict[str, tuple[Notice, ...]] = field(default_factory=dict)  # of a text
    gate_values: np.ndarray = field(default_factory=lambda: np.array([[[0.25], [0.98765432]]], dtype=np.float32))
    room: int = 256  # words of a source
    weights: list[list[list[list[float]]]] = field(default_factory=lambda: [[[[0.75, 0.25], [0.5, 0.5]]]])
    findings: AttentionFindings = field(default_factory=lambda: AttentionFindings(logprob_sum=-0.5))
    found_logprob: float | None = None

    def check_room(self) -> None:
        if self.full is not None:
            raise self.full

    def status(self) -> PoolStatus:
        return self.pool_status

    def models(self) -> Sequence[ModelInfo]:
        return self.loaded

    async def curves(self, name: str) -> TrainingCurves:
        self._record(("curves", name))
        self._check_model(name)
        points = (50, 100, 111), (0, 0, None), (5.14067, None, 0.691843)
        return TrainingCurves(name, (Curve("loss", "training loss", "nats per token", *points, 3),), 1)

    @recorded
    async def translate(self, requests: Sequence[TranslationRequest]) -> list[TranslationResult]:
        self._record(*requests)
        return [self._translation(request) for request in requests]

    async def source_room(self, model: str | None, source_language: str, target_language: str) -> int:
        return self.room

    async def source_tokens(
        self, model: str | None, source_language: str, target_language: str, texts: Sequence[str]
    ) -> list[int]:
        """Words."""
        return [len(text.split()) for text in texts]

    async def align(
        self, model: str | None, source_language: str, target_language: str, pairs: Sequence[tuple[str, str]]
    ) -> list[tuple[AlignedWord, ...]]:
        """Word i of the one is word i of the other."""
        self._record(("align", model, source_language, target_language, tuple(pairs)))
        return [word_by_word(*pair) for pair in pairs]

    async def record_stand_ins(self, name: str, version: int, pair: tuple[str, str], kinds: tuple[str, ...]) -> None:
        self.loaded = [
            replace(model, stand_ins={**model.stand_ins, pair: kinds})
            if (model.name, model.version) == (name, version)
            else model
            for model in self.loaded
        ]

    @recorded
    async def generate(self, request: GenerationRequest) -> GenerationResult:
        self._record(request)
        self._check_model(request.model)
        return self._generation(request)

    def _generation(self, request: GenerationRequest) -> GenerationResult:
        seed = 1234 if request.decoding.seed is None else request.decoding.seed
        continuations = [Continuation(f"后{index}", "length", seed + index) for index in range(request.n)]
        return GenerationResult(tuple(continuations), request.model or LYRICIST.name)

    def stream_translation(
        self, request: TranslationRequest
    ) -> AbstractAsyncContextManager[TextStream[TranslationResult]]:
        async def work(show: ShowText) -> TranslationResult:
            (whole,) = await self.translate([request])
            await self._spell(show, [whole.text])
            return replace(whole, usage=Usage(3, len(whole.text), 0.001, 0.002, 0.5))

        return TextStream.opened(work)

    def stream_generation(
        self, request: GenerationRequest
    ) -> AbstractAsyncContextManager[TextStream[GenerationResult]]:
        async def work(show: ShowText) -> GenerationResult:
            whole = await self.generate(request)
            await self._spell(show, [continuation.text for continuation in whole.continuations])
            return replace(whole, usage=Usage(2, 8, None, 0.002, 0.5))

        return TextStream.opened(work)

    async def _spell(self, show: ShowText, texts: list[str]) -> None:
        """Streams the texts letter by letter, interleaved, with or without a reader."""
        for letters in zip_longest(*texts):
            for index, letter in enumerate(letters):
                if letter is not None:
                    show(letter, index)
            await self._pause()
            if self.late_failure is not None:
                raise self.late_failure

    @staticmethod
    async def _pause() -> None:
        """Lets the reader take the deltas sent so far."""
        for _ in range(20):
            await asyncio.sleep(0)

    async def attention(self, request: AttentionQuery) -> AttentionResult:
        self._record(request)
        self._check_model(request.model)
        weights = np.array(self.weights, dtype="<f4")
        layers, heads = (tuple(range(count)) for count in weights.shape[:2])
        attention_map = AttentionMap(layers, heads, weights.shape, weights.tobytes())
        return AttentionResult(
            model=request.model or "tiny-de-en",
            network={**MEASURES, "sha256": "0" * 64},
            source_text=request.source or "bier",
            target_text=request.target or "beer",
            forced=request.target is not None,
            finished=True,
            source_tokens=(BIER, END),
            input_tokens=(START, BEER),
            output_tokens=(BEER, END),
            maps=dict.fromkeys(request.selection.kinds, attention_map),
            findings=self.findings,
            found_logprob=self.found_logprob,
        )

    async def walkthrough(self, request: WalkthroughQuery) -> WalkthroughResult:
        self._record(request)
        self._check_model(request.model)
        scores = WalkthroughStep("self-attention", "masked scores", "s where it may be read", (2,), (0.5, None))
        likely = WalkthroughStep("output", "probabilities", "softmax", (9,), (0.75,), (5,), ("beer",))
        sides = ("bier", request.target or "beer", request.target is not None, (BIER, END), (START, BEER))
        return WalkthroughResult(request.model or "tiny-de-en", *sides, Walkthrough(1, 0, 1, (scores, likely)))

    async def gates(self, request: GatesQuery) -> GatesResult:
        self._record(request)
        self._check_model(request.model)
        half = np.array([0.5, 0.12345678], dtype=np.float32).tolist()
        return GatesResult(
            model=request.model or LYRICIST.name,
            cell="gru",
            depth=1,
            hidden=256,
            convention="z = 1 keeps",
            text=request.text,
            tokens=(FEN, KAI),
            layers=(0,),
            units=((117,),),
            values={"z": self.gate_values, "h": -self.gate_values},
            bounds={"z": (0.0, 1.0), "h": (-1.0, 1.0)},
            summaries=(GateSummary(0, {"z": half}, {"z": half}, {"z": half}, half),),
            steps=(CAME, TokenExpectation(None, None, 2.0, ())),
        )

    async def score(self, request: ScoreQuery) -> ScoreResult:
        self._record(request)
        self._check_model(request.model)
        if request.source is None:
            return ScoreResult(request.model or LYRICIST.name, request.text, (FEN, KAI), (None, CAME), -0.25, 1, 1)
        came = TokenExpectation(-0.75, 2, 1.0, ())
        return ScoreResult(request.model or "tiny-de-en", request.text, (BEER, END), (CAME, came), -1.0, 2, 4)

    async def tokenize(self, query: TokenQuery) -> TokenResult:
        """Code points; 0 is the unknown token."""
        self._record(query)
        self._check_model(query.model)
        ids = query.ids if query.ids is not None else tuple(map(ord, query.text))
        special = {"bos": None, "eos": None, "unk": "<unk>", "pad": None}
        text = "".join(map(chr, ids))
        return TokenResult(query.model or LYRICIST.name, text, ids, tuple(text), special, "character", 0x110000, 1024)

    async def load_model(self, name: str) -> ModelChange:
        return self._change("load", name)

    async def reload_model(self, name: str) -> ModelChange:
        return self._change("reload", name)

    async def unload_model(self, name: str) -> ModelChange:
        return self._change("unload", name)

    def _change(self, what: str, name: str) -> ModelChange:
        self._record((what, name))
        self._check_model(name)
        return ModelChange(next(model for model in self.loaded if model.name == name), 0.25)

    def _record(self, *requests: object) -> None:
        self.calls += 1
        self.requests += requests
        if self.failure is not None:
            raise self.failure

    def _translation(self, request: TranslationRequest) -> TranslationResult:
        text = f"{request.options.target_language}:{request.text}"
        others = tuple(f"{text} ({index})" for index in range(1, request.options.alternatives + 1))
        reason: FinishReason = "length" if request.text in self.length_limited else "stop"
        if request.text in self.repetitive:
            reason = "repetition"
        details: dict[str, Any] = {}
        if "scores" in request.options.wants:
            details["scores"] = tuple(-0.25 * (1 + index) for index in range(1 + request.options.alternatives))
        if "tokens" in request.options.wants:
            details["tokens"] = tuple(WrittenToken(index, letter, -0.125) for index, letter in enumerate(text))
        if "alignment" in request.options.wants:
            details["alignment"] = (AlignedWord(len(text) - len(request.text), len(text), 0, len(request.text), 0.75),)
        name = f"tiny-{request.options.source_language}-{request.options.target_language}"
        notices = self.notices.get(request.text, ())
        return TranslationResult(text, others, reason, name, notices=notices, **details)

    def _check_model(self, name: str | None) -> None:
        if name is not None and name not in {model.name for model in self.loaded}:
            raise UnknownModel(f"There is no model {name} here; GET /models lists them.", field="model")


class Broken(EngineError):
    """A domain error that the table does not know."""
