"""Detects the language of a text among the languages with a model. Uses py3langid (4.5 MB). On the 2 x 1,014 validation
sentences of Multi30k (de or en) it detects 100.0 % of the sentences and 99.6 % of their first three words; lingua (96
MB) 100.0 % and 99.0 % (`python -m benchmarks.detection`)."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.text.layout_characters import has_letters

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

# Detection converges within a few hundred characters, and py3langid walks a text byte by byte in Python.
_CHARACTERS_READ = 1000
# A short text is classified between spaces, and once more in lower case: py3langid relies on beginnings and ends of
# words, and hardly knows "The". It detects 96.7 % of the first words of Multi30k's sentences with this, 55.9 % without.
_SHORT_CHARACTERS = 80


@dataclass(frozen=True, slots=True)
class Detection:
    """confidence: 0 to 100, the share of `language` against the other candidates and against the likeliest of all known
    languages, so that a text in a language without a model has a low one. 0: the text has no sign of a language (blank,
    digits, emoji), and `language` is the first candidate."""

    language: str
    confidence: float


class Detector:
    """The first call loads the model, in about a second. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._identifier: LanguageIdentifier | None = None

    def detect(self, text: str, candidates: Sequence[str]) -> Detection:
        """The most probable of `candidates` (language codes, at least one)."""
        return self.top(text, candidates, 1)[0]

    def top(self, text: str, candidates: Sequence[str], n: int) -> list[Detection]:
        """The `n` most probable of `candidates`, in order; a single one if the text has no sign of a language."""
        part = text[:_CHARACTERS_READ]
        if len(part) <= _SHORT_CHARACTERS:
            part = f" {part} {part.lower()} "
        if not has_letters(part):
            return [Detection(candidates[0], 0.0)]
        known: dict[str, float] = dict(self._loaded().rank(part))
        # zh-Hans and pt-BR are scored as zh and pt; languages unknown to the library come last
        scores = {code: known.get(code.lower().partition("-")[0], -math.inf) for code in candidates}
        ranked, best = sorted(candidates, key=lambda code: -scores[code]), max(known.values())
        if scores[ranked[0]] == -math.inf or len(set(known.values())) == 1:  # nothing was recognised
            return [Detection(candidates[0], 0.0)]
        # The library's own softmax temperature, which makes confidences of short and long texts comparable.
        temperature = math.sqrt(len(part.encode("utf-8", "replace")))
        total = sum(math.exp((score - best) / temperature) for score in {*scores.values(), best})
        return [
            Detection(code, round(100 * math.exp((scores[code] - best) / temperature) / total, 1))
            for code in ranked[:n]
        ]

    def _loaded(self) -> LanguageIdentifier:
        with self._lock:
            if self._identifier is None:
                # Imported here: the model takes a second and 120 MB, and many servers never need it.
                from py3langid.langid import MODEL_FILE, LanguageIdentifier

                self._identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=False)
            return self._identifier
