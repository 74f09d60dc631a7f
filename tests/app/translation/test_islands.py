"""Whatever is not natural language comes back once and to the character, whatever the model makes of it."""

from __future__ import annotations

import asyncio
import html
from collections.abc import Callable, Iterable, Iterator

import pytest

from app.translation.driver import Translator
from tests.app.translation.made_sentences import WORDS, Sentence, sentences
from tests.app.translation.unreliable_engines import ENGINES, made_engine
from tests.request_builders import text_request

SHOWN = 12  # of the sentences that fail
AT_ONCE = 250
Way = Callable[..., Iterator[tuple[Sentence, str]]]


def translated(engine: str, seed: int, count: int) -> Iterator[tuple[Sentence, str]]:
    for pair, made in sentences(seed, count).items():
        translate = Translator(made_engine(engine, pair, WORDS[pair])).translate
        for first in range(0, len(made), AT_ONCE):
            some = made[first : first + AT_ONCE]
            results = asyncio.run(translate([text_request(each.text, *pair) for each in some]))
            yield from ((each, result.text) for each, result in zip(some, results, strict=True))


def streamed(engine: str, seed: int, count: int) -> Iterator[tuple[Sentence, str]]:
    async def shown(pair: tuple[str, str], text: str) -> str:
        translator = Translator(made_engine(engine, pair, WORDS[pair]))
        async with translator.stream(text_request(text, *pair)) as stream:
            return "".join([delta.text async for delta in stream.deltas()])

    for pair, made in sentences(seed, count).items():
        yield from ((each, asyncio.run(shown(pair, each.text))) for each in made)


def as_a_page(engine: str, seed: int, count: int) -> Iterator[tuple[Sentence, str]]:
    for pair, made in sentences(seed, count).items():
        page = "".join(f"<p>{html.escape(each.text, quote=False)}</p>\n" for each in made)
        translate = Translator(made_engine(engine, pair, WORDS[pair])).translate
        (result,) = asyncio.run(translate([text_request(page, *pair, format="html")]))
        *lines, _ = result.text.split("</p>\n")
        for each, line in zip(made, lines, strict=True):
            yield each, html.unescape(line.removeprefix("<p>"))


def failures(engine: str, translations: Iterable[tuple[Sentence, str]]) -> list[str]:
    """Of each sentence that lost something: itself, its translation and what it lost."""
    lost = []
    for each, translation in translations:
        missing = each.lost_from(translation)
        if engine != "babbling":  # the vocabulary's words are translated, not kept with the islands
            missing += each.words_lost_from(translation)
        if missing:
            lost.append(f"{each.text!r} -> {translation!r}: {missing}")
    return lost


LOST_SHARE = 0.0


@pytest.mark.parametrize("engine", ENGINES)
def test_each_island_comes_back_once(engine: str) -> None:
    lost = failures(engine, translated(engine, seed=34, count=400))
    assert len(lost) <= LOST_SHARE * 400, "\n".join([f"{len(lost)} of 400", *lost[:SHOWN]])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("way", [streamed, as_a_page])
def test_each_island_comes_back_once_in_streams_and_pages(way: Way, engine: str) -> None:
    lost = failures(engine, way(engine, seed=35, count=100))
    assert len(lost) <= 3 * LOST_SHARE * 100, "\n".join([f"{len(lost)} of 100", *lost[:SHOWN]])


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_each_island_of_20_000_sentences_comes_back_once(engine: str) -> None:
    lost = failures(engine, translated(engine, seed=3434, count=20_000))
    assert len(lost) <= LOST_SHARE * 20_000, "\n".join([f"{len(lost)} of 20,000", *lost[:SHOWN]])
