"""The batches of an epoch in order, made ahead of their updates by a thread.

A GPU computes an update of `base` in some 20 ms while the main thread waits for nothing; batches that the main thread
made would hold it up. On a CPU a batch costs less than a thousandth of its update, and the kernels use every core, so
that there the main thread makes each batch when its update begins."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import Generic

import torch

from training.loop.tasks import Batch


class BatchPrefetcher(Generic[Batch]):
    """Hands out batches `first`, `first` + 1, ... of an epoch. The order is that of the sequence, and nothing that is
    made ahead is part of a snapshot: a resumed run begins with another `first`.

    ahead: batches that may wait to be taken; 0: no thread, `take` makes them. device: that the thread allocates
    page-locked memory for. made, making_s: batches so far and the seconds that these took; waited_s: of `take`."""

    def __init__(self, batches: Sequence[Batch], first: int, ahead: int, device: torch.device) -> None:
        self._batches, self._ahead, self._device = batches, ahead, device
        self._taken = self._next = first
        self._ready = deque[Batch]()
        self._changed = threading.Condition()
        self._error: BaseException | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._make_all, name="batches", daemon=True) if ahead else None
        self.made, self.making_s, self.waited_s = 0, 0.0, 0.0

    def __enter__(self) -> BatchPrefetcher[Batch]:
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Ends the thread after the batch that it is making."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def take(self, count: int) -> list[Batch]:
        """The next batches, fewer at the end of the epoch. Raises what making one raised, with its traceback."""
        started = time.perf_counter()
        end = min(self._taken + count, len(self._batches))
        batches = [self._take_one() for _ in range(self._taken, end)]
        self._taken = end
        self.waited_s += time.perf_counter() - started
        return batches

    def _take_one(self) -> Batch:
        if self._thread is None:
            return self._make()
        with self._changed:
            while not self._ready and self._error is None:
                self._changed.wait()
            if not self._ready and self._error is not None:
                raise self._error
            self._changed.notify_all()
            return self._ready.popleft()

    def _make(self) -> Batch:
        started = time.perf_counter()
        batch = self._batches[self._next]
        self.making_s += time.perf_counter() - started
        self.made, self._next = self.made + 1, self._next + 1
        return batch

    def _make_all(self) -> None:
        try:
            if self._device.type == "cuda" and self._device.index is not None:
                torch.cuda.set_device(self._device)  # a thread begins on the first GPU, whatever its parent's is
            while self._next < len(self._batches):
                with self._changed:
                    while len(self._ready) >= self._ahead and not self._closed:
                        self._changed.wait()
                    if self._closed:
                        return
                batch = self._make()
                with self._changed:
                    self._ready.append(batch)
                    self._changed.notify_all()
        except BaseException as error:  # raised in the loop
            with self._changed:
                self._error = error
                self._changed.notify_all()
