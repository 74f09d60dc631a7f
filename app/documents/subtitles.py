"""Subtitles, SubRip and WebVTT: the texts of their cues; all else is written as it was read."""

from __future__ import annotations

import html
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from app.documents.text_files import decode_text
from app.errors import InvalidRequest

if TYPE_CHECKING:
    from app.translation import TextFormat

_SPEAKER = re.compile(r"\s*(?:<[^>\n]*>)*[-–—‐]")
_MARKUP = re.compile(r"(</?(?:i|b|u|s|font|c|v)\b[^<>\n]*>)", re.IGNORECASE)
_WORD = re.compile(r"(?:<[^<>]*>|\S)+")
_TAG = re.compile(r"<[^<>]*>")
_SRT_TIME = r"\d{1,9}[,.:，．。：]\d{1,9}[,.:，．。：]\d{1,9}(?:[,.:，．。：]\d{0,9})?"
_SRT_TIMES = re.compile(rf"^[ \t]{{0,99}}{_SRT_TIME} {{0,99}}-[ -] {{0,99}}> {{0,99}}{_SRT_TIME}[^\n]*", re.MULTILINE)
_SRT_NUMBER = re.compile(r"[ \t]*-?\d{1,18}\.?\d{0,18}")
# A cue's name, if it has one, and its times.
_CUE_HEAD = re.compile(
    r"(?:(?!NOTE\b|STYLE\b|REGION\b)[^\n]*\n)?(?:\d{2,9}:)?\d\d:\d\d\.\d{3}[ \t]+-->[ \t]+(?:\d{2,9}:)?\d\d:\d\d\.\d{3}"
    r"[^\n]*\n"
)
_CUE_TIME = re.compile(r"<(?:\d{2,9}:)?\d\d:\d\d\.\d{3}>")
_VTT_LANGUAGE = re.compile(r"^(Language:[ \t]*)\S+", re.MULTILINE)


class Subtitles(ABC):
    """A subtitle file. Numbers, times and positions are kept; the text of each subtitle is translated on its own.

    The lines of a subtitle are joined before translation, because a sentence runs over several lines, and the
    translation is broken into the same number of lines. A line that begins with a dash is another speaker's, and begins
    a text of its own."""

    format: TextFormat = "html"  # <i>, <b>, <u>, <font>, <v Anna>

    def __init__(self, content: bytes) -> None:
        self._mark, self._encoding, text = decode_text(content)
        self._line_end = "\r\n" if "\r\n" in text else "\n"
        contents = self._parsed(text.replace("\r\n", "\n").replace("\r", "\n"))
        self._parts = [_speaker_parts(content) for content in contents]
        self.texts = [_outside_markup(self._escaped, " ".join(lines)) for parts in self._parts for lines in parts]

    def written(self, translations: Sequence[str], language: str = "") -> bytes:
        remaining = iter(translations)
        contents = []
        for parts in self._parts:
            pages = [(_outside_markup(self._unescaped, next(remaining)), len(part)) for part in parts]
            contents.append("\n".join(line for page, lines in pages for line in _broken_lines(page, lines)))
        text = self._composed(contents, language).replace("\n", self._line_end)
        return self._mark + text.encode(self._encoding, "replace")

    @abstractmethod
    def _parsed(self, text: str) -> list[str]:
        """The text of each subtitle. text: the file with line feeds as its line ends."""

    @abstractmethod
    def _composed(self, contents: Sequence[str], language: str) -> str:
        """The file with `contents` as the texts of its subtitles, in order."""

    @abstractmethod
    def _escaped(self, text: str) -> str:
        """Converts text between tags to HTML."""

    @abstractmethod
    def _unescaped(self, text: str) -> str: ...


class SubRip(Subtitles):
    """Cues of a line of times and the lines after it, which may be blank; a number in the line before the times is
    the cue's. Read line by line: regular expressions over whole cues, as in the package srt, take cubic time."""

    def _parsed(self, text: str) -> list[str]:
        times = list(_SRT_TIMES.finditer(text))
        self._pieces: list[str] = []  # what is kept and the texts of cues, in turn
        contents = []
        kept_from = end = 0
        for number in range(len(times) + 1):
            begins = times[number].start() if number < len(times) else len(text)
            behind = text[end:begins].rstrip()
            last_line = behind.rfind("\n") + 1
            if number < len(times) and _SRT_NUMBER.fullmatch(behind, last_line):
                behind = behind[:last_line].rstrip()
            content = behind.lstrip()
            if not number and content:
                break
            if number:
                start = end + len(behind) - len(content)
                self._pieces += [text[kept_from:start], content]
                contents.append(content)
                kept_from = start + len(content)
            if number < len(times):
                end = times[number].end()
        if not contents and text.strip():
            raise InvalidRequest(
                "The file cannot be read as subtitles (.srt): it has to begin with a cue, a line of times such as"
                " 00:00:01,000 --> 00:00:02,500 with a number above it.",
                field="file",
            )
        self._pieces.append(text[kept_from:])
        return contents

    def _composed(self, contents: Sequence[str], language: str) -> str:
        self._pieces[1::2] = contents
        return "".join(self._pieces)

    def _escaped(self, text: str) -> str:
        return html.escape(text, quote=False)

    def _unescaped(self, text: str) -> str:
        return html.unescape(text)


class WebVtt(Subtitles):
    """WebVTT (W3C). Timestamps inside a cue's text are dropped; comments, styles and regions are kept."""

    def _parsed(self, text: str) -> list[str]:
        if not re.match(r"WEBVTT(?:[ \t\n]|\Z)", text):
            raise InvalidRequest("The file cannot be read as subtitles (.vtt); it begins with WEBVTT.", field="file")
        self._blocks = re.split(r"(\n{2,})", text)  # and what is between them
        self._cues: list[tuple[int, str]] = []  # the number of its block, and the lines before its text
        contents = []
        for number, block in enumerate(self._blocks):
            head = _CUE_HEAD.match(block) if number else None
            if head is not None:
                self._cues.append((number, head[0]))
                contents.append(_CUE_TIME.sub("", block[head.end() :]))
        return contents

    def _composed(self, contents: Sequence[str], language: str) -> str:
        blocks = list(self._blocks)
        for (number, head), content in zip(self._cues, contents, strict=True):
            blocks[number] = head + content + "\n" * self._blocks[number][len(head) :].endswith("\n")
        if language:
            blocks[0] = _VTT_LANGUAGE.sub(rf"\g<1>{language}", blocks[0])
        return "".join(blocks)

    def _escaped(self, text: str) -> str:
        return text  # as it is in the file

    def _unescaped(self, text: str) -> str:
        return text


def _speaker_parts(content: str) -> list[list[str]]:
    parts: list[list[str]] = []
    for line in filter(str.strip, content.split("\n")):
        if not parts or _SPEAKER.match(line):
            parts.append([])
        parts[-1].append(line.strip())
    return parts


def _outside_markup(convert: Callable[[str], str], text: str) -> str:
    return "".join(piece if _MARKUP.fullmatch(piece) else convert(piece) for piece in _MARKUP.split(text))


def _broken_lines(page: str, lines: int) -> list[str]:
    """Breaks `page` at spaces into at most `lines` lines of similar length; tags count as empty."""
    words = _WORD.findall(page)
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
