"""A made corpus of German and English railway talk: announcements, counter, staff, complaints, on board, timetables.

python -m benchmarks.railway_talk --out DIR

writes train (2,000 pairs), valid (300) and test (500) as DIR/PART.de and DIR/PART.en. The sentences stand in
`railway/PART.tsv`: pattern, German, English. A grammar made them from patterns and words of ours
(`benchmarks/railway_grammar.py` of commit 76e38bca). The parts differ in what they combine: half of the sentences of
the test set and of the validation set have patterns that no other part has, and of the pairs of a pattern or verb
phrase and a word in it, and of an adjective and a noun, 7 % are in the test set alone and 4 % in the validation set
alone. No source and no target is in two parts.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

TABLES = Path(__file__).with_name("railway")
PARTS = ("train", "valid", "test")


@dataclass(frozen=True, slots=True)
class Pair:
    """pattern: the number of the sentence pattern. unseen_pattern: the training part has none of that pattern."""

    source: str
    target: str
    pattern: int
    unseen_pattern: bool


Corpus = Mapping[str, Sequence[Pair]]


def corpus() -> Corpus:
    """The pairs of each part."""
    rows = {
        part: [line.split("\t") for line in (TABLES / f"{part}.tsv").read_text(encoding="utf-8").split("\n")[:-1]]
        for part in PARTS
    }
    trained = {number for number, _, _ in rows["train"]}
    return {
        part: [Pair(source, target, int(number), number not in trained) for number, source, target in lines]
        for part, lines in rows.items()
    }


def write(parts: Corpus, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for part, pairs in parts.items():
        for language, texts in (("de", [p.source for p in pairs]), ("en", [p.target for p in pairs])):
            (folder / f"{part}.{language}").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the folder of the six files")
    write(corpus(), parser.parse_args().out)


if __name__ == "__main__":
    main()
