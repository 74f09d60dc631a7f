"""Where a continuation stops because of what it says."""

from __future__ import annotations

from dataclasses import dataclass, field

from models.checkpoint import Checkpoint


@dataclass(slots=True)
class StopWatch:
    """Decodes tokens as they come and says when the text holds a stop string: the text before it."""

    checkpoint: Checkpoint
    stop: tuple[str, ...]
    ids: list[int] = field(default_factory=list)

    def feed(self, token: int) -> str | None:
        self.ids.append(token)
        text = self.checkpoint.decode(self.ids)
        places = [text.find(stop) for stop in self.stop]
        found = [place for place in places if place >= 0]
        return text[: min(found)] if found else None
