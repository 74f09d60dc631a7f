"""How often the language of a short text is found, among German and English, and how long that takes.

python -m benchmarks.detection --data FOLDER [--json] [--results FILE]

FOLDER holds Multi30k's test set (test_2016_flickr.LANG.gz, not in this repository: its licence is for non-commercial
use). Every sentence alone, then its first words: what people look up.
"""

from __future__ import annotations

import argparse
import gzip
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from app.text.language_detection import Detector
from benchmarks.report import finish, goal

TEST = "test_2016_flickr"
LANGUAGES = ("de", "en")
LENGTHS = {"the whole sentence": None, "its first three words": 3, "its first two words": 2, "its first word": 1}
GOALS = {"the whole sentence": 97.0, "its first three words": 85.0}


def sentences(folder: Path, language: str) -> list[str]:
    with gzip.open(folder / f"{TEST}.{language}.gz", "rt", encoding="utf-8") as lines:
        return [line.strip() for line in lines]


def measured(detector: Detector, texts: dict[str, list[str]], words: int | None) -> dict[str, Any]:
    """Shares in per cent, of both languages and of each; microseconds for each text."""
    right = dict.fromkeys(texts, 0)
    began = time.perf_counter()
    for language, lines in texts.items():
        for line in lines:
            part = line if words is None else " ".join(line.split()[:words])
            right[language] += detector.detect(part, LANGUAGES).language == language
    seconds, count = time.perf_counter() - began, sum(map(len, texts.values()))
    shares = {language: round(100 * right[language] / len(lines), 2) for language, lines in texts.items()}
    return {"right": round(100 * sum(right.values()) / count, 2), **shares, "us": round(1e6 * seconds / count, 1)}


def main(argv: Sequence[str] | None = None) -> None:
    top = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    top.add_argument("--data", type=Path, required=True)
    top.add_argument("--results", type=Path, help="a file that gets the object that --json prints")
    top.add_argument("--json", action="store_true")
    arguments = top.parse_args(argv)
    texts = {language: sentences(arguments.data, language) for language in LANGUAGES}
    detector = Detector()
    detector.detect("", LANGUAGES)  # loads it
    rows = [{"text": name, **measured(detector, texts, words)} for name, words in LENGTHS.items()]
    goals = [
        goal(f"language found of {row['text']}, German and English", row["right"], GOALS[row["text"]], "%", "higher")
        for row in rows
        if row["text"] in GOALS
    ]
    finish("detection", rows, goals, as_json=arguments.json, out=arguments.results)


if __name__ == "__main__":
    main()
