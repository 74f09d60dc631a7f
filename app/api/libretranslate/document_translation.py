"""Files of users translated in place: the translation of one document, part by part, and the answer with its file."""

from __future__ import annotations

import asyncio
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import PurePath
from urllib.parse import quote

from starlette.responses import Response

from app import documents
from app.access.key_file import ANONYMOUS
from app.api.language_pairs import find_glossaries, find_pairs
from app.api.libretranslate.schemas import TranslationFields
from app.api.request_fields import quotable
from app.api.services import Services
from app.api.text_languages import AssignedPair
from app.documents.readers import READERS
from app.documents.text_files import decode_text
from app.engine.interface import TranslationOptions
from app.errors import InvalidRequest, Overloaded
from app.translation import TextFormat

_TEXTS_AT_ONCE = 64  # so that a book leaves room for other requests
_CHARACTERS_AT_ONCE = 20_000
_MAX_WAIT_S = 120.0  # for room in the queue, after the first part
_MAX_NAME = 100  # characters of a downloaded file's name
_UNSAFE_IN_NAMES = re.compile(r'["\\/:*?<>|;%]')


def check_extension(name: str) -> str:
    """The extension of a file's name, in lower case; InvalidRequest where such files are not translated."""
    extension = _file_name(name).suffix.lower()
    if extension not in documents.SUPPORTED:
        raise InvalidRequest(
            f'"file" is {quotable(name) or "without a name"}; this server takes the file extensions'
            f" {', '.join(documents.SUPPORTED)}.",
            field="file",
        )
    return extension


def download_name(name: str, source: str, target: str) -> str:
    """The name of the translation of a file: "bericht.en.docx" of "bericht.docx", and of "bericht.de.docx"."""
    path = _file_name(name)
    stem = path.stem
    if source and stem.lower().endswith(f".{source.lower()}"):
        stem = stem[: -len(source) - 1]
    return f"{_safe_stem(stem)[: _MAX_NAME - len(target) - 1] or 'translation'}.{target}{path.suffix.lower()}"


def _file_name(path: str) -> PurePath:
    """The last part of a path of any system; a name that is an extension alone, such as .txt, ends in it too."""
    name = path.replace("\\", "/").rpartition("/")[2]
    return PurePath(f"translation{name}" if name.startswith(".") and name.count(".") == 1 else name)


def _safe_stem(stem: str) -> str:
    """Without characters that end a header's value or a path."""
    stem = "".join(" " if unicodedata.category(character)[0] in "CZ" else character for character in stem)
    return " ".join(_UNSAFE_IN_NAMES.sub("_", stem).split()).strip(". ")[:_MAX_NAME]


def _disposition(name: str, extension: str) -> str:
    """As RFC 6266 has it: the name in ASCII, and in UTF-8 where that is another one."""
    stem = _safe_stem(name.removesuffix(extension)) or "translation"
    in_ascii = unicodedata.normalize("NFKD", stem).encode("ascii", "ignore").decode()
    plain = in_ascii if in_ascii[:1].isalnum() else "translation"
    encoded = f"; filename*=UTF-8''{quote(stem + extension, safe='')}" if plain != stem else ""
    return f'attachment; filename="{plain}{extension}"{encoded}'


def file_response(extension: str, content: bytes, name: str = "") -> Response:
    """A translated file, as a download: a browser must not run pages inside it here. name: of the file to save."""
    media_type = READERS[extension].media_type
    if media_type.startswith("text/"):
        with suppress(InvalidRequest):  # such a page declares its encoding itself
            _, encoding, _ = decode_text(content)
            media_type += f"; charset={encoding.removesuffix('-le').removesuffix('-be')}"
    headers = {
        "Content-Type": media_type,
        "Content-Disposition": _disposition(name, extension),
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "Cache-Control": "private, no-store",
    }
    return Response(content, headers=headers)


class DocumentTranslator:
    """Translates a document's texts in batches. owner: of the stored glossaries that `body` may name."""

    def __init__(self, body: TranslationFields, services: Services, owner: str = ANONYMOUS.name) -> None:
        self.characters = self._translated_characters = 0
        self._body, self._services, self._owner = body, services, owner
        self._languages: AssignedPair | None = None  # once they are known
        self._glossary: Mapping[str, str] = {}

    def language(self) -> str:
        """The language of the translation, "" before there is one or where the file is returned as it is."""
        languages = self._languages
        return languages.target if languages and not languages.unchanged else ""

    def progress(self) -> float:
        """The share of the document that is translated."""
        return self._translated_characters / self.characters if self.characters else 0.0

    def download_name(self, name: str) -> str:
        """The name of the translated file."""
        return download_name(name, self._languages.source if self._languages else "", self._body.target)

    async def check(self) -> None:
        """Refuse an unknown pair or glossary before the file is read."""
        (assigned,) = await find_pairs([""], self._body.source, self._body.target, self._services)
        if assigned.detection is None:
            self._languages, self._glossary = assigned, await self._find_glossary(assigned)

    async def __call__(self, texts: Sequence[str], text_format: TextFormat) -> list[str]:
        body = self._body
        self.characters = sum(map(len, texts))
        if self._languages is None:
            (self._languages,) = await find_pairs(
                ["\n".join(texts)], body.source, body.target, self._services, text_format
            )
            self._glossary = await self._find_glossary(self._languages)
        languages, glossary = self._languages, self._glossary
        options = TranslationOptions(*languages.pair, body.model, decoding=body.decoding_options())
        translations: list[str] = []
        waited_s = 0.0
        for batch in _split_batches(texts):
            requests = [
                languages.text_request(text, options, text_format, glossary, split=body.split) for text in batch
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
            self._translated_characters += sum(map(len, batch))
            await asyncio.sleep(0)  # texts without words need no engine: 50,000 of them would block the event loop
        return translations

    async def _find_glossary(self, assigned: AssignedPair) -> Mapping[str, str]:
        if assigned.unchanged:
            return {}
        return (await find_glossaries(self._body.glossary, [assigned.pair], self._owner, self._services))[assigned.pair]


def _split_batches(texts: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    characters = 0
    for text in texts:
        if batch and (len(batch) == _TEXTS_AT_ONCE or characters + len(text) > _CHARACTERS_AT_ONCE):
            yield batch
            batch, characters = [], 0
        batch.append(text)
        characters += len(text)
    if batch:
        yield batch
