"""The glossary of a request: its own, or one that the server keeps for whoever asks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from starlette.concurrency import run_in_threadpool

from app.api.services import Services

Pair = tuple[str, str]


async def glossaries_of(
    glossary: Mapping[str, str] | str | None, pairs: Iterable[Pair], owner: str, services: Services
) -> dict[Pair, Mapping[str, str]]:
    """The terms for each of `pairs`. owner: whose a stored glossary has to be. Raises `UnknownGlossary`, and
    `InvalidRequest` where a stored one has none for a pair."""
    asked = dict.fromkeys(pairs)
    if not isinstance(glossary, str):
        return dict.fromkeys(asked, glossary or {})
    find = services.glossaries.find
    return {pair: await run_in_threadpool(find, owner, glossary, *pair) for pair in asked}
