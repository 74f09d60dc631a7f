"""Subtitles (SubRip): numbers, times and positions stay as they are; the text of each subtitle is one text.

Its lines are joined before they are translated, since sentences run over them, and the translation is broken into as
many lines of like length again; where lines begin with a dash, different people speak: each is a text of its own. A
sentence that runs on into the next subtitle is translated in two parts, each with the time of its own.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from app.documents.document import readable
from app.documents.plain import decoded
from app.engine.errors import InvalidRequest
from app.translation.job import TextFormat

if TYPE_CHECKING:
    from srt import Subtitle

_SPEAKER = re.compile(r"\s*(?:<[^>\n]*>)*[-–—‐]")
_MARKUP = re.compile(r"(</?(?:i|b|u|s|font|c|v)\b[^<>\n]*>)", re.IGNORECASE)
_WORD = re.compile(r"(?:<[^<>]*>|\S)+")
_TAG = re.compile(r"<[^<>]*>")
_RUN = re.compile(r"[0-9]{20}|\s{100}")  # the library's time grows with the cube of longer ones


class Subtitles:
    format: TextFormat = "html"  # <i>, <b>, <u>, <font>

    def __init__(self, content: bytes) -> None:
        # Here and not at the top: it is needed once somebody translates a file.
        import srt

        self._mark, self._encoding, text = decoded(content)
        self._line_end = "\r\n" if "\r\n" in text else "\n"
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        if _RUN.search(text):
            raise InvalidRequest(
                "The subtitles have 20 digits or 100 white spaces in a row; take them out.", field="file"
            )
        with readable("subtitles (.srt)"):
            self._subtitles = list(srt.parse(text))
        self._blank = content if not self._subtitles else None
        self._parts = [list(_parts(each)) for each in self._subtitles]
        self.texts = [_page(" ".join(lines)) for parts in self._parts for lines in parts]

    def written(self, translations: Sequence[str]) -> bytes:
        import srt

        if self._blank is not None:
            return self._blank
        left = iter(translations)
        for subtitle, parts in zip(self._subtitles, self._parts, strict=True):
            lines = [line for part in parts for line in _broken(_text(next(left)), len(part))]
            subtitle.content = "\n".join(lines)
        text: str = srt.compose(self._subtitles, reindex=False, strict=False, eol=self._line_end)
        return self._mark + text.encode(self._encoding, "replace")


def read(content: bytes) -> Subtitles:
    return Subtitles(content)


def _parts(subtitle: Subtitle) -> Iterator[list[str]]:
    """The lines of each text in it."""
    part: list[str] = []
    for line in subtitle.content.split("\n"):
        if not line.strip():
            continue
        if part and _SPEAKER.match(line):
            yield part
            part = []
        part.append(line.strip())
    if part:
        yield part


def _page(text: str) -> str:
    return "".join(
        piece if _MARKUP.fullmatch(piece) else html.escape(piece, quote=False) for piece in _MARKUP.split(text)
    )


def _text(page: str) -> str:
    return "".join(piece if _MARKUP.fullmatch(piece) else html.unescape(piece) for piece in _MARKUP.split(page))


def _broken(text: str, lines: int) -> list[str]:
    """Into as many lines or fewer, each about as long as the others; tags count for nothing."""
    words = _WORD.findall(text)
    lengths = [len(_TAG.sub("", word)) + 1 for word in words]
    broken: list[str] = []
    first, left = 0, sum(lengths)
    for remaining in range(lines, 0, -1):
        behind, taken = first, 0
        while behind < len(words) and (remaining == 1 or taken + lengths[behind] / 2 <= left / remaining):
            taken += lengths[behind]
            behind += 1
        if behind > first:
            broken.append(" ".join(words[first:behind]))
        first, left = behind, left - taken
    return broken
