"""Language codes as DeepL spells them: sources without a region, some targets only with one."""

from __future__ import annotations

from collections.abc import Iterable

from app.text.languages import base_language, language_name

_REGIONS = {
    "en": {"EN-GB": "English (British)", "EN-US": "English (American)"},
    "pt": {"PT-PT": "Portuguese (European)", "PT-BR": "Portuguese (Brazilian)"},
    "zh": {"ZH": "Chinese", "ZH-HANS": "Chinese (simplified)"},
    "zh-hans": {"ZH": "Chinese", "ZH-HANS": "Chinese (simplified)"},
    "pt-br": {"PT-BR": "Portuguese (Brazilian)"},
    "no": {"NB": "Norwegian"},
}


def source_code(code: str) -> str:
    """Of a loaded language: "ZH" of "zh-Hans", "DE" of "de"."""
    base = base_language(code)
    return "NB" if base == "no" else base.upper()


def sources(codes: Iterable[str]) -> dict[str, str]:
    """Names by DeepL's codes, sorted by code."""
    found = {source_code(code): language_name(base_language(code)) for code in codes}
    return dict(sorted(found.items()))


def targets(codes: Iterable[str]) -> dict[str, str]:
    """As `sources`; its clients refuse to send EN or PT, so these are there with their regions."""
    found: dict[str, str] = {}
    for code in codes:
        found.update(_REGIONS.get(code.lower(), {code.upper(): language_name(code)}))
    return dict(sorted(found.items()))
