"""Names of languages."""

from __future__ import annotations

import pytest

from app.text.language_codes import language_name


@pytest.mark.parametrize(
    ("code", "name"),
    [("de", "German"), ("ZH", "Chinese"), ("pt-BR", "Portuguese (Brazil)"), ("zh-Hant", "Chinese (traditional)")],
)
def test_english_names(code: str, name: str) -> None:
    assert language_name(code) == name


def test_unknown_code_is_its_own_name() -> None:
    assert language_name("tlh") == "tlh"
