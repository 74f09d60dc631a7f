"""The probability below which translations are unsure, and the words of a small corpus, as a training run records them
and as an engine uses them."""

from __future__ import annotations

from pathlib import Path

import pytest

from models import checkpoint as checkpoints
from tests.app.engine.inline_engine import Inline
from tests.request_builders import translation_request
from tests.training.small import CPU, translator
from training.config.run_config import LoopConfig
from training.data.sentence_pairs import Pairs
from training.evaluation.server_records import FALSE_ALARMS, HIGHEST, LOWEST, known_words, threshold
from training.starting_point import adapted, read_starting_point
from training.training_run import TrainingRun
from training.translator_run import train_translator

MOST_WORDS = 500
PLACES = ["house", "garden", "street", "school", "church", "harbour", "kitchen", "office", "bridge", "market"]
WORDS = {"the": "das", "in": "im", "near": "beim", "dog": "Tier", "sleeps": "ruht", "waits": "harrt"}
UNSEEN = [
    *("lawyer", "ocean", "seven", "blue", "umbrella", "Anna", "mountain", "quick"),
    *("yesterday", "soup", "ladder", "winter", "paper", "cloud", "engine", "bottle"),
    *("never", "island", "doctor", "rabbit"),
]


def corpus(count: int, first: int = 0) -> Pairs:
    sources = [
        f"the dog {('sleeps', 'waits')[number % 2]} {('in', 'near')[number // 2 % 2]} the {PLACES[number % 10]}"
        for number in range(first, first + count)
    ]
    written = [" ".join(WORDS.get(word, word.upper()) for word in source.split()) for source in sources]
    return Pairs(sources, written, "made up")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a model of 150 pairs."""
    out = tmp_path_factory.mktemp("models") / "small"
    config = translator(loop=LoopConfig(max_epochs=1), tokens_per_batch=400, source_language="en", target_language="de")
    train_translator(config, corpus(150), corpus(24, 3), TrainingRun(out=out, device=CPU, quiet=True))
    return out


@pytest.mark.parametrize("count", [1, 2, 10, 49, 50, 51, 99, 100, 150, 300, 1000])
@pytest.mark.parametrize("bad", [[], [-3.0, -0.03]])
def test_few_good_translations_are_below_the_threshold(count: int, bad: list[float]) -> None:
    good = [-0.03 - 0.5 * number / count for number in range(count)]
    lowest = threshold(good, bad)
    below = sum(mean < lowest for mean in good)
    assert FALSE_ALARMS * count - 1 <= below <= FALSE_ALARMS * count


@pytest.mark.parametrize("count", range(1, 21))
def test_where_no_translation_is_good_all_are_below_the_threshold(count: int) -> None:
    bad = [-0.1 * number for number in range(1, count + 1)]
    assert max(bad) < threshold([], bad) < max(bad) + 0.01


@pytest.mark.parametrize(("mean", "expected"), [(0.0, HIGHEST), (-0.0001, HIGHEST), (-0.5, -0.5), (-7.0, LOWEST)])
def test_the_threshold_has_bounds(mean: float, expected: float) -> None:
    assert threshold([mean], []) == expected


def test_words_are_recorded_of_small_corpora_alone() -> None:
    assert known_words([], MOST_WORDS) is None
    assert known_words(["Hello, hello WORLD!", "It's 12 o'clock."], MOST_WORDS) == {
        "hello",
        "world",
        "it",
        "s",
        "o",
        "clock",
    }
    assert known_words([">>zh<< Hello, X7!", ">>en<< 你好，X7！"], MOST_WORDS) == {"hello", "x", "你", "好"}
    letters = [chr(ord("a") + number % 26) + chr(ord("a") + number // 26 % 26) for number in range(676)]
    many = [first + second for first in letters for second in letters[:8]]
    assert len(known_words(many[:MOST_WORDS], MOST_WORDS) or ()) == MOST_WORDS
    assert known_words(many[: MOST_WORDS + 1], MOST_WORDS) is None


def test_a_run_records_its_words_and_its_threshold(small: Path) -> None:
    record = checkpoints.read(small).notices
    assert record.source_words == {*WORDS, *PLACES}
    assert record.target_words == {word.casefold() for word in [*WORDS.values(), *map(str.upper, PLACES)]}
    assert record.unsure_below is not None
    assert LOWEST <= record.unsure_below <= HIGHEST


def test_a_model_of_few_pairs_says_that_it_never_saw_a_word(small: Path) -> None:
    texts = [f"the dog sleeps in the {word}" for word in UNSEEN]
    results = Inline(small.parent).translate(*(translation_request(text, "en", "de") for text in texts))
    for word, text, result in zip(UNSEEN, texts, results, strict=True):
        unknown = [text[notice.start : notice.end] for notice in result.notices if notice.code == "unknown_words"]
        assert unknown == [word]
        assert not any(notice.code == "invented_words" for notice in result.notices)
    (seen,) = Inline(small.parent).translate(translation_request("the dog sleeps in the garden", "en", "de"))
    assert not any(notice.code == "unknown_words" for notice in seen.notices)


def test_a_tuned_model_records_its_threshold_and_no_words(small: Path, tmp_path: Path) -> None:
    start = read_starting_point(str(small), "translator")
    base = translator(loop=LoopConfig(max_epochs=1), tokens_per_batch=400, source_language="en", target_language="de")
    run = TrainingRun(out=tmp_path / "tuned", device=CPU, quiet=True)
    train_translator(adapted(base, start), corpus(30), corpus(24, 3), run, start=start)
    record = checkpoints.read(tmp_path / "tuned").notices
    assert (record.source_words, record.target_words) == (None, None)
    assert record.unsure_below is not None
