"""Which pairs of languages are translated: by one model, or through a third language by two."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from app.engine.interface import Engine
from app.text.language_codes import base_language, closest_codes

Pair = tuple[str, str]
FIRST_PIVOT = "en"  # before other languages: most pairs of public models, and most training text, have it on one side


class LanguageRoutes:
    """The routes of the models that are loaded by now. pivoting: whether pairs without a model go through a third
    language."""

    def __init__(self, engine: Engine, *, pivoting: bool = True) -> None:
        self._engine, self._pivoting = engine, pivoting
        self._models: list[tuple[Pair, ...]] = []
        self._table = _RouteTable([])

    def legs(self, source: str, target: str) -> tuple[Pair, ...]:
        """The pair of each model in turn: one, two, or none where the pair is not translated. Codes as the checkpoints
        spell them; so of the other methods."""
        table = self._current()
        if (source, target) in table.pairs:
            return ((source, target),)
        return table.pivot_legs(source, target) if self._pivoting else ()

    def targets(self, source: str) -> list[str]:
        """The languages that a source language is translated to, those of one model first."""
        table = self._current()
        direct = table.targets_of.get(source, [])
        if not self._pivoting:
            return list(direct)
        through = [code for code in table.sources_of if code not in direct and table.pivot_legs(source, code)]
        return [*direct, *through]

    def sources(self, target: str) -> list[str]:
        """The languages that are translated to `target`, those of one model first."""
        table = self._current()
        direct = table.sources_of.get(target, [])
        if not self._pivoting:
            return list(direct)
        through = [code for code in table.targets_of if code not in direct and table.pivot_legs(code, target)]
        return [*direct, *through]

    def _current(self) -> _RouteTable:
        models = [model.language_pairs for model in self._engine.models()]
        if models != self._models:  # on every request, and the loaded models seldom change
            self._models, self._table = models, _RouteTable(pair for pairs in models for pair in pairs)
        return self._table


class _RouteTable:
    """The pairs of one set of models. pairs: in the order of the models. targets_of, sources_of: by language."""

    def __init__(self, pairs: Iterable[Pair]) -> None:
        self.pairs = dict.fromkeys(pairs)
        self.targets_of: dict[str, list[str]] = {}
        self.sources_of: dict[str, list[str]] = {}
        for source, target in self.pairs:
            self.targets_of.setdefault(source, []).append(target)
            self.sources_of.setdefault(target, []).append(source)
        self._found: dict[Pair, tuple[Pair, ...]] = {}

    def pivot_legs(self, source: str, target: str) -> tuple[Pair, ...]:
        """Two pairs that meet in a third language, English if it is one that they can meet in; () without any."""
        if (source, target) not in self._found:
            self._found[source, target] = self._search(source, target)
        return self._found[source, target]

    def _search(self, source: str, target: str) -> tuple[Pair, ...]:
        ends = {base_language(source), base_language(target)}
        if len(ends) == 1:  # a language is no translation of itself, nor one script of it of the other
            return ()
        into_target = self.sources_of.get(target, ())
        pivots = [code for code in self.targets_of.get(source, ()) if base_language(code) not in ends]
        for written in sorted(pivots, key=lambda code: base_language(code) != FIRST_PIVOT):
            if read := _same_language(written, into_target):
                return (source, written), (read, target)
        return ()


def _same_language(code: str, known: Sequence[str]) -> str | None:
    """The code of `known` whose models read what is written in `code`: en of en-GB."""
    return code if code in known else next(iter(closest_codes(code, known)), None)
