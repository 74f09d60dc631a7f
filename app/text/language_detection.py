"""Detects the language of a text among the languages with a model, and whether it is in none of them. Uses py3langid
(4.5 MB, some 100 languages with a two-letter code) and a table of greetings. On the 2 x 1,014 validation sentences of
Multi30k (de or en) it detects 100.0 % of the sentences and 99.6 % of their first three words; lingua (96 MB) 100.0 %
and 99.0 % (`python -m benchmarks.detection`)."""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from itertools import chain, islice
from typing import TYPE_CHECKING

from app.interpreter import give_way
from app.text.language_codes import closest_codes
from app.text.layout_characters import has_letters, is_unspaced_script
from app.text.protected_spans import without_protected

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

# Detection converges within a few hundred characters, and py3langid walks a text byte by byte in Python.
_CHARACTERS_READ = 1000
# A short text is classified between spaces, and once more in lower case: py3langid relies on beginnings and ends of
# words, and hardly knows "The". It detects 96.7 % of the first words of Multi30k's sentences with this, 55.9 % without.
_SHORT_CHARACTERS = 80
# A text is in a language without a model where that language has at least such a share of all languages, by the words
# of the text, and the candidates together at most `_CANDIDATES_SHARE`. One with less than `_NEGLIGIBLE_SHARE` for all
# candidates is in none of them, whichever it is, and so is one in another script. Of 6,000 beginnings of Multi30k's
# sentences, of 1, 2 and 3 words, none is mistaken.
_FOREIGN_SHARE = {1: 0.95, 2: 0.85}
_LEAST_FOREIGN_SHARE = 0.7
_CANDIDATES_SHARE = 0.02
_NEGLIGIBLE_SHARE = 0.001
_LEAST_SHARE = 0.4
_CODE_LETTERS = 2
# A sentence within a text shows its language from so many words on, or with two where one is in lower case: two words
# with capitals are a name. Below such a probability against the other candidates it goes with the sentences around it.
_SHOWING_WORDS = 3
_LEAST_SENTENCE_PROBABILITY = 0.95
_LATIN_LETTER = re.compile("[A-Za-z]")
_WORD = re.compile(r"[^\W\d_]+")
_GREETING_CONFIDENCE = 90.0
_AROUND_GREETING = " \t\r\n.,;:!?…¡¿。！？、，\"'„“”«»()"


@dataclass(frozen=True, slots=True)
class Detection:
    """confidence: 0 to 100, the share of `language` against the other candidates and against the likeliest of all known
    languages, so that a text in a language without a model has a low one. 0: the text has no sign of a language (blank,
    digits, emoji), and `language` is the first candidate."""

    language: str
    confidence: float


@dataclass(frozen=True, slots=True)
class Identification:
    """detection: of a candidate, or of another language if the text is evidently in none of them. probability: 0 to 1,
    of the detected candidate against the other candidates alone."""

    detection: Detection
    probability: float
    is_candidate: bool = True


@dataclass(frozen=True, slots=True)
class _Scores:
    """The log-probabilities of one text, which has a sign of a language. languages: of all that the library knows, by
    its codes. candidates: by the codes of the request, -inf where the library does not know a language. temperature:
    of a softmax over them."""

    languages: Mapping[str, float]
    candidates: Mapping[str, float]
    temperature: float

    def top(self, n: int) -> list[Detection]:
        """The `n` most probable candidates, in order."""
        best = max(self.languages.values())
        scores = {*self.candidates.values(), best}
        total = sum(math.exp((score - best) / self.temperature) for score in scores)
        ranked = sorted(self.candidates, key=lambda code: -self.candidates[code])
        return [
            Detection(code, round(100 * math.exp((self.candidates[code] - best) / self.temperature) / total, 1))
            for code in ranked[:n]
        ]

    def probability(self, candidate: str) -> float:
        """Of a candidate against the other candidates alone."""
        best = max(self.languages.values())
        weights = {code: math.exp((score - best) / self.temperature) for code, score in self.candidates.items()}
        return weights[candidate] / (sum(weights.values()) or 1.0)


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
        scores = self._scores(text, candidates)
        return [Detection(candidates[0], 0.0)] if scores is None else scores.top(n)

    def identify(self, text: str, candidates: Sequence[str]) -> Identification:
        """The most probable of `candidates`, or a language that is none of them where the text leaves no doubt."""
        greeted = _greeting_languages(text)
        if greeted:
            spoken = [code for code in candidates if closest_codes(code, greeted)]
            if not spoken:
                return Identification(Detection(greeted[0], _GREETING_CONFIDENCE), 1.0, is_candidate=False)
            language = self.detect(text, spoken).language
            return Identification(Detection(language, _GREETING_CONFIDENCE), 1.0)
        scores = self._scores(text, candidates)
        if scores is None:
            return Identification(Detection(candidates[0], 0.0), 0.0)
        foreign = _foreign(text, scores)
        if foreign is not None:
            return Identification(foreign, 1.0, is_candidate=False)
        (detection,) = scores.top(1)
        return Identification(detection, scores.probability(detection.language))

    def shown(self, sentence: str, candidates: Sequence[str]) -> Identification | None:
        """`identify` of a sentence within a text; None where it leaves a doubt, as a name does, a word or two, and a
        greeting that several candidates have."""
        greeted = _greeting_languages(sentence)
        if greeted:
            certain = sum(bool(closest_codes(code, greeted)) for code in candidates) <= 1
        else:
            words = _words_up_to(_SHOWING_WORDS, sentence)
            lower = words > 1 and any(word[0].islower() for word in _WORD.findall(sentence))
            certain = words >= _SHOWING_WORDS or lower
        found = self.identify(sentence, candidates) if certain else None
        return found if found and found.probability >= _LEAST_SENTENCE_PROBABILITY else None

    def ranked(self, text: str, candidates: Sequence[str], n: int) -> list[Detection]:
        """The `n` most probable languages of a text: the one that `identify` gives and the likeliest candidates."""
        first = self.identify(text, candidates).detection
        return [first, *(each for each in self.top(text, candidates, n) if each.language != first.language)][:n]

    def _scores(self, text: str, candidates: Sequence[str]) -> _Scores | None:
        """None of a text without a sign of a language, or of candidates that are all unknown."""
        part = _read_part(text)
        if not has_letters(part):
            return None
        known: dict[str, float] = dict(self._loaded().rank(part))
        give_way()
        codes = frozenset(known)
        # zh-Hans and pt-BR are scored as zh and pt, nb as no; languages unknown to the library come last
        scores = {
            code: max((known[own] for own in _known_codes(code, codes)), default=-math.inf) for code in candidates
        }
        if max(scores.values()) == -math.inf or len(set(known.values())) == 1:  # nothing was recognised
            return None
        return _Scores(known, scores, _temperature(part))

    def _loaded(self) -> LanguageIdentifier:
        with self._lock:
            if self._identifier is None:
                # Imported here: the model takes a second and 120 MB, and many servers never need it.
                from py3langid.langid import MODEL_FILE, LanguageIdentifier

                self._identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=False)
            return self._identifier


