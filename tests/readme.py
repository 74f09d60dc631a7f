"""The commands of README.md and docs/, each with the answer that is shown below it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
CUT = "…"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Example(NamedTuple):
    """commands: one each, continued lines joined; answers: the JSON values of the block below, if there is one.

    An answer may be cut: `…` stands for further elements of a list or further members of an object."""

    commands: list[str]
    answers: list[Any]


TUTORIALS = tuple(sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs/tutorials").glob("*.md")))
PAGES = ("README.md", *(f"docs/{name}.md" for name in ("api", "gpu", "inspection", "protocols", "serving", "training")))


def examples() -> list[Example]:
    """The examples of all pages, in order; one that occurs on two pages is listed once."""
    result: dict[str, Example] = {}
    for page in PAGES:
        for example in examples_of(page):
            result.setdefault("\n".join(example.commands), example)
    return list(result.values())


def examples_of(page: str) -> list[Example]:
    blocks = BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))
    results = []
    for index, (kind, body) in enumerate(blocks):
        if kind == "sh":
            below = blocks[index + 1] if index + 1 < len(blocks) else ("", "")
            answers = json_values(below[1]) if below[0] == "json" else []
            results.append(Example(re.sub(r"\s*\\\n\s*", " ", body).strip().split("\n"), answers))
    return results


def json_values(text: str) -> list[Any]:
    """The values of a block, one after another. A `…` outside of strings becomes CUT: an element, or a key."""
    brackets, parts = [], []
    for part in re.findall(r'"(?:[^"\\]|\\.)*"|[^"]', text):
        if part in "[{":
            brackets.append(part)
        elif part in "]}":
            brackets.pop()
        parts.append(('"…"' if brackets[-1] == "[" else '"…": 0') if part == CUT else part)
    decoder, rest, values = json.JSONDecoder(), "".join(parts).strip(), []
    while rest:
        value, end = decoder.raw_decode(rest)
        values.append(value)
        rest = rest[end:].lstrip()
    return values


def same_shape(shown: Any, got: Any, path: str = "answer") -> list[str]:
    """Where two answers differ in keys, types or nesting. Numbers and generated texts may differ: they depend on
    the weights, and these on the machine that trained them. So does which heads align best, and what they link."""
    if isinstance(shown, dict) and isinstance(got, dict):
        if CUT in shown:
            shown = {key: value for key, value in shown.items() if key != CUT}
            got = {key: value for key, value in got.items() if key in shown}
        if list(shown) != list(got):
            return [f"{path} has the keys {list(got)} and the README shows {list(shown)}"]
        return [problem for key in shown for problem in same_shape(shown[key], got[key], f"{path}.{key}")]
    if isinstance(shown, list) and isinstance(got, list):
        if path.startswith("answer.alignment."):
            shown, got = shown[:1], got[:1]
        if CUT in shown:
            shown = shown[: shown.index(CUT)]
            got = got[: len(shown)]
        if len(shown) != len(got):
            return [f"{path} has {len(got)} members and the README shows {len(shown)}"]
        return [p for i, (a, b) in enumerate(zip(shown, got, strict=True)) for p in same_shape(a, b, f"{path}[{i}]")]
    numbers = isinstance(shown, int | float) and isinstance(got, int | float)
    return [] if numbers or type(shown) is type(got) else [f"{path} is {got!r} and the README shows {shown!r}"]
