"""Files of people's programs: what of them is text, and the same file around its translation.

document.py      what every kind of file is read as
plain.py         .txt
subtitles.py     .srt
web_page.py      .html, .htm
word.py          .docx
opendocument.py  .odt
packed.py        zipped files, and how far they may unpack
inline.py        a paragraph of formatted text as HTML, and back
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from app.documents import open_document, text_files, word_document
from app.documents.document_reader import Document
from app.engine.errors import InvalidRequest
from app.translation.text_request import TextFormat

Ask = Callable[[Sequence[str], TextFormat], Awaitable[list[str]]]

_READERS: dict[str, Callable[[bytes], Document]] = {
    ".txt": text_files.read_plain_text,
    ".srt": text_files.read_subtitles,
    ".html": text_files.read_web_page,
    ".htm": text_files.read_web_page,
    ".docx": word_document.read_word_document,
    ".odt": open_document.read_open_document,
}
SUPPORTED: tuple[str, ...] = tuple(_READERS)


async def translated(extension: str, content: bytes, ask: Ask) -> bytes:
    """The file with its texts translated and everything else as it was; extension: with its dot, in any case. All
    texts are asked at once. Raises InvalidRequest for what cannot be read, and what `ask` raises."""
    reader = _READERS.get(extension.lower())
    if reader is None:
        known = ", ".join(SUPPORTED)
        raise InvalidRequest(f"Files of the kind {extension[:20]!r} cannot be translated; these can: {known}.")
    # In a thread: the libraries read and write whole files, and others wait for the event loop meanwhile.
    document = await asyncio.to_thread(reader, content)
    translations = await ask(document.texts, document.format) if document.texts else []
    return await asyncio.to_thread(document.written, translations)
