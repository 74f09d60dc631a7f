"""An engine that translates word by word, in the order of the source or backwards, and can be made to lose words.

A word that `words` does not have is written in capitals: "haus" becomes "HAUS"."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace

from app.engine.interface import AlignedWord, ModelInfo, TranslationRequest, TranslationResult, Usage
from app.engine.output.text_stream import ShowText, TextStream, WrittenToken
from app.errors import EngineError, TextTooLong
from tests.app.api.fake_engine import FakeEngine, translator
from tests.request_builders import translation_request

WORD = re.compile(r"\S+")


@dataclass
class WordEngine(FakeEngine):
    """room: tokens of one source. ends_after: words of one translation. alter: applied to each written word. refusals:
    raised by the next calls, None for a call that is answered."""

    loaded: list[ModelInfo] = field(default_factory=lambda: [translator("de", "en")])
    words: dict[str, str] = field(default_factory=dict)
    room: int = 10_000
    ends_after: int = 10_000
    alter: Callable[[str], str] = str
    backwards: bool = False
    writes_terms: bool = True  # which are required
    aligns: bool = True
    copies: bool = False  # writes its source
    refusals: list[EngineError | None] = field(default_factory=list)
    aligned: list[str] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)
    delays: dict[str, int] = field(default_factory=dict)  # iterations of the event loop before a text is begun

    @property
    def source_texts(self) -> list[str]:
        return [request.text for request in self.requests if isinstance(request, TranslationRequest)]

    async def source_tokens(
        self, model: str | None, source_language: str, target_language: str, texts: Sequence[str]
    ) -> list[int]:
        return [self._tokens(text) for text in texts]

    async def align(
        self, model: str | None, source_language: str, target_language: str, pairs: Sequence[tuple[str, str]]
    ) -> list[tuple[AlignedWord, ...]]:
        self.aligned += [source for source, _ in pairs]
        requests = [translation_request(source, source_language, target_language) for source, _ in pairs]
        return [self._pairs(request)[1] if self.aligns else () for request in requests]

    def _tokens(self, text: str) -> int:
        return sum((len(word) + 7) // 8 for word in WORD.findall(text))  # a token has eight characters at most

    async def translate(self, requests: Sequence[TranslationRequest]) -> list[TranslationResult]:
        if self.refusals and (refusal := self.refusals.pop(0)):
            raise refusal
        self.groups.append(len(requests))
        for request in requests:
            assert not re.search(r"[^\S ]|  |^ | $", request.text), f"layout came to the model: {request.text!r}"
            if self._tokens(request.text) > self.room:
                raise TextTooLong("too long")
        return await super().translate(requests)

    def stream_translation(
        self, request: TranslationRequest
    ) -> AbstractAsyncContextManager[TextStream[TranslationResult]]:
        async def work(show: ShowText) -> TranslationResult:
            for _ in range(self.delays.get(request.text, 0)):
                await asyncio.sleep(0)
            (whole,) = await self.translate([request])
            await self._spell(show, [whole.text])
            return whole

        return TextStream.opened(work)

    def _translation(self, request: TranslationRequest) -> TranslationResult:
        cut = len(WORD.findall(request.text)) > self.ends_after
        written, alignment = self._pairs(request)
        if request.options.prefix:
            written.insert(0, request.options.prefix)
        text = " ".join(written)
        pieces = [piece if number == 0 else " " + piece for number, piece in enumerate(written)]
        return TranslationResult(
            text,
            tuple(f"{text} ({number})" for number in range(1, request.options.alternatives + 1)),
            "length" if cut else "stop",
            "tiny-de-en",
            Usage(len(WORD.findall(request.text)), len(written), 0.001, None, 0.5),
            (-0.5, *(-0.5 - n for n in range(1, request.options.alternatives + 1)))
            if "scores" in request.options.wants
            else None,
            tuple(WrittenToken(7, piece, -0.1) for piece in pieces) if "tokens" in request.options.wants else None,
            alignment if "alignment" in request.options.wants and self.aligns else None,
        )

    def _pairs(self, request: TranslationRequest) -> tuple[list[str], tuple[AlignedWord, ...]]:
        sources = list(WORD.finditer(request.text))[: self.ends_after]
        written: list[str] = []
        alignment, at = [], 0
        for word in reversed(sources) if self.backwards else sources:
            target = self.alter(self._word(request, word[0]))
            if not target:
                continue
            alignment.append(AlignedWord(at, at + len(target), word.start(), word.end(), 0.9))
            written.append(target)
            at += len(target) + 1
        return written, tuple(alignment)

    def _word(self, request: TranslationRequest, word: str) -> str:
        core = word.strip(".,;:!?()\"'")
        known = core if self.copies else self.words.get(core.lower(), core.upper())
        if self.writes_terms:
            for forms in request.required:
                if forms[0] in self.terms.get(core.lower(), ()):
                    known = forms[-1] if word[0].isupper() else forms[0]
        return word.replace(core, known) if core else word

    terms: dict[str, tuple[str, ...]] = field(default_factory=dict)  # source word -> targets that it can write


def with_reload(engine: WordEngine) -> None:
    engine.loaded = [replace(model, version=model.version + 1) for model in engine.loaded]
