"""Streams and events. Kernels run at once, in the order of their launches. An asynchronous copy to or from pinned
memory ends as late as it may: at the next wait that covers it. A program that reads pinned memory too early sees what
was there before; one that overwrites it too early is told."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from tests.cuda_simulator.device import SimulatedDevice


class HazardError(BaseException):
    """A program error that a GPU answers with wrong numbers rather than with an exception. The code under test, which
    handles any Exception of a step, does not handle this one."""


class Stream:
    """The stream of one device. Two with one number are one stream to cuBLAS."""

    def __init__(self, owner: SimulatedDevice, number: int) -> None:
        self.owner = owner
        self.stream_id = self.cuda_stream = number
        self._pending = deque[tuple[int, Callable[[], None]]]()  # what copies under way do at their end, by number
        self._issued = 0
        self.capture: Any = None  # the `Capture` under way

    @property
    def device(self) -> torch.device:
        return torch.device("cuda", self.owner.index)

    @property
    def issued(self) -> int:
        return self._issued

    def copy_to_host(self, destination: Tensor, values: Tensor) -> None:
        """destination: pinned. values: a snapshot."""
        self._append(lambda: destination.copy_(values))

    def copy_from_host(self, source: Tensor) -> None:
        """The device has read the pinned source; what it held must stay until the copy has ended."""
        before = source.clone()

        def check() -> None:
            if not torch.equal(source, before):
                raise HazardError("pinned memory was overwritten while it was being copied to the device")

        self._append(check)

    def _append(self, end: Callable[[], object]) -> None:
        self._issued += 1
        self._pending.append((self._issued, end))  # type: ignore[arg-type]

    def finish(self, until: int | None = None) -> None:
        """Ends the copies that were issued up to number `until`."""
        with torch.inference_mode():  # a copy may write to a tensor of either kind
            while self._pending and (until is None or self._pending[0][0] <= until):
                self._pending.popleft()[1]()

    def _check_not_capturing(self) -> None:
        if self.capture is not None:
            raise self.capture.illegal("waiting for a stream")

    def synchronize(self) -> None:
        self.owner.check()
        self._check_not_capturing()
        self.owner.counts.synchronised("stream.synchronize")
        self.finish()

    def query(self) -> bool:
        self.finish()
        return True

    def wait_stream(self, stream: Stream) -> None:
        self.owner.check()

    def wait_event(self, event: Any) -> None:
        self.owner.check()

    def record_event(self, event: Any) -> Any:
        event.record(self)
        return event


class Event:
    """torch.cuda.Event. current: gives the current stream."""

    def __init__(self, current: Callable[[], Stream]) -> None:
        self._current = current
        self._stream: Stream | None = None
        self._number = 0

    def record(self, stream: Stream | None = None) -> None:
        self._stream = self._current() if stream is None else stream
        self._stream.owner.check()
        self._number = self._stream.issued

    def synchronize(self) -> None:
        if self._stream is not None:
            self._stream.owner.check()
            self._stream._check_not_capturing()
            self._stream.owner.counts.event_waits += 1
            self._stream.finish(self._number)

    def query(self) -> bool:
        if self._stream is not None:
            self._stream.owner.check()
            self._stream.finish(self._number)
        return True

    def wait(self, stream: Stream | None = None) -> None:
        """Makes a stream wait, not the host."""

    def elapsed_time(self, end: Event) -> float:
        return 0.0