def _read_part(text: str) -> str:
    """The part of a text that shows its language."""
    part = without_protected(text[:_CHARACTERS_READ])
    if not has_letters(part):
        return ""
    if len(part) <= _SHORT_CHARACTERS:
        return f" {part} {part.lower()} "
    return part.lower() if part.isupper() else part


def _temperature(part: str) -> float:
    """The library's own, which makes confidences of short and long texts comparable."""
    return math.sqrt(len(part.encode("utf-8", "replace")))


def _known_codes(code: str, known: frozenset[str]) -> Collection[str]:
    base = code.lower().partition("-")[0]
    return [base] if base in known else _closest_codes(code, known)


@lru_cache(maxsize=1024)
def _closest_codes(code: str, known: frozenset[str]) -> frozenset[str]:
    """Kept, because looking through the library's codes takes longer than detecting the language of a sentence."""
    return frozenset(closest_codes(code, known))


def _foreign(text: str, scores: _Scores) -> Detection | None:
    """The language of a text that is evidently in none of the candidates. Languages with a code of two letters are
    considered alone: the others are small, and mistaken for large ones."""
    known = {code: score for code, score in scores.languages.items() if len(code) == _CODE_LETTERS}
    best = max(known.values())
    shares = {code: math.exp((score - best) / scores.temperature) for code, score in known.items()}
    total = sum(shares.values())
    codes = frozenset(known)
    candidates = [code for code, score in scores.candidates.items() if score > -math.inf]
    spoken = {own for code in candidates for own in _closest_codes(code, codes)}
    likeliest = max(shares, key=lambda code: shares[code])
    candidates_share = sum(shares[code] for code in spoken) / total
    if likeliest in spoken or candidates_share > _CANDIDATES_SHARE:
        return None
    words = _words_up_to(3, text)
    required = _FOREIGN_SHARE.get(words, _LEAST_FOREIGN_SHARE)
    if words > 1 and candidates_share < _NEGLIGIBLE_SHARE:
        required = _LEAST_SHARE
    if _LATIN_LETTER.search(text) and shares[likeliest] < required * total:
        return None
    return Detection(likeliest, round(100 * shares[likeliest] / total, 1))


def _words_up_to(limit: int, text: str) -> int:
    """The number of words, at most `limit`; a character of an unspaced script counts as one."""
    unspaced = (character for character in text if is_unspaced_script(character))
    return len(list(islice(chain(_WORD.finditer(text), unspaced), limit)))


def _greeting_languages(text: str) -> list[str]:
    """The languages of a text that is a greeting or the like and nothing else."""
    if len(text) > _SHORT_CHARACTERS:
        return []
    return _greetings().get(" ".join(text.lower().split()).strip(_AROUND_GREETING), [])


@cache
def _greetings() -> dict[str, list[str]]:
    """greeting -> its languages, those with the most speakers first."""
    table: dict[str, list[str]] = {}
    for line in (files("app.text") / "greetings.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        code, phrases = line.split("\t")
        for phrase in phrases.split("|"):
            table.setdefault(phrase, []).append(code)
    return table
