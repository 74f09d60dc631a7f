"""Names of languages, and which loaded code a client's code means."""

from __future__ import annotations

import pytest

from app.text.language_codes import base_language, closest_codes, language_name


@pytest.mark.parametrize(
    ("code", "known", "found"),
    [
        ("EN-GB", ["de", "en"], ["en"]),
        ("en_US", ["en", "en-GB"], ["en"]),
        ("EN", ["en-GB", "en-US", "de"], ["en-GB", "en-US"]),
        ("pt-BR", ["pt", "pt-BR"], ["pt-BR", "pt"]),
        ("pt-PT", ["pt-BR"], []),
        ("ZH", ["zh-Hant", "zh-Hans"], ["zh-Hans", "zh-Hant"]),
        ("zh-CN", ["zh", "zh-Hans"], ["zh-Hans", "zh"]),
        ("ZH-HANS", ["zh"], ["zh"]),
        ("zh-TW", ["zh-Hans", "zh-Hant"], ["zh-Hant"]),
        ("zh-TW", ["zh-Hans"], []),
        ("zh-TW", ["zh"], ["zh"]),
        ("zh-Hant", ["zh-Hans", "zh"], ["zh"]),
        ("iw", ["he"], ["he"]),
        ("nb", ["no"], ["no"]),
        ("sr-Latn", ["sr"], ["sr"]),
        ("de", ["en"], []),
        (" De ", ["de"], ["de"]),
    ],
)
def test_closest_codes(code: str, known: list[str], found: list[str]) -> None:
    assert closest_codes(code, known) == found


def test_base_language() -> None:
    assert [base_language(code) for code in ("EN-gb", "zh_Hans", "de")] == ["en", "zh", "de"]


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("de", "German"),
        ("ZH", "Chinese"),
        ("pt-BR", "Portuguese (Brazil)"),
        ("zh-Hant", "Chinese (traditional)"),
        ("tlh", "tlh"),
    ],
)
def test_english_name_is_the_code_itself_where_there_is_none(code: str, name: str) -> None:
    assert language_name(code) == name
