"""Translates whole files: what of them is text, and the same file around its translation."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from app.documents.open_document import OpenDocument
from app.documents.text_files import PlainText, SubRip, Subtitles, WebPage, WebVtt
from app.documents.word_document import WordDocument
from app.translation import TextFormat

TranslateTexts = Callable[[Sequence[str], TextFormat], Awaitable[list[str]]]

# What each reads has `texts`, what is to be translated, in order; their `format`; and `written`, the file with
# translations in their places and its language, "" to leave that as it is, called once.
_READERS: dict[str, Callable[[bytes], PlainText | Subtitles | WordDocument | OpenDocument]] = {
    ".txt": PlainText,
    ".md": PlainText,
    ".srt": SubRip,
    ".vtt": WebVtt,
    ".html": WebPage,
    ".htm": WebPage,
    ".docx": WordDocument,
    ".odt": OpenDocument,
    ".ods": OpenDocument,
    ".odp": OpenDocument,
}
SUPPORTED: tuple[str, ...] = tuple(_READERS)


async def translated(
    extension: str, content: bytes, translate: TranslateTexts, language: Callable[[], str] = str
) -> bytes:
    """The file with its texts translated in one call. language: gives the code that the file declares then, "" for the
    one that it has. Raises InvalidRequest for a file that cannot be read."""
    # In a thread: the libraries read and write whole files, which would hold up the event loop.
    document = await asyncio.to_thread(_READERS[extension], content)
    if not document.texts:
        return content
    translations = await translate(document.texts, document.format)
    return await asyncio.to_thread(document.written, translations, language())
