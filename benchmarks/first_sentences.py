"""How many first sentences of a newcomer the demo translators translate exactly.

python -m benchmarks.first_sentences --checkpoints FOLDER: 200 sentences for each direction, written by us and kept out
of the training text, each with its correct translations (`training/demo/first_sentences_*.txt`), through the text layer
and the engine of the server. Prints JSON; with --errors also the wrong answers."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from app.engine.async_engine import AsyncEngine
from app.engine.interface import EngineSettings, TranslationOptions
from app.translation import TextRequest
from app.translation.text_translator import Translator
from training.demo.first_sentences import first_sentences

DIRECTIONS = (("de", "en"), ("en", "es"))


async def translations(
    checkpoints: Path, texts: dict[tuple[str, str], Sequence[str]]
) -> dict[tuple[str, str], list[str]]:
    """The answers of the engine and text layer with the default settings, by direction."""
    engine = AsyncEngine(EngineSettings(checkpoints=checkpoints, devices="cpu", cpu_threads=1))
    await engine.start()
    try:
        async with asyncio.timeout(120):
            while not engine.status().ready:
                await asyncio.sleep(0.05)
        translator = Translator(engine)
        answers = {}
        for pair, sources in texts.items():
            requests = [
                TextRequest(text, TranslationOptions(*pair, model=f"demo-{'-'.join(pair)}")) for text in sources
            ]
            answers[pair] = [result.text for result in await translator.translate(requests)]
        return answers
    finally:
        await engine.stop()


def measure(
    checkpoints: Path, directions: Sequence[tuple[str, str]] = DIRECTIONS, folder: Path | None = None
) -> dict[str, Any]:
    """Share of exact answers, and the wrong ones, by direction."""
    sentences = {pair: first_sentences(*pair, folder) for pair in directions}
    answers = asyncio.run(translations(checkpoints, {pair: [t for t, _ in rows] for pair, rows in sentences.items()}))
    report: dict[str, Any] = {}
    for pair, rows in sentences.items():
        wrong = [
            {"source": text, "answer": answer, "correct": sorted(correct)[0]}
            for (text, correct), answer in zip(rows, answers[pair], strict=True)
            if answer not in correct
        ]
        report["-".join(pair)] = {"sentences": len(rows), "exact": 1 - len(wrong) / len(rows), "wrong": wrong}
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--checkpoints", type=Path, default=Path("checkpoints"))
    parser.add_argument("--sentences", type=Path, help="a folder with other first_sentences_*.txt")
    parser.add_argument("--only", help="one direction, such as de-en")
    parser.add_argument("--errors", action="store_true", help="keep the wrong answers in the JSON")
    parser.add_argument("--out", type=Path, help="also write the JSON to this file")
    arguments = parser.parse_args()
    directions = [pair for pair in DIRECTIONS if arguments.only in (None, "-".join(pair))]
    report = measure(arguments.checkpoints, directions, arguments.sentences)
    if not arguments.errors:
        for result in report.values():
            result["wrong"] = len(result["wrong"])
    text = json.dumps(report, ensure_ascii=False, indent=1)
    print(text)
    if arguments.out:
        arguments.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
