"""How many first sentences of a newcomer the demo translators translate exactly.

python -m benchmarks.first_sentences --checkpoints FOLDER [--errors] [--json]

200 sentences for each direction, written by us and kept out of the training text, each with its correct translations
(`training/demo/first_sentences_*.txt`), through the text layer and the engine of the server. --errors: the wrong
answers too.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from app.engine.interface import TranslationOptions
from app.translation import TextRequest
from benchmarks.fidelity import translated, translating
from benchmarks.report import argument_parser, finish, goal
from training.demo.first_sentences import first_sentences

DIRECTIONS = (("de", "en"), ("en", "es"))
GOAL = 80.0


async def measured(checkpoints: Path, source: str, target: str) -> dict[str, Any]:
    """A row: the share of exact answers in per cent, and the wrong ones."""
    rows = first_sentences(source, target)
    requests = [TextRequest(text, TranslationOptions(source, target)) for text, _ in rows]
    async with translating(checkpoints / f"demo-{source}-{target}") as translator:
        answers = await translated(translator, requests)
    wrong = [
        {"source": text, "answer": answer, "correct": sorted(correct)[0]}
        for (text, correct), answer in zip(rows, answers, strict=True)
        if answer not in correct
    ]
    exact = 100 - 100 * len(wrong) / len(rows)
    return {"direction": f"{source}-{target}", "sentences": len(rows), "exact_percent": exact, "wrong": wrong}


def main() -> None:
    top = argument_parser("first_sentences", __doc__)
    top.add_argument("--checkpoints", type=Path, default=Path("checkpoints"))
    top.add_argument("--errors", action="store_true", help="the wrong answers instead of their number")
    arguments = top.parse_args()
    rows = [asyncio.run(measured(arguments.checkpoints, *direction)) for direction in DIRECTIONS]
    goals = [goal(f"exact answers, {row['direction']}", row["exact_percent"], GOAL, "%", "higher") for row in rows]
    if not arguments.errors:
        rows = [row | {"wrong": len(row["wrong"])} for row in rows]
    finish(arguments, rows, goals)


if __name__ == "__main__":
    main()
