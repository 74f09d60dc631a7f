"""Streams translation memories (TMX 1.4b)."""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from training.config.corpus_languages import base_language, find_language
from training.data.corpus_files import open_corpus_file
from training.data.sentence_pairs import LeftOutRow, Row, malformed, one_line
from training.errors import TrainingError

CHUNK = 1 << 16  # bytes
MOST_UNIT_CHARACTERS = 1 << 22  # of a unit with an end, where malformed units are left out
NATIVE_CODE = frozenset({"bpt", "ept", "it", "ph", "ut"})  # they contain markup of another format
LINE_BREAK = re.compile(r"\s*<\s*(w:)?br\b|\s*\\n", re.IGNORECASE)
UNIT_START, UNIT_END = re.compile(r"<tu(?=[\s/>])"), re.compile(r"</tu\s*>|<tu(\s[^<>]*)?/>")
DECLARED_ENCODING = re.compile(rb"""<\?xml[^>]*encoding\s*=\s*["']([\w.-]+)""")
UTF16_STARTS = {
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
    "<".encode("utf-16-le"): "utf-16-le",
    "<".encode("utf-16-be"): "utf-16-be",
}
SKIP = "--clean malformed=skip leaves such units out"
UNWRITTEN = "\ufffd"  # the decoder's replacement for bytes that the encoding does not have
Unit = tuple[int, dict[str, str]]
"""The line of a <tu>, and its segments by language."""


class _UnitParser:
    """Drives the tree builder by expat, for line numbers and to reject entity declarations. units: finished ones."""

    def __init__(self, path: Path, encoding: str | None = None) -> None:
        self.path, self.units = path, list[tuple[int, Element]]()
        self.expat = expat.ParserCreate(encoding)
        self.expat.buffer_text = True
        self.expat.StartElementHandler = self._start
        self.expat.EntityDeclHandler = lambda name, *_: self._refuse(
            f"declares the entity {name!r}, which is refused: write it out."
        )
        self.expat.SkippedEntityHandler = lambda name, _: self._refuse(
            f"uses the entity {name!r}, which the file does not define."
        )

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if name != "tu":
            return
        builder, line = TreeBuilder(), self.expat.CurrentLineNumber
        builder.start(name, attributes)

        def end(name: str) -> None:
            element = builder.end(name)
            if name == "tu":
                self.units.append((line, element))
                self.expat.StartElementHandler = self._start
                self.expat.EndElementHandler = self.expat.CharacterDataHandler = None

        self.expat.StartElementHandler, self.expat.EndElementHandler = builder.start, end
        self.expat.CharacterDataHandler = builder.data

    def _refuse(self, sentence: str) -> None:
        raise TrainingError(f"{self.path} line {self.expat.CurrentLineNumber} {sentence}")


def translation_units(file: BinaryIO, path: Path) -> Iterator[Unit]:
    """The units of a file. TrainingError names `path`."""
    chunk = file.read(CHUNK)
    declared = DECLARED_ENCODING.search(chunk[:1024])
    # expat takes "utf8", which Python's ElementTree writes, for an encoding of single bytes
    parser, last = _UnitParser(path, "utf-8" if declared and declared[1].lower() == b"utf8" else None), False
    while not last:
        last = not chunk
        try:
            parser.expat.Parse(chunk, last)
        except expat.ExpatError as error:
            place = f"line {error.lineno}, column {error.offset + 1} ({expat.ErrorString(error.code)})"
            raise TrainingError(f"{path} is no well-formed TMX: {place}; {SKIP}.") from None
        except TrainingError:
            raise
        except (LookupError, ValueError) as error:
            raise _unknown_encoding(path, error) from None
        yield from ((line, _segments(unit)) for line, unit in parser.units)
        parser.units.clear()
        chunk = b"" if last else file.read(CHUNK)


def readable_units(file: BinaryIO, path: Path) -> Iterator[Unit | LeftOutRow]:
    """As `translation_units`, but parses each unit by itself: one that is not well-formed comes as a `LeftOutRow`."""
    for line, text in _unit_texts(file, path):
        parser = _UnitParser(path)
        try:
            if UNWRITTEN in text:
                raise TrainingError(f"{path} line {line} has a character that its encoding does not know.")
            parser.expat.Parse(text, True)
        except expat.ExpatError as error:
            problem = f"{path} line {line + error.lineno - 1} is not well-formed ({expat.ErrorString(error.code)})."
            yield malformed(line, "no well-formed XML", text, TrainingError(problem))
        except TrainingError as error:
            yield malformed(line, "characters or entities", text, error)
        else:
            yield line, _segments(parser.units[0][1])


