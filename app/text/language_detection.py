"""Which language a text is in, among the languages that have a model.

The library is py3langid (4.5 MB). Against lingua (96 MB) on the 2 x 1,014 validation sentences of Multi30k, told
apart as de or en: 100.0 % of the sentences and 99.6 % of their first three words, lingua 100.0 % and 99.0 %.
`python -m benchmarks.detection` measures it as it is used here."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Protocol

from app.text.layout_characters import has_letters

# The verdict settles within a few hundred characters, and the library walks a text byte by byte in Python.
_CHARACTERS_READ = 1000
# A short text is read between spaces, and once more in lower case: beginnings and ends of words tell most, and the
# library knows "The" as little as a title. Of the first words of Multi30k's sentences it finds 96.7 % so, else 55.9 %.
_SHORT_CHARACTERS = 80


@dataclass(frozen=True, slots=True)
class Detection:
    """`confidence` is 0 to 100: the share of `language` against the other candidates and, so that a text in a
    language without a model does not look certain, against the likeliest of all languages the detector knows.

    0 means that the text shows nothing of its language (blank, digits, emoji); `language` is then the first
    candidate.
    """

    language: str
    confidence: float


class _Identifier(Protocol):
    def rank(self, text: str) -> list[tuple[str, float]]: ...


class Detector:
    """Detects lazily: the model (about a second) is loaded by the first call. Safe to call from threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._identifier: _Identifier | None = None

    def detect(self, text: str, candidates: Sequence[str]) -> Detection:
        """The most probable of `candidates` (language codes, at least one) for this text alone."""
        return self.top(text, candidates, 1)[0]

    def top(self, text: str, candidates: Sequence[str], n: int) -> list[Detection]:
        """The `n` most probable of `candidates`, the first one first; of a text that shows nothing, one."""
        part = text[:_CHARACTERS_READ]
        if len(part) <= _SHORT_CHARACTERS:
            part = f" {part} {part.lower()} "
        if not has_letters(part):
            return [Detection(candidates[0], 0.0)]
        scores = dict(self._loaded().rank(part))
        ranked = sorted(candidates, key=lambda code: -_score(scores, code))
        rivals = {_score(scores, code) for code in candidates} | {max(scores.values())}
        if _score(scores, ranked[0]) == -math.inf or len(set(scores.values())) == 1:  # nothing was recognised
            return [Detection(candidates[0], 0.0)]
        # The library's own temperature, by which confidences of short and long texts mean the same.
        temperature = math.sqrt(len(part.encode("utf-8", "replace")))
        return [Detection(code, _share(_score(scores, code), rivals, temperature)) for code in ranked[:n]]

    def _loaded(self) -> _Identifier:
        with self._lock:
            if self._identifier is None:
                # Here and not at the top: the model costs a second and 120 MB, and many services never need it.
                from py3langid.langid import MODEL_FILE, LanguageIdentifier

                self._identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=False)
            return self._identifier


def _score(scores: Mapping[str, float], code: str) -> float:
    """Of the language itself: zh-Hans and pt-BR are scored as zh and pt. Languages it does not know lose."""
    return scores.get(code.lower().partition("-")[0], -math.inf)


def _share(own: float, rivals: Set[float], temperature: float) -> float:
    """Softmax of `own` among `rivals` (which hold it), in per cent."""
    top = max(rivals)
    total = sum(math.exp((score - top) / temperature) for score in rivals)
    return round(100 * math.exp((own - top) / temperature) / total, 1)
