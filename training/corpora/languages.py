"""Which of a file's language codes is meant: `de` finds `de-DE` and `DE_at`, and `pt-BR` never takes `pt-PT`."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=1024)  # the lines of a file have the same few sets of codes
def find(wanted: str, present: tuple[str, ...]) -> str | None:
    """The code in `present` that means `wanted`: the same but for case and hyphens, else the bare language,
    else, for a bare `wanted`, the first of its regions."""
    codes = {_normal(code): code for code in reversed(present)}  # of two spellings the first
    normal = _normal(wanted)
    language = normal.partition("-")[0]
    for candidate in (normal, language):
        if candidate in codes:
            return codes[candidate]
    if normal != language:
        return None
    return next((codes[code] for code in reversed(codes) if code.partition("-")[0] == language), None)


def _normal(code: str) -> str:
    return code.strip().lower().replace("_", "-")
