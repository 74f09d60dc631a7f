"""Files of users translated in place: the translation of one document, part by part, and the answer with its file."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import PurePath

from starlette.responses import Response

from app import documents
from app.access.key_file import ANONYMOUS
from app.api.field_types import quotable
from app.api.language_pairs import AssignedPair, find_glossaries, find_pairs
from app.api.libretranslate.schemas import TranslationFields
from app.api.services import Services
from app.api.shared_schemas import decoding_options
from app.documents.text_files import decode_text
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
    media_type = _MEDIA_TYPES.get(extension, "application/octet-stream")
    if media_type.startswith("text/"):
        with suppress(InvalidRequest):  # such a page declares its encoding itself
            _, encoding, _ = decode_text(content)
            media_type += f"; charset={encoding.removesuffix('-le').removesuffix('-be')}"
    headers = {
        "Content-Type": media_type,
        "Content-Disposition": f'attachment; filename="translation{extension}"',
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "Cache-Control": "private, no-store",
    }
    return Response(content, headers=headers)


class DocumentTranslator:
    """Translates a document's texts in batches. owner: of the stored glossaries that `body` may name."""

    def __init__(self, body: TranslationFields, services: Services, owner: str = ANONYMOUS.name) -> None:
        self.characters = 0
        self._body, self._services, self._owner = body, services, owner
        self._languages: AssignedPair | None = None  # once they are known
        self._glossary: Mapping[str, str] = {}

    async def check(self) -> None:
        """Refuse an unknown pair or glossary before the file is read."""
        (assigned,) = await find_pairs([""], self._body.source, self._body.target, self._services)
        if assigned.detection is None:
            self._languages, self._glossary = assigned, await self._find_glossary(assigned)

    async def __call__(self, texts: Sequence[str], text_format: TextFormat) -> list[str]:
        body = self._body
        self.characters = sum(map(len, texts))
        if self._languages is None:
            sample = "\n".join(texts)[:_SAMPLE_CHARACTERS]
            (self._languages,) = await find_pairs([sample], body.source, body.target, self._services, text_format)
            self._glossary = await self._find_glossary(self._languages)
        languages, glossary = self._languages, self._glossary
        options = TranslationOptions(*languages.pair, body.model, decoding=decoding_options(body))
        translations: list[str] = []
        waited_s = 0.0
        for batch in _split_batches(texts):
            requests = [
                TextRequest(text, options, text_format, glossary, body.split, languages.unchanged) for text in batch
            ]
            while True:
                try:
                    translations += [each.text for each in await self._services.translator.translate(requests)]
                    break
                except Overloaded as error:
                    waited_s += error.retry_after_s
                    if not translations or waited_s > _MAX_WAIT_S:
                        raise
                    await asyncio.sleep(error.retry_after_s)
            await asyncio.sleep(0)  # texts without words need no engine: 50,000 of them would block the event loop
        return translations

    async def _find_glossary(self, assigned: AssignedPair) -> Mapping[str, str]:
        if assigned.unchanged:
            return {}
        return (await find_glossaries(self._body.glossary, [assigned.pair], self._owner, self._services))[assigned.pair]


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
