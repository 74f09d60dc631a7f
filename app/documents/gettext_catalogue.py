"""Message catalogues of gettext (.po) and their templates (.pot): the messages that have no translation yet.

They are edited line by line: a library such as polib writes a whole catalogue anew, and a project that keeps its
catalogues in a repository wants to see what has changed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.documents.text_files import decode_text
from app.errors import InvalidRequest

if TYPE_CHECKING:
    from app.translation import TextFormat

_LINE = re.compile(
    r'[ \t]*(?:(?P<keyword>msgctxt|msgid_plural|msgid|msgstr(?:\[\d{1,2}\])?)[ \t]*)?"(?P<text>(?:[^"\\]|\\.)*)"[ \t]*'
)
_CODE = r"\\(?:x[0-9A-Fa-f]{1,2}|[0-7]{1,3})"  # one byte of the file's encoding
_ESCAPE = re.compile(rf"((?:{_CODE})+)|\\(.)")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"'} | {text: f"\\{letter}" for letter, text in _ESCAPED.items()})
_LINES = re.compile(r"[^\n]*\n|[^\n]+")
_HEADER_LANGUAGE = re.compile(r"^Language:.*$", re.MULTILINE)
_HEADER_CHARSET = re.compile(r"charset=(?!utf-8\b)[\w-]+", re.IGNORECASE)
_TEMPLATE_FORMS = "nplurals=INTEGER; plural=EXPRESSION;"


class _Message:
    """fields: the pieces of each text by keyword, such as "msgid" and "msgstr[0]". lines: the numbers of the first line
    of each field and of the line after its last."""

    def __init__(self) -> None:
        self.fields: dict[str, list[str]] = {}
        self.lines: dict[str, tuple[int, int]] = {}

    def text(self, keyword: str) -> str:
        return "".join(self.fields[keyword])

    def sources(self) -> list[str]:
        return [self.text(keyword) for keyword in ("msgid", "msgid_plural") if keyword in self.fields]

    def forms(self) -> list[str]:
        return [keyword for keyword in self.fields if keyword.startswith("msgstr")]

    def is_untranslated(self) -> bool:
        return bool(self.text("msgid").strip()) and not any(self.text(form) for form in self.forms())

    def is_header(self) -> bool:
        return not self.text("msgid") and "msgctxt" not in self.fields


class GettextCatalogue:
    """A catalogue in UTF-8. As editors of catalogues do with machine translations, only messages without one are
    translated, and flagged as fuzzy until somebody has read them. The lines of all else are kept as they are. Every
    plural form but the first of several is the translation of the plural; the file keeps its number of forms."""

    format: TextFormat = "text"

    def __init__(self, content: bytes) -> None:
        self._mark, self._encoding, text = decode_text(content)
        self._lines = text.replace("\r\n", "\n").split("\n")
        ends = ["\r\n" if line.endswith("\r") else "\n" for line in text.split("\n")[:-1]]
        self._line_ends = [*ends, *(ends[-1:] or ["\n"])]  # by line: tools on several systems leave a mixture
        messages = _messages(self._lines)
        self._header = next((message for message in messages if message.is_header()), None)
        self._untranslated = [message for message in messages if message.is_untranslated()]
        self.texts = [source for message in self._untranslated for source in message.sources()]

    def written(self, translations: Sequence[str], language: str = "") -> bytes:
        replaced: dict[int, list[str]] = {}  # first line of a msgstr -> its new lines; its other old lines become empty
        remaining = iter(translations)
        for message in self._untranslated:
            singular = next(remaining)
            plural = next(remaining) if "msgid_plural" in message.fields else singular
            forms = message.forms()
            for number, form in enumerate(forms):
                translation = singular if number == 0 and len(forms) > 1 else plural
                self._replace(replaced, message, form, _with_ends_of(message.text("msgid"), translation))
            self._flag_as_fuzzy(replaced, message)
        if self._header is not None:
            self._replace(replaced, self._header, "msgstr", self._written_header(language))
        lines = [
            line + self._line_ends[number]
            for number, old in enumerate(self._lines)
            for line in replaced.get(number, [old])
        ]
        lines[-1] = lines[-1].removesuffix("\n").removesuffix("\r")
        return self._mark + "".join(lines).encode(self._encoding, "replace")

    def _replace(self, replaced: dict[int, list[str]], message: _Message, keyword: str, text: str) -> None:
        first, end = message.lines[keyword]
        if text != message.text(keyword):
            replaced |= {number: [] for number in range(first, end)}
            replaced[first] = _field_lines(keyword, text)

    def _flag_as_fuzzy(self, replaced: dict[int, list[str]], message: _Message) -> None:
        """In the flags of the message, or in a line of its own: before the message's former source (#|), where gettext
        wants it."""
        begin = min(message.lines.values())[0]
        for number in range(begin - 1, -1, -1):
            line = self._lines[number]
            if line.startswith("#,"):
                if "fuzzy" not in line:
                    replaced[number] = [f"#, fuzzy,{line[2:]}"]
                return
            if not line.startswith("#") or line.startswith("#~"):
                break
            if line.startswith("#|"):
                begin = number
        replaced[begin] = ["#, fuzzy", self._lines[begin]]

    def _written_header(self, language: str) -> str:
        assert self._header is not None
        header = self._header.text("msgstr")
        if language:
            header = _HEADER_LANGUAGE.sub(f"Language: {language.replace('-', '_')}", header)
        header = header.replace(_TEMPLATE_FORMS, "nplurals=2; plural=(n != 1);")
        return _HEADER_CHARSET.sub("charset=UTF-8", header)


def _messages(lines: Sequence[str]) -> list[_Message]:
    """Obsolete messages (#~) are comments. InvalidRequest names the first line that belongs to no catalogue."""
    messages: list[_Message] = []
    keyword = ""
    for number, line in enumerate(lines):
        if not line.strip() or line.lstrip(" \t").startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise _unreadable(number)
        text = _unescaped(match["text"])
        if match["keyword"]:
            keyword = match["keyword"]
            if keyword in ("msgctxt", "msgid") and (not messages or "msgid" in messages[-1].fields):
                messages.append(_Message())
            elif not messages or keyword in messages[-1].fields:
                raise _unreadable(number)
            messages[-1].fields[keyword] = [text]
            messages[-1].lines[keyword] = number, number + 1
        elif keyword:
            messages[-1].fields[keyword].append(text)
            messages[-1].lines[keyword] = messages[-1].lines[keyword][0], number + 1
        else:
            raise _unreadable(number)
    if any("msgid" not in message.fields or not message.forms() for message in messages):
        raise InvalidRequest(
            "The file cannot be read as a catalogue (.po): a message has no msgid or msgstr.", field="file"
        )
    return messages


def _unreadable(number: int) -> InvalidRequest:
    return InvalidRequest(
        f"The file cannot be read as a catalogue (.po): line {number + 1} is no comment, keyword or text in quotes;"
        " check it with msgfmt.",
        field="file",
    )


def _unescaped(text: str) -> str:
    def characters(match: re.Match[str]) -> str:
        codes, letter = match.groups()
        if letter:
            return _ESCAPED.get(letter, letter)
        numbers = (int(code[1:], 16) if code[0] == "x" else int(code, 8) for code in codes.split("\\")[1:])
        return bytes(number & 0xFF for number in numbers).decode("utf-8", "replace")

    return _ESCAPE.sub(characters, text)


def _with_ends_of(source: str, translation: str) -> str:
    """gettext wants a line end at the start or the end of a translation where its message has one."""
    start, end = "\n" * source.startswith("\n"), "\n" * source.endswith("\n")
    return start + translation.strip("\n") + end


def _field_lines(keyword: str, text: str) -> list[str]:
    """A text of several lines begins below its keyword, as gettext's own programs write it."""
    parts = [part.translate(_ESCAPES) for part in _LINES.findall(text)] or [""]
    if len(parts) > 1:
        parts.insert(0, "")
    return [f'{keyword} "{parts[0]}"', *(f'"{part}"' for part in parts[1:])]
