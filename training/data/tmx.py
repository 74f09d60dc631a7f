"""Streams translation memories (TMX 1.4b)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from training.errors import TrainingError

CHUNK = 1 << 16  # bytes
NATIVE_CODE = frozenset({"bpt", "ept", "it", "ph", "ut"})  # they contain markup of another format
LINE_BREAK = re.compile(r"\s*<\s*(w:)?br\b|\s*\\n", re.IGNORECASE)


def translation_units(file: BinaryIO, path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """The starting line of each <tu>, with its segments by language. TrainingError names `path`. Drives the tree
    builder by expat, for line numbers and to reject entity declarations."""
    finished: list[tuple[int, Element]] = []
    parser = expat.ParserCreate()
    parser.buffer_text = True

    def start(name: str, attributes: dict[str, str]) -> None:
        if name == "tu":
            builder, line = TreeBuilder(), parser.CurrentLineNumber
            builder.start(name, attributes)

            def end(name: str) -> None:
                element = builder.end(name)
                if name == "tu":
                    finished.append((line, element))
                    parser.StartElementHandler = start
                    parser.EndElementHandler = parser.CharacterDataHandler = None

            parser.StartElementHandler, parser.EndElementHandler = builder.start, end
            parser.CharacterDataHandler = builder.data

    def refuse(sentence: str) -> None:
        raise TrainingError(f"{path} line {parser.CurrentLineNumber} {sentence}")

    parser.StartElementHandler = start
    parser.EntityDeclHandler = lambda name, *_: refuse(f"declares the entity {name!r}, which is refused: write it out.")
    parser.SkippedEntityHandler = lambda name, _: refuse(f"uses the entity {name!r}, which the file does not define.")
    last = False
    while not last:
        chunk = file.read(CHUNK)
        last = not chunk
        try:
            parser.Parse(chunk, last)
        except expat.ExpatError as error:
            place = f"line {error.lineno}, column {error.offset + 1} ({expat.ErrorString(error.code)})"
            raise TrainingError(f"{path} is no well-formed TMX: {place}.") from None
        except TrainingError:
            raise
        except (LookupError, ValueError) as error:
            raise TrainingError(f"{path} declares an encoding that is not known here ({error}).") from None
        yield from ((line, _segments(unit)) for line, unit in finished)
        finished.clear()


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
