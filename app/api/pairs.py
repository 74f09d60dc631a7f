"""The language pairs that are loaded right now, and which of them each text of a request is for."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from starlette.concurrency import run_in_threadpool

from app.api.services import Services
from app.api.wording import shown
from app.engine.errors import EngineError, EngineUnavailable, UnknownPair
from app.engine.jobs import Engine
from app.text.detection import Detection
from app.text.languages import closest
from app.translation.job import TextFormat

_NAMED_PAIRS = 20
_TAG = re.compile(r"(<[^<>]*>)")
_UNREAD = frozenset({"script", "style", "code"})
_MARKUP_CHARACTERS = 20_000  # in which the detector finds as much text as it reads
Pair = tuple[str, str]


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

    def find(self, source: str, target: str) -> Pair:
        """The loaded pair of these codes, or the closest to them (`closest`), or `UnknownPair`."""
        if (source, target) in self.pairs:  # as nearly everyone spells them
            return source, target
        pairs = set(self.pairs)
        for from_code in closest(source, [pair[0] for pair in self.pairs]):
            for to_code in closest(target, [pair[1] for pair in self.pairs]):
                if (from_code, to_code) in pairs:
                    return from_code, to_code
        raise self._missing(f"for {shown(source)} → {shown(target)}", self._field(source))

    def into(self, target: str) -> list[Pair]:
        """Of every source language the loaded pair that is closest to this target, or `UnknownPair`."""
        found: dict[str, Pair] = {}
        for to_code in closest(target, [pair[1] for pair in self.pairs]):
            for pair in self.pairs:
                if pair[1] == to_code:
                    found.setdefault(pair[0], pair)
        if not found:
            raise self._missing(f"into {shown(target)}", "target")
        return list(found.values())

    def languages(self) -> list[str]:
        """Every code of a loaded pair, once each; without any pair, what is raised for one that is missing."""
        if not self.pairs:
            raise self._missing("to tell languages by", "q")
        return list(dict.fromkeys(code for pair in self.pairs for code in pair))

    def _field(self, source: str) -> str:
        return "target" if closest(source, [pair[0] for pair in self.pairs]) else "source"

    def _missing(self, wanted: str, field: str) -> EngineError:
        if any(state in ("starting", "restarting") for state in self.engine.status().devices.values()):
            return EngineUnavailable("Models are loading; try again in a few seconds.")
        names = [f"{source} → {target}" for source, target in dict.fromkeys(self.pairs)]
        more = f" and {len(names) - _NAMED_PAIRS} more (GET /languages)" if len(names) > _NAMED_PAIRS else ""
        loaded = f"Loaded pairs: {', '.join(names[:_NAMED_PAIRS])}{more}."
        if not names:
            loaded = "No translator is loaded; GET /health/ready says why."
        return UnknownPair(f"There is no model {wanted} here. {loaded}", field=field)


async def pairs_of(
    texts: Sequence[str], source: str | None, target: str, services: Services, text_format: TextFormat = "text"
) -> tuple[list[Pair], list[Detection] | None]:
    """The (source, target) of each text and, where the source was to be detected ("auto", or nothing said), how sure
    that is."""
    loaded = LoadedPairs.of(services.engine)
    if source is not None and source.lower() != "auto":
        return [loaded.find(source, target)] * len(texts), None
    by_source = dict(loaded.into(target))
    detect, candidates = services.detector.detect, list(by_source)
    # In a thread: the first call loads the detector, and a large batch takes a while.
    detections = await run_in_threadpool(lambda: [detect(_words(text, text_format), candidates) for text in texts])
    return [(each.language, by_source[each.language]) for each in detections], detections


def _words(text: str, text_format: TextFormat) -> str:
    """Names of tags and attributes are English, whatever the text is; so are programs."""
    if text_format != "html":
        return text
    words, within = [], None
    for part in _TAG.split(text[:_MARKUP_CHARACTERS]):
        if not part.startswith("<"):
            words += [] if within else [part]
            continue
        name = part.strip("<>/ ").partition(" ")[0].lower()
        if part.startswith("</"):
            within = None if name == within else within
        elif within is None and name in _UNREAD:
            within = name
    return html.unescape(" ".join(words))
