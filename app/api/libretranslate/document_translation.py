"""Files of users translated in place: the translation of one document, part by part, and the answer with its file."""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from starlette.responses import Response

from app import documents
from app.access.key_file import ANONYMOUS
from app.api.field_types import quotable
from app.api.language_pairs import Pair, find_glossaries, find_pairs
from app.api.libretranslate.schemas import TranslationFields
from app.api.services import Services
from app.engine.interface import TranslationOptions
from app.errors import InvalidRequest, Overloaded
from app.translation import TextFormat, TextRequest

_TEXTS_AT_ONCE = 64  # so that a book leaves room for other requests
_CHARACTERS_AT_ONCE = 20_000
_MAX_WAIT_S = 120.0  # for room in the queue, after the first part
_SAMPLE_CHARACTERS = 4000  # of a document, for the detection of its language
_MEDIA_TYPES = {
    ".txt": "text/plain",
    ".srt": "application/x-subrip",
    ".html": "text/html",
    ".htm": "text/html",
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".odt": "application/vnd.oasis.opendocument.text",
}


def check_extension(name: str) -> str:
    """The extension of a file's name, in lower case; InvalidRequest where such files are not translated."""
    extension = PurePath(name).suffix.lower()
    if extension not in documents.SUPPORTED:
        raise InvalidRequest(
            f'"file" is {quotable(name) or "without a name"}; this server translates files that end in'
            f" {', '.join(documents.SUPPORTED)}.",
            field="file",
        )
    return extension


def file_response(extension: str, content: bytes) -> Response:
    """A translated file, as a download: a browser must not run pages inside it here."""
    headers = {
        "Content-Type": media_type(extension, content),
        "Content-Disposition": f'attachment; filename="translation{extension}"',
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "Cache-Control": "private, no-store",
    }
    return Response(content, headers=headers)


def media_type(extension: str, content: bytes) -> str:
    """Text files keep their encoding, so it is read from the content."""
    kind = _MEDIA_TYPES.get(extension, "application/octet-stream")
    if not kind.startswith("text/"):
        return kind
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return f"{kind}; charset=utf-16"
    try:
        content.decode()
    except UnicodeDecodeError:
        return kind
    return f"{kind}; charset=utf-8"


class DocumentTranslator:
    """Translates the texts of one document in batches. Detects its language once; waits for room in the queue after the
    first batch. owner: whose stored glossaries `body` may name."""

    def __init__(self, body: TranslationFields, services: Services, owner: str = ANONYMOUS.name) -> None:
        self._body, self._services, self._owner = body, services, owner
        self._pair: Pair | None = None
        self._begun = False
        self._waited_s = 0.0

    async def check(self) -> None:
        """Refuse an unknown pair or glossary before the file is read."""
        pairs, detections = await find_pairs([""], self._body.source, self._body.target, self._services)
        if detections is None:
            await self._glossary(pairs[0])

    async def __call__(self, texts: Sequence[str], text_format: TextFormat) -> list[str]:
        pair = self._pair or await self._detect_pair(texts, text_format)
        glossary = await self._glossary(pair)
        options = TranslationOptions(*pair, self._body.model, decoding=self._body.decoding)
        translations: list[str] = []
        for batch in _split_batches(texts):
            requests = [TextRequest(text, options, text_format, glossary, self._body.split) for text in batch]
            translations += await self._translate(requests)
            await asyncio.sleep(0)  # texts without words need no engine: 50,000 of them would block the event loop
        return translations

    async def _detect_pair(self, texts: Sequence[str], text_format: TextFormat) -> Pair:
        sample, body = "\n".join(texts)[:_SAMPLE_CHARACTERS], self._body
        pairs, detections = await find_pairs([sample], body.source, body.target, self._services, text_format)
        if detections is None or detections[0].confidence:
            self._pair = pairs[0]
        return pairs[0]

    async def _translate(self, requests: list[TextRequest]) -> list[str]:
        while True:
            try:
                translations = await self._services.translator.translate(requests)
            except Overloaded as error:
                self._waited_s += error.retry_after_s
                if not self._begun or self._waited_s > _MAX_WAIT_S:
                    raise
                await asyncio.sleep(error.retry_after_s)
            else:
                self._begun = True
                return [translation.text for translation in translations]

    async def _glossary(self, pair: Pair) -> Mapping[str, str]:
        glossaries = await find_glossaries(self._body.glossary, [pair], self._owner, self._services)
        return glossaries[pair]


def _split_batches(texts: Sequence[str]) -> list[list[str]]:
    batches: list[list[str]] = []
    characters = 0
    for text in texts:
        if not batches or len(batches[-1]) == _TEXTS_AT_ONCE or characters + len(text) > _CHARACTERS_AT_ONCE:
            batches.append([])
            characters = 0
        batches[-1].append(text)
        characters += len(text)
    return batches
