"""Reads the licence from a checkpoint's model card. People edit cards, so a broken card never fails a load. The card's
front matter is YAML, but is parsed with regular expressions: a YAML parser would reject all of it for one broken line,
and the licence would be lost."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from pathlib import Path


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


CARD = "README.md"
MAX_CARD_BYTES = 65_536
MAX_CHARACTERS = 200
FRONT_MATTER = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*\r?$", re.DOTALL | re.MULTILINE)


def licence(folder: Path) -> str | None:
    """The front matter's `license` values, or `license_name` if they say "other"; None if the card names none."""
    try:
        text = read_beginning(folder / CARD, MAX_CARD_BYTES).decode("utf-8", errors="replace")
    except OSError:
        return None
    front = FRONT_MATTER.match(text)
    if front is None:
        return None
    named, name = _yaml_values(front[1], "license"), _yaml_values(front[1], "license_name")
    return ", ".join(name if named in ([], ["other"]) and name else named)[:MAX_CHARACTERS] or None


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
