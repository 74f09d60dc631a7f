"""Writes a server's answers into the examples of README.md and docs/, in the layout and with the cuts that they have.

python -m tests.real_answers http://127.0.0.1:8000 [PAGE ...]

The server has the checkpoints that the examples name. Examples that change something (imports, keys, files to send) are
left alone; so is an answer that is an error now, which is printed."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.readme import BLOCK, CUT, PAGES, ROOT, TUTORIALS

_TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|…|[{}\[\],:]|[^\s{}\[\],:"…]+)')
_LEFT_ALONE = re.compile(r"/models/|/glossaries|/document|translate_file|@|\$")
_ABSENT = object()


class Rewriting:
    """The JSON text of an example, read from `at` on and written with other values."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def value(self, got: Any) -> str:
        """The text of the value that comes next, with the values of `got`; unchanged where `got` lacks it."""
        space, token = self._next()
        if token == "{":
            return space + "{" + self._members(got if isinstance(got, dict) else {})
        if token == "[":
            return space + "[" + self._elements(got if isinstance(got, list) else [])
        if token == CUT or got is _ABSENT or isinstance(got, dict | list):
            return space + token
        if token.startswith('"') and isinstance(got, str) and CUT in token[1:-1]:
            got = got[: token[1:-1].index(CUT)] + CUT
        return space + json.dumps(got, ensure_ascii=False)

    def _members(self, got: Mapping[str, Any]) -> str:
        members, starts, cut = dict[str, str](), list[str](), ""
        while (peeked := self._peek()) != "}":
            if peeked == ",":
                self._next()
                continue
            space, key = self._next()
            if key == CUT:
                cut = space + CUT
                continue
            colon = "".join(self._next())
            name = json.loads(key)
            members[name] = key + colon + self.value(got.get(name, _ABSENT))
            starts.append(space)
        ordered = sorted(members, key=lambda name: [*got].index(name) if name in got else len(got))
        written = [start + members[name] for start, name in zip(starts, ordered, strict=True)]
        return ",".join([*written, *([cut] if cut else [])]) + "".join(self._next())

    def _elements(self, got: list[Any]) -> str:
        written, number = list[str](), 0
        while (peeked := self._peek()) != "]":
            if peeked == ",":
                self._next()
                continue
            written.append(self.value(got[number] if number < len(got) else _ABSENT))
            number += peeked != CUT
        return ",".join(written) + "".join(self._next())

    def _next(self) -> tuple[str, str]:
        match = _TOKEN.match(self.text, self.at)
        assert match is not None, self.text[self.at : self.at + 80]
        self.at = match.end()
        return match[0][: -len(match[1])], match[1]

    def _peek(self) -> str:
        match = _TOKEN.match(self.text, self.at)
        assert match is not None, self.text[self.at : self.at + 80]
        return match[1]


def renewed(page: str, base: str) -> str:
    """The text of a page with the answers of the server at `base`."""
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = list(BLOCK.finditer(text))
    for shell, below in reversed([*pairwise(blocks)]):
        commands = re.sub(r"\s*\\\n\s*", " ", shell[2]).strip().split("\n")
        if shell[1] != "sh" or below[1] != "json" or not all(command.startswith("curl") for command in commands):
            continue
        if any(_LEFT_ALONE.search(command) for command in commands):
            continue
        rewriting, written = Rewriting(below[2]), ""
        for command in commands:
            words = shlex.split(command.replace("http://127.0.0.1:8000", base))
            got = json.loads(subprocess.run([*words, "--max-time", "60"], capture_output=True, check=True).stdout)
            if isinstance(got, dict) and "error" in got:
                print(f"{page}: {command}\n  {got['error']}", file=sys.stderr)
                got = {}
            written += rewriting.value(got)
        text = text[: below.start(2)] + written + "\n" + text[below.end(2) :]
    return text


def main() -> None:
    base, *pages = sys.argv[1:]
    for page in pages or (*PAGES, *TUTORIALS):
        Path(ROOT / page).write_text(renewed(page, base.rstrip("/")), encoding="utf-8")


if __name__ == "__main__":
    main()
