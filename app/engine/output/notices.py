"""What a reader of a translation should know about it: a text that loops, a low probability, words that the model was
not trained on. Places are code points of the model's input."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from app.engine.interface import FinishReason, Notice
from app.engine.output.token_views import word_spans
from models.checkpoint import WORD, Checkpoint
from models.decoding.options import Hypothesis

# Mean log-probability of a token, in nats, below which a translation of a model without a calibration is marked. Chosen
# on translations of known quality; the table stands in benchmarks/LOG.md ("low probability").
LOW_PROBABILITY = -0.9
_PLAIN_WORDS = re.compile(r"(?:[^\W\d_]|[ ,.!?])+")  # no + within +: a digit after 60 letters would take for ever
_REPETITION = "This translation repeats itself; what follows the first repeat is not to be trusted."
_LOW_PROBABILITY = "The model is unsure of this translation: check it before you use it."


def translation_notices(
    checkpoint: Checkpoint,
    text: str,
    source: Sequence[int],
    best: Hypothesis,
    reason: FinishReason,
    translation: str = "",
    required: Iterable[str] = (),
) -> tuple[Notice, ...]:
    """source: the token ids of `text`. A hypothesis without scores (greedy search) gets no `low_probability`. required:
    terms that the translation holds."""
    record, notices = checkpoint.notices, list[Notice]()
    unsure_below = LOW_PROBABILITY if record.unsure_below is None else record.unsure_below
    if reason == "repetition":
        notices.append(Notice("repetition", _REPETITION, 0, len(text)))
    elif best.log_probability < unsure_below * (len(best.tokens) + 1):  # False for NaN; + 1: the end token
        notices.append(Notice("low_probability", _LOW_PROBABILITY, 0, len(text)))
    if record.source_words is not None:
        notices += _untrained_word_notices(checkpoint.name, record.source_words, text)
    elif checkpoint.tokenizers["source"].special.unknown in source:
        notices += _unreadable_word_notices(checkpoint, text)
    if record.target_words is not None and translation:
        notices += _invented_word_notices(checkpoint.name, record.target_words, text, translation, required)
    return tuple(notices)


def untrained_words(known: Collection[str], text: str) -> list[tuple[int, int]]:
    """The spans of words that are not among `known`, casefolded words of a training text."""
    if _PLAIN_WORDS.fullmatch(text) and all(word in known for word in WORD.findall(text.casefold())):
        return []  # of most sentences, in a third of the time
    return [
        (start, end)
        for start, end in word_spans(text)
        if any(map(str.isalpha, word := text[start:end])) and not _is_known(word.casefold(), known)
    ]


def _is_known(word: str, known: Collection[str]) -> bool:
    """Also a compound with hyphens and a possessive, of known words: daughter's, E-Mail-Adresse. A single letter is
    known, a single ideograph is a word."""
    return word in known or all(
        part in known or (len(part) == 1 and part.lower() != part.upper()) for part in WORD.findall(word)
    )


def _untrained_word_notices(name: str, known: Collection[str], text: str) -> Iterator[Notice]:
    for start, end in untrained_words(known, text):
        yield Notice("unknown_words", f"“{text[start:end]}” is no word that {name} was trained on.", start, end)


def _invented_word_notices(
    name: str, known: frozenset[str], text: str, translation: str, required: Iterable[str]
) -> Iterator[Notice]:
    """Words of the translation that are neither of the training texts nor copied. Their place is all of the source."""
    invented = [translation[start:end] for start, end in untrained_words(known, translation)]
    copied = set(WORD.findall(" ".join([text, *required]).casefold())) if invented else ()
    for word in dict.fromkeys(invented):
        if not _is_known(word.casefold(), known.union(copied)):
            message = f"“{word}” in the translation is no word that {name} was trained on."
            yield Notice("invented_words", message, 0, len(text), word=word)


def still_true(notices: Iterable[Notice], translation: str) -> tuple[Notice, ...]:
    """Without the notices about words that the translation, repaired since, has no more."""
    return tuple(
        notice
        for notice in notices
        if not notice.word or re.search(rf"(?<!\w){re.escape(notice.word)}(?!\w)", translation)
    )


def _unreadable_word_notices(checkpoint: Checkpoint, text: str) -> Iterator[Notice]:
    """Words with characters that the tokenizer has no token for."""
    tokenizer = checkpoint.tokenizers["source"]
    holes = [(piece.start, piece.end) for piece in tokenizer.pieces(text) if piece.id == tokenizer.special.unknown]
    for start, end in word_spans(text):
        if any(first < end and start < last for first, last in holes):
            message = f"“{text[start:end]}” has characters that {checkpoint.name} cannot read."
            yield Notice("unknown_words", message, start, end)
