"""A made corpus of German and English railway talk: announcements, counter, staff, complaints, on board, timetables.

python -m benchmarks.railway_talk --out DIR [--seed 1] [--json]

writes train (2,000 pairs), valid (300) and test (500) as DIR/PART.de and DIR/PART.en. The parts differ in what they
combine: of the patterns, some are in the test set alone and some in the validation set alone (half of their
sentences), and of the pairs of a pattern or verb phrase and a word in it, and of an adjective and a noun, 7 % are in
the test set alone, 4 % in the validation set alone; every other sentence of these sets contains such a pair. No source
and no target is in two parts. Prints how much of the test set the training set contains, and the BLEU of a copy of the
source and of a translation memory: the translation of the training sentence with the least edit distance in words."""

from __future__ import annotations

import argparse
import hashlib
import random
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import sacrebleu

from benchmarks.railway_grammar import sentence_pair
from benchmarks.railway_words import PATTERNS
from benchmarks.report import finish

SIZES = {"test": 500, "valid": 300, "train": 2000}
UNSEEN_PATTERNS = {"test": 30, "valid": 20}  # patterns of this part alone
UNSEEN_SHARE = 2  # every second sentence of the part is of those patterns
TEST_PERCENT, VALID_PERCENT = 7, 4  # of the combinations
TRIES = 200


@dataclass(frozen=True, slots=True)
class Pair:
    source: str
    target: str
    register: str
    pattern: int
    unseen_pattern: bool


Corpus = dict[str, list[Pair]]


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def part_of_pattern() -> list[str]:
    """For each pattern 'train', or the part that has it for itself."""
    order = sorted(range(len(PATTERNS)), key=lambda index: _digest(PATTERNS[index][1]))
    parts = ["train"] * len(PATTERNS)
    for part, count in UNSEEN_PATTERNS.items():
        for index in order[:count]:
            parts[index] = part
        order = order[count:]
    return parts


def part_of_combination(combination: tuple[str, str]) -> str:
    percent = _digest("\t".join(combination)) % 100
    if percent < TEST_PERCENT:
        return "test"
    return "valid" if percent < TEST_PERCENT + VALID_PERCENT else "train"


def part_of(combinations: Iterable[tuple[str, str]]) -> str:
    parts = set(map(part_of_combination, combinations))
    return next(part for part in ("test", "valid", "train") if part in parts or part == "train")


def corpus(seed: int = 1) -> Corpus:
    """The three parts, in an order without meaning; the same for the same seed."""
    rng = random.Random(seed)
    home = part_of_pattern()
    patterns = {part: [i for i, owner in enumerate(home) if owner == part] for part in SIZES}
    sources: set[str] = set()
    targets: set[str] = set()
    parts: Corpus = {}

    def draw(part: str, index: int) -> Pair | None:
        register, german, english = PATTERNS[index]
        for _ in range(TRIES):
            source, target, combinations = sentence_pair(rng, german, english)
            own = home[index] == part != "train"
            if (own or part_of(combinations) == part) and source not in sources and target not in targets:
                sources.add(source)
                targets.add(target)
                return Pair(source, target, register, index, own)
        return None  # too few words in this pattern

    for part, size in SIZES.items():
        pairs: list[Pair] = []
        while len(pairs) < size:
            own = part != "train" and len(pairs) % UNSEEN_SHARE == 0
            pair = draw(part, rng.choice(patterns[part if own else "train"]))
            if pair:
                pairs.append(pair)
        rng.shuffle(pairs)
        parts[part] = pairs
    return parts


def write(parts: Corpus, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for part, pairs in parts.items():
        for language, texts in (("de", [p.source for p in pairs]), ("en", [p.target for p in pairs])):
            (folder / f"{part}.{language}").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")


def _words(text: str) -> list[str]:
    return list(sacrebleu.BLEU().tokenizer(text).split())


def _ngrams(text: str, order: int) -> Iterator[tuple[str, ...]]:
    words = _words(text)
    return (tuple(words[i : i + order]) for i in range(len(words) - order + 1))


def share_in(train: Sequence[str], test: Sequence[str], order: int) -> float:
    """Of the n-grams of the test texts, the share that is in the training texts, in percent."""
    known = {ngram for text in train for ngram in _ngrams(text, order)}
    found = [ngram in known for text in test for ngram in _ngrams(text, order)]
    return round(100 * statistics.mean(found), 1)


def nearest(train: Sequence[str], queries: Sequence[str]) -> list[int]:
    """For each query the index of the training text with the least edit distance in words; the first of several."""
    ids: dict[str, int] = {}
    rows = [[ids.setdefault(word, len(ids)) for word in _words(text)] for text in (*train, *queries)]
    memory, queries_ids = rows[: len(train)], rows[len(train) :]
    longest = max(map(len, memory))
    padded = np.full((len(memory), longest), -1)
    for row, words in zip(padded, memory, strict=True):
        row[: len(words)] = words
    lengths = np.array([len(words) for words in memory])
    best = []
    for query in queries_ids:
        above = np.tile(np.arange(longest + 1), (len(memory), 1))  # [training text, words of it]
        for count, word in enumerate(query, 1):
            replaced = above[:, :-1] + (padded != word)
            current = np.concatenate([np.full((len(memory), 1), count), np.minimum(above[:, 1:] + 1, replaced)], axis=1)
            offsets = np.arange(longest + 1)  # insertions: a running minimum along the training text
            above = np.minimum.accumulate(current - offsets, axis=1) + offsets
        best.append(int(np.argmin(above[np.arange(len(memory)), lengths])))
    return best


def statistics_of(parts: Corpus) -> list[dict[str, Any]]:
    """A row for each part, and for each side of the test set."""
    rows: list[dict[str, Any]] = []
    for part, pairs in parts.items():
        lengths = [len(pair.source.split()) for pair in pairs]
        rows.append(
            {
                "part": part,
                "pairs": len(pairs),
                "patterns": len({pair.pattern for pair in pairs}),
                "of unseen patterns": sum(pair.unseen_pattern for pair in pairs),
                "source words": f"{min(lengths)} to {max(lengths)}, mean {statistics.mean(lengths):.1f}",
            }
        )
    for side in ("source", "target"):
        train, test = ([getattr(pair, side) for pair in parts[part]] for part in ("train", "test"))
        row: dict[str, Any] = {"side": side, "words in training": len({w for text in train for w in _words(text)})}
        rows.append(row | {f"test {n}-grams in training, %": share_in(train, test, n) for n in (1, 2, 3, 4)})
    return rows


def baselines(parts: Corpus) -> list[dict[str, Any]]:
    """BLEU of systems that have learnt nothing."""
    train, test = parts["train"], parts["test"]
    memory = nearest([pair.source for pair in train], [pair.source for pair in test])
    outputs = {
        "copy of the source": [pair.source for pair in test],
        "translation memory": [train[index].target for index in memory],
    }
    metric = sacrebleu.BLEU()
    expected = [[pair.target for pair in test]]
    rows: list[dict[str, Any]] = []
    for system, texts in outputs.items():
        score = round(metric.corpus_score(texts, expected).score, 2)
        rows.append({"system": system, "bleu": score, "signature": str(metric.get_signature())})
    return rows


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the folder of the six files")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args(argv)
    parts = corpus(arguments.seed)
    write(parts, arguments.out)
    finish("railway_talk", [*statistics_of(parts), *baselines(parts)], [], as_json=arguments.json)


if __name__ == "__main__":
    main()
