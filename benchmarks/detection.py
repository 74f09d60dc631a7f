"""How often the language of a short text is found, among German and English.

python -m benchmarks.detection --data FOLDER [--json] [--results FILE]

FOLDER holds Multi30k's test set (test_2016_flickr.LANG.gz, not in this repository: its licence is for non-commercial
use). Every sentence alone, then its first words: what people look up.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from app.text.language_detection import Detector
from benchmarks.corpora import TEST, multi30k_lines
from benchmarks.report import argument_parser, finish, goal

LANGUAGES = ("de", "en")
LENGTHS = {"the whole sentence": None, "its first three words": 3, "its first two words": 2, "its first word": 1}
GOALS = {"the whole sentence": 97.0, "its first three words": 85.0}


def measured(detector: Detector, texts: dict[str, list[str]], words: int | None) -> dict[str, Any]:
    """Shares in per cent, of both languages and of each."""
    right = dict.fromkeys(texts, 0)
    for language, lines in texts.items():
        for line in lines:
            part = line if words is None else " ".join(line.split()[:words])
            right[language] += detector.detect(part, LANGUAGES).language == language
    shares = {language: round(100 * right[language] / len(lines), 2) for language, lines in texts.items()}
    return {"right": round(100 * sum(right.values()) / sum(map(len, texts.values())), 2), **shares}


def main(argv: Sequence[str] | None = None) -> None:
    top = argument_parser("detection", __doc__)
    top.add_argument("--data", type=Path, required=True)
    arguments = top.parse_args(argv)
    texts = {language: multi30k_lines(arguments.data, TEST, language) for language in LANGUAGES}
    detector = Detector()
    detector.detect("", LANGUAGES)  # loads it
    rows = [{"text": name, **measured(detector, texts, words)} for name, words in LENGTHS.items()]
    goals = [
        goal(f"language found of {row['text']}, German and English", row["right"], GOALS[row["text"]], "%", "higher")
        for row in rows
        if row["text"] in GOALS
    ]
    finish(arguments, rows, goals)


if __name__ == "__main__":
    main()
