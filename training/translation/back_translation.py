"""Back-translation (Sennrich et al. 2016, arXiv 1511.06709): pairs with synthetic sources and real targets, from text
in the target language and a teacher of the opposite direction.

Noise on beam outputs is that of Edunov et al. 2018 (arXiv 1808.09381, section 3.2): words are dropped, replaced by a
blank, and moved by at most three places. Drawing from the model instead of searching is their alternative. A tag in
front of each synthetic source (Caswell et al. 2019, arXiv 1906.06442) lets the student tell it from a real one."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

NOISE_STREAM = 1 << 41  # of seeds, apart from those of drawn translations


@dataclass(frozen=True, slots=True)
class WordNoise:
    """drop, blank: probabilities of each word. swap: places that a word moves, at most. blank_word: stands in."""

    drop: float = 0.1
    blank: float = 0.1
    swap: int = 3
    blank_word: str = "<BLANK>"

    def problems(self) -> Iterable[str]:
        for name in ("drop", "blank"):
            if not 0 <= getattr(self, name) < 1:
                yield f"--noise {name} must lie in [0, 1), not {getattr(self, name):g}"
        if self.swap < 0:
            yield f"--noise swap must be at least 0, not {self.swap}"

    def words(self, words: Sequence[str], generator: random.Random) -> list[str]:
        """At least one word is kept."""
        kept = [word for word in words if generator.random() >= self.drop] or list(words[:1])
        kept = [self.blank_word if generator.random() < self.blank else word for word in kept]
        # i + U[0, swap + 1): the order of two words changes only if they are at most `swap` apart, and then no word
        # moves further (Lample et al. 2018, arXiv 1711.00043, section 2.3)
        keys = [i + generator.random() * (self.swap + 1) for i in range(len(kept))] if self.swap else range(len(kept))
        return [kept[i] for i in sorted(range(len(kept)), key=lambda i: keys[i])]

    def __call__(self, text: str, seed: int, number: int) -> str:
        """The text of line `number` with noise; determined by these arguments alone."""
        return " ".join(self.words(text.split(), random.Random(seed * NOISE_STREAM + number)))


@dataclass(frozen=True, slots=True)
class BackwardPair:
    """The translation, with noise and tag, as source; the text as target. languages: of the student."""

    languages: tuple[str, str]
    noise: WordNoise | None = None
    tag: str = ""
    seed: int = 1

    def __call__(self, number: int, line: str, translation: str) -> Mapping[str, str]:
        source = translation if self.noise is None else self.noise(translation, self.seed, number)
        source = f"{self.tag} {source}" if self.tag else source
        return dict(zip(self.languages, (source, line), strict=True))
