"""Translates whole files: reads the texts of a file, and writes the file with the translations in their places. Small
files are read in a thread; large ones, and whatever unpacks to much, in the processes of a `ReaderPool`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from app.documents.reader_pool import File, ReaderPool, Texts, is_small
from app.documents.readers import READERS

if TYPE_CHECKING:
    from app.translation import TextFormat

TranslateTexts = Callable[[Sequence[str], "TextFormat"], Awaitable[list[str]]]
SUPPORTED: tuple[str, ...] = tuple(READERS)


async def translated(
    extension: str,
    content: bytes,
    translate: TranslateTexts,
    language: Callable[[], str] = str,
    readers: ReaderPool | None = None,
) -> bytes:
    """The file with its texts translated in one call of `translate`. language: returns the code that the translated
    file declares, "" to keep the declared one. readers: None reads large files in a thread too. Raises InvalidRequest
    for a file that cannot be read."""
    if readers is None or is_small(extension, content):
        document = await asyncio.to_thread(READERS[extension].read, content)
        if not document.texts:
            return content
        translations = await translate(document.texts, document.format)
        return await asyncio.to_thread(document.written, translations, language())
    read = await readers.run(extension, content)
    assert isinstance(read, Texts)
    if not read.texts:
        return content
    translations = await translate(read.texts, read.format)
    written = await readers.run(extension, content, translations, language())
    assert isinstance(written, File)
    return written.content
