"""The language pairs that are loaded right now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from app.api.wording import shown
from app.engine.errors import EngineError, EngineUnavailable, UnknownPair
from app.engine.jobs import Engine

_NAMED_PAIRS = 20


@dataclass(frozen=True, slots=True)
class LoadedPairs:
    """(source, target) codes as the checkpoints spell them; requests may spell them in any case."""

    pairs: Sequence[tuple[str, str]]
    engine: Engine

    @classmethod
    def of(cls, engine: Engine) -> Self:
        """Taken anew for each request: models load while the server already answers."""
        pairs = [(model.source_language, model.target_language) for model in engine.models()]
        return cls([(source, target) for source, target in pairs if source and target], engine)

    def find(self, source: str, target: str) -> tuple[str, str]:
        """The loaded pair of these codes, or `UnknownPair`."""
        for pair in self.pairs:
            if (pair[0].lower(), pair[1].lower()) == (source.lower(), target.lower()):
                return pair
        raise self._missing(f"for {shown(source)} → {shown(target)}", self._field(source))

    def into(self, target: str) -> list[tuple[str, str]]:
        """Every loaded pair with this target, once each, or `UnknownPair`."""
        found = [pair for pair in dict.fromkeys(self.pairs) if pair[1].lower() == target.lower()]
        if not found:
            raise self._missing(f"into {shown(target)}", "target")
        return found

    def _field(self, source: str) -> str:
        return "target" if any(pair[0].lower() == source.lower() for pair in self.pairs) else "source"

    def _missing(self, wanted: str, field: str) -> EngineError:
        if any(state in ("starting", "restarting") for state in self.engine.status().devices.values()):
            return EngineUnavailable("Models are loading; try again in a few seconds.")
        names = [f"{source} → {target}" for source, target in dict.fromkeys(self.pairs)]
        more = f" and {len(names) - _NAMED_PAIRS} more (GET /languages)" if len(names) > _NAMED_PAIRS else ""
        loaded = f"Loaded pairs: {', '.join(names[:_NAMED_PAIRS])}{more}."
        if not names:
            loaded = "No translator is loaded; GET /health/ready says why."
        return UnknownPair(f"There is no model {wanted} here. {loaded}", field=field)
