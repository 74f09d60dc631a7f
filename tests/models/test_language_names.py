"""Language codes: which are taken, and which one a name stands for."""

from __future__ import annotations

import pytest

from models.language_names import code_problem, nearest_code


@pytest.mark.parametrize("code", ["de", "DE", "deu", "pt-BR", "pt_br", "zh-Hans", "aa", "sr-Latn-RS"])
def test_codes_of_two_or_three_letters_are_taken(code: str) -> None:
    assert code_problem(code) is None


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        *(("German", "de"), ("german", "de"), ("GERMEN", "de"), ("Portugese", "pt"), ("english", "en")),
        *(("deutsch", "de"), ("Deutch", "de"), ("Dutch", "nl"), ("Nederlands", "nl")),
        *(
            ("FRANÇAIS", "fr"),
            ("espanol", "es"),
            ("castellano", "es"),
            ("русский", "ru"),
            ("日本語", "ja"),
            ("简体中文", "zh-hans"),
        ),
        *(("Chinese (simplified)", "zh-hans"), ("德语", "de"), ("auto", None), ("", None), ("x", None), ("d e", None)),
    ],
)
def test_names_are_refused_with_the_code_that_is_meant(name: str, meant: str | None) -> None:
    assert nearest_code(name) == meant
    question = f", did you mean {meant}?" if meant else ""
    assert code_problem(name) == f"must be a language code such as de or pt-BR, not {name!r}{question}"
