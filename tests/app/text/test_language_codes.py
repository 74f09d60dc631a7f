"""Names of languages."""

from __future__ import annotations

import pytest

from app.text.language_codes import language_name


@pytest.mark.parametrize(
    ("code", "name"),
    [("de", "German"), ("ZH", "Chinese"), ("pt-BR", "Portuguese (Brazil)"), ("zh-Hant", "Chinese (traditional)")],
)
def test_known(code: str, name: str) -> None:
    assert language_name(code) == name


def test_an_unknown_code_names_itself() -> None:
    assert language_name("tlh") == "tlh"
