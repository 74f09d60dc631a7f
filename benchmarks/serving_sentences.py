"""The sentences that the translators get: Multi30k from its folder, or the phrasebook's made-up sentences."""

from __future__ import annotations

import gzip
import random
from dataclasses import dataclass
from pathlib import Path

from training.demo import phrasebook

SOURCE, TARGET = "de", "en"


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
    """train, val and test_2016_flickr, each as .de.gz and .en.gz. OSError where one is missing."""

    def pair(part: str) -> str:
        return f"{folder}/{part}.{SOURCE}.gz,{folder}/{part}.{TARGET}.gz"

    with gzip.open(folder / f"test_2016_flickr.{SOURCE}.gz", "rt", encoding="utf-8") as lines:
        test = tuple(line.strip() for line in lines if line.strip())
    return Sentences("Multi30k", "test_2016_flickr", pair("train"), pair("val"), test)


def made_up(folder: Path) -> Sentences:
    """The phrasebook, written to `folder` for the training command."""
    path = folder / "phrases.tsv"
    pairs = phrasebook.pairs(SOURCE, TARGET, held_out=False)
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    test = tuple(source for source, _ in phrasebook.pairs(SOURCE, TARGET, held_out=True))
    return Sentences("the phrasebook (made up)", "its held-out tenth", str(path), "", test)