def _unit_texts(file: BinaryIO, path: Path) -> Iterator[tuple[int, str]]:
    """The line and the text of everything that begins as a unit, up to its end, the next unit or the file's end."""
    head = file.read(1024)
    file.seek(0)
    declared = DECLARED_ENCODING.search(head)
    encoding = UTF16_STARTS.get(head[:2], "utf-8-sig")
    if declared and encoding == "utf-8-sig" and declared[1].lower() not in (b"utf-8", b"utf8"):
        encoding = declared[1].decode()
    try:
        decoder = codecs.getincrementaldecoder(encoding)("replace")
    except LookupError as error:
        raise _unknown_encoding(path, error) from None
    rest, line, last = "", 1, False
    while not last:
        chunk = file.read(CHUNK)
        last = not chunk
        rest += decoder.decode(chunk, last)
        starts = [match.start() for match in UNIT_START.finditer(rest)]
        done = 0
        for start, following in zip(starts, [*starts, len(rest)][1:], strict=True):
            end = UNIT_END.search(rest, start, following)
            if end is None and following == len(rest) and not last and following - start < MOST_UNIT_CHARACTERS:
                break  # the rest of the unit is in the next chunk
            line += rest.count("\n", done, start)
            done = end.end() if end else following
            yield line, rest[start:done]
            line += rest.count("\n", start, done)
        else:
            kept = max(done, len(rest) - len("<tu"))  # of the start of a unit, which the next chunk may go on with
            line += rest.count("\n", done, kept)
            done = kept
        rest = rest[done:]


def _unknown_encoding(path: Path, error: Exception) -> TrainingError:
    return TrainingError(f"{path} declares an encoding that is not known here ({error}).")


def _segments(unit: Element) -> dict[str, str]:
    """Language -> text, the first of several variants. Native code is dropped; a line break becomes a space."""
    texts: dict[str, str] = {}
    for variant in unit.iter("tuv"):
        language, segment = variant.get("xml:lang", variant.get("lang")), variant.find("seg")
        if language is None or segment is None or language in texts:
            continue
        for code in segment.iter():
            if code.tag in NATIVE_CODE:
                written = (" <br" if code.get("type") == "lb" else "") + "".join(code.itertext())
                code[:], code.text = [], " " if LINE_BREAK.match(written) else ""
        texts[language] = "".join(segment.itertext())
    return texts


def read_tmx(path: Path, languages: tuple[str, str], *, skip_malformed: bool = False) -> Iterator[Row | LeftOutRow]:
    """One row per translation unit, with the line of its start; units without one of the languages, and with
    `skip_malformed` malformed ones, are left out. TrainingError for malformed XML, or if no unit has both languages: it
    names the languages that occur."""
    segments: Counter[str] = Counter()
    whole, problem = False, ""
    with open_corpus_file(path) as file:
        for unit in (readable_units if skip_malformed else translation_units)(file, path):
            if isinstance(unit, LeftOutRow):
                problem = problem or f" Of the units left out the first: {unit.problem}"
                yield unit
                continue
            line, texts = unit
            there = tuple(texts)
            segments.update(there)
            source, target = (find_language(language, there) for language in languages)
            if source is not None and target is not None:
                whole = True
                yield line, one_line(texts[source]), one_line(texts[target])
                continue
            lacking = [code for code, key in zip(languages, (source, target), strict=True) if key is None]
            shown = " | ".join(f"{code}: {one_line(text)}" for code, text in texts.items())
            yield LeftOutRow(line, f"no segment in {' or '.join(lacking)}", shown)
    if not whole:
        known = ", ".join(f"{code} ({count:,})" for code, count in segments.most_common(12)) or "none"
        wanted = " and ".join(languages)
        absent = [code for code in languages if not find_language(code, tuple(segments))]
        others = [base_language(code) for code in absent if base_language(code) in map(base_language, segments)]
        way = f"; a code without a region reads every region: {', '.join(others)}" if others else ""
        raise TrainingError(
            f"{path} has no unit with both {wanted}; its languages and their segments: {known}{way}.{problem}"
        )
