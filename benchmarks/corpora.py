"""The sentences of the benchmarks: Multi30k from its folder (not in this repository: its licence is for non-commercial
use), or the corpus that comes with this project; and the commands that train on them."""

from __future__ import annotations

import gzip
import random
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from training.data.corpus_loading import read_pairs

SOURCE, TARGET = "de", "en"
TEST = "test_2016_flickr"


def multi30k_lines(folder: Path, part: str, language: str, count: int | None = None) -> list[str]:
    """The lines of a part (train, val, test_2016_flickr) in a language, all or the first ones."""
    text = gzip.decompress((folder / f"{part}.{language}.gz").read_bytes()).decode("utf-8")
    return text.removesuffix("\n").split("\n")[:count]


def pairs(folder: Path, part: str, direction: str) -> str:
    """A part of Multi30k as the training commands take it."""
    return ",".join(f"{folder}/{part}.{language}.gz" for language in direction.split("-"))


def training(*arguments: str) -> str:
    """Runs `python -m training`; the last line of its standard output, or ""."""
    command = [sys.executable, "-m", "training", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return (done.stdout.strip().splitlines() or [""])[-1]


@dataclass(frozen=True, slots=True)
class Sentences:
    """train and valid: what `python -m training translator` takes; test: source sentences not trained on."""

    corpus: str
    part: str  # that `test` is
    train: str
    valid: str
    test: tuple[str, ...]

    def drawn(self, count: int, seed: int) -> list[str]:
        """`count` of the test sentences, again and again through them if there are fewer, in an order of the seed."""
        order = list(self.test)
        random.Random(seed).shuffle(order)
        return [order[i % len(order)] for i in range(count)]

    def paragraphs(self, count: int, seed: int) -> list[str]:
        """Short paragraphs of a page: one or two sentences each, and a heading of a few words now and then."""
        rng, sentences = random.Random(seed), iter(self.drawn(2 * count, seed))
        made = []
        for _ in range(count):
            kind = rng.random()
            first = next(sentences)
            made.append(
                " ".join(first.split()[:4]) if kind < 0.2 else first if kind < 0.7 else f"{first} {next(sentences)}"
            )
        return made


def multi30k(folder: Path) -> Sentences:
    """OSError where the folder has no test set."""
    test = tuple(line.strip() for line in multi30k_lines(folder, TEST, SOURCE) if line.strip())
    train, valid = (pairs(folder, part, f"{SOURCE}-{TARGET}") for part in ("train", "val"))
    return Sentences("Multi30k", TEST, train, valid, test)


def everyday() -> Sentences:
    """The corpus that comes with this project."""
    test = tuple(read_pairs(f"everyday-test:{SOURCE}-{TARGET}").sources)
    return Sentences("everyday", "everyday-test", f"everyday:{SOURCE}-{TARGET}", "everyday-valid", test)
