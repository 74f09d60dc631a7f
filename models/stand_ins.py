"""Stand-ins: what a model reads in place of an island, a part of a sentence that it must not change. A model copies
what it has learnt to copy, and that differs: one copies any number and no name, another the reverse. So each kind of
stand-in is tried on sentences with a place for it, and the kinds that come back are recorded with the model."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

KINDS = ("numbers", "names", "codes", "letters")
_NAMES = ["Anna", "Peter", "Berlin", "Paris", "Tom", "Maria", "London", "Max", "Rom", "Lisa", "Wien", "Paul"]
_LEAST_RATE = 0.5  # of sentences in which a stand-in comes back, for its kind to be used
_DIGITS = re.compile(r"\d+")
# Sentences with places for one and for two stand-ins. The first ones suit any language.
_FRAMES = ("{0}", "{0}.", "{0}, {1}.", "{0}: {1}")
_FRAMES_OF = {
    "de": (
        "Guten Morgen, {0}!", "Ich heiße {0} und wohne in {1}.", "Das kostet {0}.", "Wir treffen {0} vor dem Haus.",
        "{0} ist heute nicht da.", "Das steht in {0}.", "Ein Mann spricht mit {0} über {1}.", "Danke, {0}.",
    ),
    "en": (
        "Good morning, {0}!", "My name is {0} and I live in {1}.", "That costs {0}.", "We meet {0} at the house.",
        "{0} is not here today.", "It says so in {0}.", "A man is talking to {0} about {1}.", "Thank you, {0}.",
    ),
    "es": (
        "¡Buenos días, {0}!", "Me llamo {0} y vivo en {1}.", "Eso cuesta {0}.", "Vemos a {0} delante de la casa.",
        "{0} no está aquí hoy.", "Lo dice en {0}.", "Un hombre habla con {0} sobre {1}.", "Gracias, {0}.",
    ),
    "fr": (
        "Bonjour, {0} !", "Je m'appelle {0} et j'habite à {1}.", "Cela coûte {0}.", "{0} n'est pas là aujourd'hui.",
        "C'est écrit dans {0}.", "Un homme parle avec {0} de {1}.", "Merci, {0}.",
    ),
    "zh": (
        "早上好，{0}！", "我叫{0}，我住在{1}。", "这个要{0}。", "{0}今天不在。", "谢谢，{0}。",
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Carrier:
    """A sentence for a model to translate. words: the stand-ins in it."""

    kind: str
    words: tuple[str, ...]
    sentence: str


def stand_ins(kind: str, avoid: str) -> Iterator[str]:
    """Endless stand-ins of a kind that do not occur in the text `avoid`."""
    read = avoid.casefold()
    if kind == "numbers":
        digits = set(_DIGITS.findall(avoid))
        candidates = (str(17 + 25 * number) for number in count())
        yield from (number for number in candidates if number not in digits)
    if kind == "names":
        yield from (name for name in _NAMES if name.casefold() not in read)
    if kind == "letters":
        yield from (letter for letter in "XYZQWVKJ" if letter.casefold() not in read.split())
    for number in count(1):
        if f"x{number}" not in read:
            yield f"X{number}"


def copied_once(stand_in: str, text: str) -> int | None:
    """The place of a stand-in in a translation, None unless it is there once, as a word."""
    at = text.find(stand_in)
    if at < 0 or text.count(stand_in) != 1:
        return None
    before, behind = text[max(0, at - 2) : at], text[at + len(stand_in) :][:2]
    if _continues_word(before[-1:]) or _continues_word(behind[:1]):
        return None
    joined = re.fullmatch(r"\d[.,:]", before) or re.fullmatch(r"[.,:]\d", behind)
    return None if joined and stand_in.isdecimal() else at


def _continues_word(character: str) -> bool:
    """Whether a character beside a stand-in, which is of Latin letters and digits, makes another word of it. Letters
    without upper and lower case are of scripts that set no spaces, or that join particles to foreign words."""
    return character == "_" or character.isdecimal() or character.lower() != character.upper()


def carriers(source_language: str) -> list[Carrier]:
    """The sentences on which the kinds of stand-ins are tried: 16 of a language without frames of its own, else up to
    48."""
    base = source_language.replace("_", "-").partition("-")[0].lower()
    made = []
    for kind in KINDS:
        for frame in (*_FRAMES, *_FRAMES_OF.get(base, ())):
            words = tuple(word for word, _ in zip(stand_ins(kind, frame), range(1 + ("{1}" in frame)), strict=False))
            made.append(Carrier(kind, words, frame.format(*words)))
    return made


def copied_kinds(carriers: Sequence[Carrier], translations: Sequence[str]) -> tuple[str, ...]:
    """The kinds of stand-ins that come back in the translations of the carriers, those that come back most often
    first."""
    rates = dict.fromkeys(KINDS, 0.0)
    frames = len(carriers) / len(KINDS)
    for carrier, translation in zip(carriers, translations, strict=True):
        rates[carrier.kind] += all(copied_once(word, translation) is not None for word in carrier.words) / frames
    return tuple(sorted((kind for kind in KINDS if rates[kind] >= _LEAST_RATE), key=lambda kind: -rates[kind]))


def record_fingerprint(files: Mapping[str, str]) -> str:
    """What a record of copied kinds depends on: the checksums of a checkpoint's weights and tokenizers, and the
    carriers. files: name -> SHA-256."""
    made_with = [sorted(files.items()), _NAMES, _FRAMES, _FRAMES_OF, _LEAST_RATE]
    return hashlib.sha256(json.dumps(made_with).encode()).hexdigest()
