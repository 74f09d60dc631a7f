"""What a request passes on its way in, and keeps until it ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from app.engine.admission import Admission, Demand, Share
from app.engine.errors import EngineUnavailable
from app.engine.library import Edition, Library
from app.engine.shelf import Shelf


class Entrance:
    """library: the checkpoints, or EngineUnavailable until they are read. max_queue_age_s: how long a request may
    wait for a slot."""

    def __init__(
        self, library: Callable[[], Library], shelf: Shelf, admission: Admission, max_queue_age_s: float
    ) -> None:
        self.library, self.admission, self.max_queue_age_s = library, admission, max_queue_age_s
        self._shelf = shelf
        self.draining = False

    def keeping(self, editions: Sequence[Edition]) -> AbstractContextManager[None]:
        """These stay on the devices while a request that has begun with them runs: from its choice of them on, which
        comes before its texts are tokenized, to its last token."""
        return self._shelf.in_use(editions)

    @contextmanager
    def admitted(self, *demands: Demand) -> Iterator[Share]:
        """Room for all of it together; see `Admission.admitted`."""
        self.refuse_when_draining()
        with self.admission.admitted(*demands) as share:
            yield share

    def check_room(self) -> None:
        """EngineUnavailable or Overloaded if nothing could be let in now, however little it asks for."""
        self.refuse_when_draining()
        self.admission.check_room()

    def refuse_when_draining(self) -> None:
        if self.draining:
            raise EngineUnavailable("The service is shutting down; try again in a moment.", reason="draining")

    def start_by(self, first: bool = True) -> float:
        """When a request that comes in now must have got its slots: its first sequence. Those beside it then have the
        request's time and no other limit, or most of a page would be computed for a 429."""
        return time.monotonic() + self.max_queue_age_s if first else 0.0
