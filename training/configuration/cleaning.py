"""Which training pairs are left out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningConfig:
    """Which training pairs are left out (`training.corpora.cleaning`); None, False and "off" switch a rule off.

    A pair with an empty side is no pair and always left out; one over `TranslatorConfig.max_tokens` is, too.
    """

    broken: bool = True  # control characters, U+FFFD, UTF-8 decoded as Windows-1252
    max_characters: int | None = 5000  # of either side
    identical_from: int | None = 20  # characters; a copy teaches copying, but "Taxi" and "Berlin" are translations
    ratio: float | None = 4.0  # of the sides' lengths, as a factor to the corpus's own median ratio
    ratio_tolerance: int = 20  # characters beyond that: short sentences vary more
    duplicates: bool = True  # all but the first of equal pairs
    overlap: Literal["off", "pair", "source", "either"] = "source"  # what a pair must share with a held-out one
    least_pairs: int = 2  # that must be left; of a single one nothing but itself can be learnt

    def problems(self) -> Iterable[str]:
        for name in ("max_characters", "identical_from", "least_pairs"):
            value = getattr(self, name)
            yield f"{name} must be at least 1, not {value}" if value is not None and value < 1 else ""
        if self.ratio is not None and not self.ratio >= 1:
            yield f"ratio must be at least 1, not {self.ratio:g}"
        yield f"ratio_tolerance must be at least 0, not {self.ratio_tolerance}" if self.ratio_tolerance < 0 else ""
        if self.overlap not in ("off", "pair", "source", "either"):
            yield f"overlap must be off, pair, source or either, not {self.overlap!r}"


NO_CLEANING = CleaningConfig(
    broken=False, max_characters=None, identical_from=None, ratio=None, duplicates=False, overlap="off"
)
