"""Glossary terms replace the words that are aligned with their sources, or the model is made to write them."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace

import pytest

from app.engine.interface import AlignedWord, TranslationRequest, TranslationResult
from app.engine.output.text_stream import WrittenToken
from app.errors import UnknownCharacters
from app.text.glossary_matching import TermMatcher
from app.translation.concerns.glossary import with_words_replaced as replaced
from app.translation.driver import Translator
from app.translation.reading import Reading, Sentence
from tests.app.translation.word_engine import WordEngine
from tests.request_builders import text_request

WORDS = {
    "ich": "i",
    "möchte": "want",
    "ein": "a",
    "bier": "beer",
    "und": "and",
    "tee": "tea",
    "grünen": "green",
    "guten": "good morning",
    "morgen": "",
    "😀": "",
}


class ConstrainedEngine(WordEngine):
    """Writes `constrained` where it has to hold terms, at the cost of so many nats."""

    constrained: str | None = None
    cost: float = 20.0

    async def translate(self, requests):  # type: ignore[no-untyped-def]
        if self.constrained is None and any(request.required for request in requests):
            raise UnknownCharacters("cannot write the term", field="glossary")
        return await super().translate(requests)

    def _translation(self, request: TranslationRequest) -> TranslationResult:
        result = super()._translation(request)
        if not request.required:
            return result
        assert self.constrained is not None
        return replace(
            result, text=self.constrained, tokens=(WrittenToken(7, self.constrained, -self.cost),), alignment=()
        )


def translate(engine: WordEngine, text: str, terms: dict[str, str], **options: object) -> TranslationResult:
    request = text_request(text, "de", "en", glossary=terms, **options)  # type: ignore[arg-type]
    return asyncio.run(Translator(engine).translate([request]))[0]


def constrained(text: str | None, cost: float = 20.0) -> ConstrainedEngine:
    engine = ConstrainedEngine(words=WORDS)
    engine.constrained, engine.cost = text, cost
    return engine


@pytest.mark.parametrize(
    ("written", "cost", "wanted"),
    [
        ("i want a beer tea", 1.0, "i want a tea"),  # beside the word that it should replace
        ("i want a cold beer and tea", 1.0, "i want a tea"),
        ("i would like some tea", 4.0, "i would like some tea"),
        ("i would like some tea", 9.0, "i want a tea"),  # led where it would hardly go
        ("tea tea tea tea", 90.0, "i want a tea"),
        (None, 0.0, "i want a tea"),  # no token for it
    ],
)
def test_term_replaces_the_aligned_word(written: str | None, cost: float, wanted: str) -> None:
    assert translate(constrained(written, cost), "ich möchte ein bier", {"bier": "tea"}).text == wanted


def test_unaligned_term_is_left_to_the_model() -> None:
    assert translate(constrained("good evening"), "guten morgen", {"morgen": "evening"}).text == "good evening"
    assert translate(constrained("good morning evening"), "guten morgen", {"morgen": "evening"}).text == (
        "good morning evening"
    )


@pytest.mark.parametrize(
    ("text", "terms", "wanted"),
    [
        ("bier und tee", {"bier": "tea", "tee": "beer"}, "tea and beer"),
        ("bier und bier", {"bier": "ale"}, "ale and ale"),
        ("tee und grünen tee", {"tee": "chai", "grünen tee": "green chai"}, "chai and green chai"),
        ("Bier und tee", {"bier": "ale"}, "ale and tea"),
        ("ich möchte bier", {"bier": "BrewMax 3000"}, "i want BrewMax 3000"),
        ("bier https://x.org/bier 250", {"bier": "ale"}, "ale https://x.org/bier 250"),
    ],
)
def test_terms_take_their_own_places(text: str, terms: dict[str, str], wanted: str) -> None:
    engine = constrained(None)
    engine.words = {**WORDS, "https://x.org/bier": "https://x.org/bier"}
    assert translate(engine, text, terms).text == wanted


def test_term_at_the_beginning_has_a_capital() -> None:
    engine = constrained(None)
    engine.words = {"ein": "", "bier": "Beer", "hier": "here"}
    assert translate(engine, "Ein bier hier", {"bier": "ale"}).text == "Ale here"
    assert translate(engine, "ein bier hier", {"bier": "ale"}).text == "ale here"
    assert translate(engine, "Ein bier hier", {"bier": "iPhone"}).text == "iPhone here"
    assert len(engine.source_texts) == 3
    assert translate(engine, "Ein bier hier", {"bier": "beer"}).text == "Beer here"
    assert len(engine.source_texts) == 4


def test_unaligned_terms_are_translated_by_themselves() -> None:
    class Aside(ConstrainedEngine):
        def _pairs(self, request):  # type: ignore[no-untyped-def]
            written, words = super()._pairs(request)
            return written, tuple(replace(word, source_start=0, source_end=3) for word in words)

    engine = Aside(words=WORDS)
    assert translate(engine, "ich möchte ein bier", {"bier": "tea"}).text == "i want a tea"
    assert engine.source_texts == ["ich möchte ein bier", "bier"]


def test_alternatives_contain_the_terms() -> None:
    class Several(ConstrainedEngine):
        def _translation(self, request: TranslationRequest) -> TranslationResult:
            result = super()._translation(request)
            others = ("i want an beer", "i want some beer", "i want a wine")[: request.options.alternatives]
            return replace(result, alternatives=others, scores=(-0.1, -0.2, -0.3, -0.4)[: len(others) + 1])

        async def align(self, model, source_language, target_language, pairs):  # type: ignore[no-untyped-def]
            words = [list(re.finditer(r"\S+", text)) for pair in pairs for text in pair]
            return [
                tuple(AlignedWord(*b.span(), *a.span(), 0.9) for a, b in zip(*both, strict=True))
                for both in zip(words[::2], words[1::2], strict=True)
            ]

    result = translate(
        Several(words=WORDS), "ich möchte ein bier", {"bier": "tea"}, alternatives=3, wants=frozenset({"scores"})
    )
    assert (result.text, result.alternatives) == ("i want a tea", ("i want an tea", "i want some tea"))
    assert result.scores == (-0.1, -0.2, -0.3)  # the third became the best itself


def test_term_replaces_no_number() -> None:
    translation = TranslationResult("buys 62 kg", alignment=(AlignedWord(5, 7, 0, 5, 0.9),))
    (term,) = TermMatcher({"stadt": "town"}).find("stadt 62 kg")
    assert replaced(translation, [term], "stadt 62 kg").text == "buys town kg"
    assert replaced(translation, [term], "stadt 62 kg", [(5, 10)]).text.replace("town ", "").strip() == "buys 62 kg"


@pytest.mark.parametrize(
    ("prefix", "words", "wanted"),
    [
        ("", [(0, 4), (5, 8)], "tag"),
        ("good", [(0, 4), (5, 8)], "good tag"),
        ("go", [(0, 4), (5, 8)], "good tag"),
        ("good", [(0, 4)], "good tag day"),
        ("good day", [(0, 4), (5, 8)], "good day tag"),
        ("fine", [(5, 8)], "good tag"),  # a translation that does not begin with it
    ],
)
def test_term_replaces_nothing_of_the_prefix(prefix: str, words: list[tuple[int, int]], wanted: str) -> None:
    alignment = tuple(AlignedWord(*word, 0, 5, 0.9) for word in words)
    (term,) = TermMatcher({"guten": "tag"}).find("guten tag")
    assert replaced(TranslationResult("good day", alignment=alignment), [term], "guten", [], prefix).text == wanted


def test_prefix_of_a_request_is_kept() -> None:
    class Prefixed(ConstrainedEngine):
        def _translation(self, request: TranslationRequest) -> TranslationResult:
            return TranslationResult("good day", alignment=(AlignedWord(0, 4, 0, 5, 0.9), AlignedWord(5, 8, 0, 5, 0.9)))

    assert translate(Prefixed(), "guten", {"guten": "hi"}, prefix="good").text == "good hi"
    assert translate(Prefixed(), "guten", {"guten": "hi"}).text == "hi"


def test_copied_unit_belongs_to_its_number() -> None:
    """A demo model copies words that it does not know; "kg" is not put anywhere else than behind its number."""
    sentence = Reading.of(Sentence("kauft 62 kg brot", text_request("").options, TermMatcher({"kg": "kg"})), None)
    assert (sentence.terms, [number.key for number in sentence.numbers]) == ((), ["62"])
    asked = Reading.of(Sentence("kauft 62 kg brot", text_request("").options, TermMatcher({"kg": "kilos"})), None)
    assert [term.forms for term in asked.terms] == [("kilos",)]
