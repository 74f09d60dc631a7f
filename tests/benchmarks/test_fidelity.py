"""The fidelity measures detect lost terms, tags and layout, and the command runs."""

from __future__ import annotations

import asyncio
import gzip
import random
import re
from collections import Counter
from itertools import cycle
from pathlib import Path

import pytest

from benchmarks.fidelity import measured
from benchmarks.fidelity_numbers import is_kept, sentence
from benchmarks.fidelity_terms import Term, holds, terms
from benchmarks.fidelity_texts import Page, layout, layout_text, structure_of
from tests.app.text.scripted_translation import backwards, translated
from tests.tiny import ENGLISH, GERMAN, write_translator

SENTENCES = [f"{first} {second}" for first in GERMAN for second in GERMAN]


def test_text_behind_code_belongs_to_its_block() -> None:
    _, before = structure_of("<p>One. <code>f(x)</code></p><p>Two.</p>")
    _, behind = structure_of("<p>One <code>f(x)</code>.</p><p>Two.</p>")
    assert (before, behind) == (["One.", "Two."], ["One .", "Two."])


def test_a_term_is_the_pair_of_words_that_goes_together_most() -> None:
    corpus = ["der Hund bellt laut"] * 5 + ["eine Katze bellt nie"] * 5, ["that dogs barks"] * 5 + ["cats barks"] * 5
    sources = ["ein Hund bellt", "der Hund", "eine Katze bellt und eine Katze schläft", "eine Katze"]
    references = ["dogs barks", "nothing", "cats barks cats", "cats sleep"]
    chosen = terms(sources, references, corpus, 3)
    assert chosen == [Term(0, "bellt", "barks"), Term(2, "bellt", "barks"), Term(3, "eine", "cats")]
    assert [term.sentence for term in terms(sources, references, corpus, 1)] == [0]


def test_a_term_is_a_word_of_its_own() -> None:
    assert holds("The Cat.", "cat")
    assert not holds("a category", "cat")


def test_pages_read_as_they_were_made_and_show_what_is_lost() -> None:
    rng, sentences = random.Random(3), cycle(SENTENCES)
    for page in [Page(rng, sentences) for _ in range(40)]:
        ways, texts = structure_of(page.source)
        assert [
            text
            for text, plain in zip(texts, page.plain, strict=True)
            if plain is not None and " ".join(text.split()) != plain
        ] == []
        turned, capitals = structure_of(translated(page.source, backwards))
        assert turned == ways
        pairs = [(text, plain) for text, plain in zip(capitals, page.plain, strict=True) if plain is not None]
        assert [" ".join(text.split()) for text, _ in pairs] == [backwards(plain)[0] for _, plain in pairs]
    whole = "<p>a <b>b <i>c</i></b><!-- d --></p>"
    for broken in ("<p>a <b>b </b><i>c</i><!-- d --></p>", "<p>a <b>b <i>c</i></b></p>", whole.replace("<b>", "<b x>")):
        assert structure_of(broken)[0] != structure_of(whole)[0]


def test_layout_is_every_space_but_the_plain_one_and_every_emoji() -> None:
    assert layout("a b\n\tc  d\u00a0e ") == (["\n\t", "  ", "\u00a0", " "], Counter())
    assert layout(" a 😀👍🏽")[1] == Counter("😀👍🏽")
    assert layout("a\n b") != layout("a \nb") != layout("a\nb")
    made = layout_text(random.Random(1), SENTENCES)
    assert layout(made) == layout(made.replace("hund", "katze"))


def test_a_number_is_kept_as_it_is_or_in_other_signs() -> None:
    assert is_kept("12.04.2024", "am 12.4.2024")
    assert is_kept("1200,50 €", "1,200.50 euros") is is_kept("7%", "70 %") is False
    assert is_kept("35,50 €", "35.50 euros")
    assert not is_kept("35,50 €", "35.50")
    rng = random.Random(1)
    for text, values in (sentence(rng, language) for language in ("de", "en") for _ in range(50)):
        assert values and all(is_kept(value, text) for value in values)
        assert not any(is_kept(value, re.sub(r"\d", "", text)) for value in values)


@pytest.mark.slow  # it starts a device process
def test_it_runs_with_a_model_that_knows_nothing(tmp_path: Path) -> None:
    write_translator(tmp_path / "tiny", "de", "en")
    for part in ("val", "train"):
        for language, lines in (("de", GERMAN), ("en", ENGLISH)):
            (tmp_path / f"{part}.{language}.gz").write_bytes(gzip.compress("".join(f"{x}\n" for x in lines).encode()))
    rows, goals = asyncio.run(measured(tmp_path, tmp_path / "tiny", {"html": 12}))
    (row,) = rows
    assert (row["part"], row["pages"], row["nested"], row["broken"]) == ("html", 12, 12, [])
    assert row["texts"] == row["equal"] > 12
    assert [goal["value"] for goal in goals] == [100.0, 100.0]
