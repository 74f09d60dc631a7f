"""Reads model cards, README.md with a front matter in YAML. A card may come from a stranger, so that all of Parlance
reads one here: its beginning alone, and of its YAML no more than flat data has.

The licence is found with regular expressions. People edit cards, and a YAML parser would reject all of the front matter
for one broken line, and the licence would be lost. A broken card never fails a load."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from pathlib import Path
from typing import Any

CARD = "README.md"
MOST_CARD_BYTES = 1_000_000  # of a card that is kept whole; those of the Hub have up to 200,000
MOST_FRONT_BYTES = 65_536
MAX_CHARACTERS = 200
MOST_DEPTH, MOST_NODES = 12, 2000  # of the front matter's YAML; cards with results of many benchmarks have 1,000
FRONT_MATTER = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*\r?$", re.DOTALL | re.MULTILINE)


def read_beginning(path: Path, most: int) -> bytes:
    """At most `most` bytes of a file. Raises OSError unless it is a regular file: a pipe could block."""
    number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise OSError(errno.EINVAL, "it is no file", str(path))
        with os.fdopen(number, "rb", closefd=False) as file:
            return file.read(most)
    finally:
        os.close(number)


def read_card(path: Path) -> str:
    """The beginning of a card; "" where there is none that can be read."""
    try:
        return read_beginning(path, MOST_CARD_BYTES).decode("utf-8", errors="replace")
    except OSError:
        return ""


def split_card(card: str) -> tuple[str, str]:
    """The front matter, "" if there is none, and the text after it."""
    front = FRONT_MATTER.match(card[:MOST_FRONT_BYTES])
    return (front[1], card[front.end() :]) if front else ("", card)


def licence(folder: Path) -> str | None:
    """Of the card of a checkpoint, see `card_licence`."""
    try:
        text = read_beginning(folder / CARD, MOST_FRONT_BYTES).decode("utf-8", errors="replace")
    except OSError:
        return None
    return card_licence(text)


def card_licence(card: str) -> str | None:
    """The front matter's `license` values, or `license_name` if they say "other"; None if the card names none."""
    front, _ = split_card(card)
    named, name = _yaml_values(front, "license"), _yaml_values(front, "license_name")
    return ", ".join(name if named in ([], ["other"]) and name else named)[:MAX_CHARACTERS] or None


def front_values(front: str) -> dict[str, Any] | None:
    """All that a front matter says; None for one that is no YAML object, uses aliases, with which a line stands for a
    billion, or is larger or deeper than cards are."""
    import yaml  # here: the server needs the licence alone

    depth, nodes = 0, 0
    try:
        for event in yaml.parse(front, yaml.SafeLoader):
            nodes += isinstance(event, yaml.NodeEvent)
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if isinstance(event, yaml.AliasEvent) or depth > MOST_DEPTH or nodes > MOST_NODES:
                return None
        values = yaml.safe_load(front)
    except (yaml.YAMLError, ValueError, TypeError, OverflowError, RecursionError):  # some of a date or a number
        return None
    return values if isinstance(values, dict) else None


def _yaml_values(front: str, key: str) -> list[str]:
    """The values of a YAML entry: `key: value`, `key: [value, value]`, or a list on the lines below."""
    match = re.search(rf"^{key}[ \t]*:[ \t]*([^\r\n]*)((?:\r?\n[ \t]*-[ \t]+[^\r\n]*)*)", front, re.MULTILINE)
    if match is None:
        return []
    inline, below = match[1], [line.strip()[1:] for line in match[2].splitlines() if line.strip()]
    listed = re.match(r"\[(.*)\]", inline)
    parts = listed[1].split(",") if listed else [inline, *below]
    return [text for part in parts if (text := _yaml_scalar(part.strip()))]


def _yaml_scalar(text: str) -> str | None:
    """A YAML scalar without quotes and comment; None for YAML's nulls."""
    quoted = re.match(r"\"(?:[^\"\\]|\\.)*\"", text)
    if quoted:
        try:
            return str(json.loads(quoted[0])).encode(errors="replace").decode().strip()  # replaces lone surrogates
        except ValueError:
            return quoted[0][1:-1].strip()
    if single := re.match(r"'((?:[^']|'')*)'", text):
        return single[1].replace("''", "'").strip()
    plain = re.split(r"(?:^|\s)#", text, maxsplit=1)[0].strip()
    return None if plain.lower() in ("", "null", "~") else plain
