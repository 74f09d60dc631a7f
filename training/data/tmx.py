"""Translation memories (TMX 1.4b), read as a stream."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from xml.parsers import expat

from training.data.corpus_readers import Languages, find_language, one_line, open_corpus_file
from training.data.sentence_pairs import Row
from training.errors import TrainingError

CHUNK = 1 << 16  # bytes
NATIVE_CODE = frozenset({"bpt", "ept", "it", "ph", "ut"})  # what stands in them is markup of some other format
LINE_BREAK = re.compile(r"\s*<\s*(w:)?br\b|\s*\\n", re.IGNORECASE)


def read_tmx(path: Path, languages: Languages) -> Iterator[Row]:
    """One row for each translation unit, with the line where it begins; a side that it lacks is empty.

    TrainingError for what is not well-formed, and if no unit has both languages: it names those that are there.
    """
    units = _Units(path)
    whole = False
    with open_corpus_file(path) as file:
        while chunk := file.read(CHUNK):
            units.feed(chunk)
            for line, texts in units.taken():
                there = tuple(texts)
                keys = [find_language(language, there) for language in languages]
                source, target = (texts[key] if key is not None else "" for key in keys)
                whole = whole or None not in keys
                yield line, source, target
        units.feed(b"", last=True)
    if not whole:
        known = ", ".join(f"{code} ({count:,})" for code, count in units.languages.most_common(12)) or "none"
        wanted = " and ".join(languages)
        raise TrainingError(f"{path} has no unit with both {wanted}; its languages and their segments: {known}.")


class _Units:
    """The handlers of the parser, and the finished units until they are taken."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.languages: Counter[str] = Counter()
        self._finished: list[tuple[int, dict[str, str]]] = []
        self._unit: dict[str, str] = {}
        self._line = 0
        self._language: str | None = None
        self._segment: list[str] | None = None  # pieces of text while inside <seg>
        self._code: list[str] | None = None  # pieces of native code while inside it
        self._depth = 0  # of elements inside native code
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters
        self._parser.EntityDeclHandler = self._entity
        self._parser.SkippedEntityHandler = self._skipped

    def feed(self, chunk: bytes, *, last: bool = False) -> None:
        try:
            self._parser.Parse(chunk, last)
        except expat.ExpatError as error:
            reason = expat.ErrorString(error.code)
            raise TrainingError(
                f"{self.path} is no well-formed TMX: line {error.lineno}, column {error.offset + 1} ({reason})."
            ) from None
        except (LookupError, ValueError) as error:
            if isinstance(error, TrainingError):
                raise
            raise TrainingError(f"{self.path} declares an encoding that is not known here ({error}).") from None

    def taken(self) -> list[tuple[int, dict[str, str]]]:
        finished, self._finished = self._finished, []
        return finished

    def _start(self, name: str, attributes: Mapping[str, str]) -> None:
        if self._code is not None:
            self._depth += 1
        elif self._segment is not None:
            if name in NATIVE_CODE:
                self._code, self._depth = [" <br"] if attributes.get("type") == "lb" else [], 0
        elif name == "tu":
            self._unit, self._line = {}, self._parser.CurrentLineNumber
        elif name == "tuv":
            self._language = attributes.get("xml:lang", attributes.get("lang"))
        elif name == "seg":
            self._segment = []

    def _end(self, name: str) -> None:
        if self._code is not None:
            if self._depth == 0:
                assert self._segment is not None
                self._segment.append(" " if LINE_BREAK.match("".join(self._code)) else "")
                self._code = None
            self._depth -= 1
        elif name == "seg" and self._segment is not None:
            if self._language is not None and self._language not in self._unit:  # of two variants the first
                self._unit[self._language] = one_line("".join(self._segment))
                self.languages[self._language] += 1
            self._segment = None
        elif name == "tuv":
            self._language = None
        elif name == "tu":
            self._finished.append((self._line, self._unit))

    def _characters(self, text: str) -> None:
        if self._code is not None:
            self._code.append(text)
        elif self._segment is not None:
            self._segment.append(text)

    def _entity(self, name: str, *_: object) -> None:
        line = self._parser.CurrentLineNumber
        raise TrainingError(f"{self.path} line {line} declares the entity {name!r}, which is refused: write it out.")

    def _skipped(self, name: str, *_: object) -> None:
        line = self._parser.CurrentLineNumber
        raise TrainingError(f"{self.path} line {line} uses the entity {name!r}, which the file does not define.")
