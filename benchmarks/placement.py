"""How often a translation has the placeholders of a sentence where a person would put them.

python -m benchmarks.placement --address http://127.0.0.1:8000 --sentences FILE [FILE ...] [--errors] [--json]

A line of a file is a sentence and its translations in all correct orders, between bars; its languages end the file's
name. The {names} are placeholders, in the request in another syntax in each line. The reference is the one with the
longest subsequence of words and marks in common with the translation. Placeholders are in their slots if each is there
once, they make that subsequence longer by their number, and each has a neighbour of the reference or most words agree.
"""

from __future__ import annotations

import json
import re
import urllib.request
from pathlib import Path
from typing import Any

from benchmarks.report import argument_parser, finish, goal

SYNTAXES = ("{{{}}}", "%({})s", "${{{}}}", "{{{{ {} }}}}", "$({})", "[[{}]]", "%{}%", "<%= {} %>", "@@{}@@", "#{{{}}}")
MUCH_SHARED = 0.7
TOKEN = re.compile(r"⟨\w+⟩|\w+(?:['’]\w+)*|[^\w\s]")


def translation(address: str, **fields: str) -> str:
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(f"{address}/translate", json.dumps(fields).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as response:
        return str(json.load(response)["translatedText"])


def tokens(text: str, names: list[str], syntax: str) -> list[str]:
    for name in names:
        text = text.replace(syntax.format(name), f" ⟨{name}⟩ ")
    return ["<s>", *TOKEN.findall(text.lower()), "</s>"]


def longest_common_subsequence(one: list[str], other: list[str]) -> int:
    row = [0] * (len(other) + 1)
    for token in one:
        before, row = row, [0]
        for place, each in enumerate(other):
            row.append(before[place] + 1 if token == each else max(row[-1], before[place + 1]))
    return row[-1]


def in_slots(answer: list[str], references: list[list[str]], marks: list[str]) -> bool:
    if any(answer.count(mark) != 1 for mark in marks):
        return False
    words = [[token for token in line if token not in marks] for line in (answer, *references)]
    shared = [longest_common_subsequence(words[0], reference) for reference in words[1:]]
    for reference, count in zip(references, shared, strict=True):
        places = [(answer.index(mark), reference.index(mark)) for mark in marks]
        beside = all(answer[a - 1] == reference[b - 1] or answer[a + 1] == reference[b + 1] for a, b in places)
        near = beside or count >= MUCH_SHARED * (len(reference) - len(marks))
        if count == max(shared) and near and longest_common_subsequence(answer, reference) == count + len(marks):
            return True
    return False


def measured(address: str, path: Path) -> dict[str, Any]:
    source, target = path.stem.rpartition("_")[2].split("-")
    lines = [line.split(" | ") for line in path.read_text(encoding="utf-8").splitlines() if line[0] != "#"]
    wrong = []
    for number, (text, *references) in enumerate(lines):
        syntax = SYNTAXES[number % len(SYNTAXES)]
        names = re.findall(r"\{(\w+)\}", text)
        asked = syntax.join(re.split(r"\{\w+\}", text)).format(*names)
        answer = translation(address, q=asked, source=source, target=target)
        correct = [tokens(reference, names, SYNTAXES[0]) for reference in references]
        if not in_slots(tokens(answer, names, syntax), correct, [f"⟨{name}⟩" for name in names]):
            wrong.append(f"{asked} | {answer}")
    share = round(100 - 100 * len(wrong) / len(lines), 1)
    return {"file": path.name, "sentences": len(lines), "in_slot_percent": share, "wrong": wrong}


def main() -> None:
    top = argument_parser("placement", __doc__)
    top.add_argument("--address", default="http://127.0.0.1:8000")
    top.add_argument("--sentences", type=Path, nargs="+", required=True, help="of benchmarks/placement_sentences")
    top.add_argument("--errors", action="store_true", help="the wrong translations, not their number")
    given = top.parse_args()
    rows = [measured(given.address, path) for path in given.sentences]
    goals = [goal(f"in their slots, {row['file']}", row["in_slot_percent"], 95.0, "%", "higher") for row in rows]
    finish(given, rows if given.errors else [row | {"wrong": len(row["wrong"])} for row in rows], goals)


if __name__ == "__main__":
    main()
