"""README.md and docs/ as a test reads them: their commands, each with the answer that stands below it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Example(NamedTuple):
    """commands: one each, continued lines joined; answers: the JSON lines of the block below, if there is one."""

    commands: list[str]
    answers: list[Any]


PAGES = ("README.md", *(f"docs/{name}.md" for name in ("api", "inspection", "protocols", "serving", "training")))


def examples() -> list[Example]:
    """Of all pages, in their order; an example that stands on two pages is there once."""
    found: dict[str, Example] = {}
    for page in PAGES:
        for example in examples_of(page):
            found.setdefault("\n".join(example.commands), example)
    return list(found.values())


def examples_of(page: str) -> list[Example]:
    blocks = BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))
    found = []
    for index, (kind, body) in enumerate(blocks):
        if kind == "sh":
            below = blocks[index + 1] if index + 1 < len(blocks) else ("", "")
            answers = [json.loads(line) for line in below[1].splitlines()] if below[0] == "json" else []
            found.append(Example(re.sub(r"\s*\\\n\s*", " ", body).strip().split("\n"), answers))
    return found


def same_shape(shown: Any, got: Any, path: str = "answer") -> list[str]:
    """Where two answers differ in keys, types or nesting. Numbers and generated texts may differ: they depend on
    the weights, and these on the machine that trained them. So does which heads align best, and what they link."""
    if isinstance(shown, dict) and isinstance(got, dict):
        if list(shown) != list(got):
            return [f"{path} has the keys {list(got)} and the README shows {list(shown)}"]
        return [problem for key in shown for problem in same_shape(shown[key], got[key], f"{path}.{key}")]
    if isinstance(shown, list) and isinstance(got, list):
        if path.startswith("answer.alignment."):
            shown, got = shown[:1], got[:1]
        if len(shown) != len(got):
            return [f"{path} has {len(got)} members and the README shows {len(shown)}"]
        return [p for i, (a, b) in enumerate(zip(shown, got, strict=True)) for p in same_shape(a, b, f"{path}[{i}]")]
    numbers = isinstance(shown, int | float) and isinstance(got, int | float)
    return [] if numbers or type(shown) is type(got) else [f"{path} is {got!r} and the README shows {shown!r}"]
