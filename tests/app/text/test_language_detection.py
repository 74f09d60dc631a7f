"""Detection restricted to the languages that matter."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from app.text.language_detection import Detection, Detector

ALL = ["de", "en", "es", "zh"]


@pytest.fixture(scope="module")
def detector() -> Detector:
    return Detector()


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Ich möchte ein Bier", "de"),
        ("Guten Morgen", "de"),
        ("wo ist der bahnhof", "de"),
        ("I want a beer", "en"),
        ("Good morning", "en"),
        ("where is it", "en"),
        ("Quiero una cerveza", "es"),
        ("buenos días", "es"),
        ("我想要一杯啤酒", "zh"),
        ("WO IST DER BAHNHOF", "de"),
    ],
)
def test_short_texts(detector: Detector, text: str, language: str) -> None:
    result = detector.detect(text, ALL)
    assert result.language == language
    assert 50 < result.confidence <= 100


@pytest.mark.parametrize("text", ["", " ", "123", "😀", "?!"])
def test_text_without_language_has_confidence_0(detector: Detector, text: str) -> None:
    result = detector.detect(text, ["en", "de"])
    assert (result.language, result.confidence) == ("en", 0.0)


def test_candidates_of_another_language_have_little_confidence(detector: Detector) -> None:
    result = detector.detect("Je voudrais une bière, s'il vous plaît", ["de"])
    assert result.language == "de"
    assert result.confidence < 5


def test_regional_codes_are_scored_as_their_language(detector: Detector) -> None:
    assert detector.detect("我想要一杯啤酒", ["de", "zh-Hans"]).language == "zh-Hans"
    assert detector.detect("Eu gostaria de uma cerveja, por favor", ["es", "pt-BR"]).language == "pt-BR"


def test_languages_unknown_to_the_library_come_last(detector: Detector) -> None:
    assert detector.detect("Ich möchte ein Bier", ["qqq", "de"]).language == "de"
    assert detector.detect("Ich möchte ein Bier", ["qqq"]).confidence == 0.0


def test_only_the_beginning_of_a_long_text_is_read(detector: Detector) -> None:
    assert detector.detect("Ich möchte ein Bier. " * 5000, ["en", "de"]).language == "de"


def test_detector_is_thread_safe(detector: Detector) -> None:
    texts = ["Ich möchte ein Bier", "I want a beer"] * 20
    with ThreadPoolExecutor(4) as threads:
        result = list(threads.map(lambda text: detector.detect(text, ALL).language, texts))
    assert result == ["de", "en"] * 20


@pytest.mark.parametrize(
    ("word", "language"), [("Two", "en"), ("A", "en"), ("Hello", "en"), ("Ein", "de"), ("Katze", "de"), ("ja", "de")]
)
def test_single_words(detector: Detector, word: str, language: str) -> None:
    assert detector.detect(word, ["de", "en"]).language == language


def test_top_is_sorted_and_limited(detector: Detector) -> None:
    results = detector.top("Ich möchte ein Bier", ["en", "es", "de", "zh"], 3)
    assert results[0].language == "de"
    assert len(results) == 3
    assert [result.confidence for result in results] == sorted((result.confidence for result in results), reverse=True)
    assert sum(result.confidence for result in results) <= 100.2
    assert detector.top("12 😀", ["en", "de"], 3) == [Detection("en", 0.0)]
