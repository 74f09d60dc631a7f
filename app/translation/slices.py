"""Work on long texts outside of the event loop, in slices that a cancelled request does not outlive.

A thread cannot be cancelled, and a process would have to be sent its texts and send back thousands of small objects:
unpacking them holds the interpreter for as long as the work does. So every function that works on texts takes a time
linear in their length, and the work of a request is done in slices of a tenth of a second, one after another. Whole
files are another matter: their libraries run in the processes of `app.documents.reader_pool`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

R = TypeVar("R")
T = TypeVar("T")
_THREAD_CHARACTERS = 4000  # layout and repair of so many take a few milliseconds, starting a thread 0.1 ms
_SLICE_CHARACTERS = 20_000  # take about 0.1 s


async def each_in_thread(items: Sequence[R], lengths: Sequence[int], work: Callable[[R], T]) -> list[T]:
    """`work` of each item, in order: of short texts in place, of long ones in a thread, so that the event loop is not
    blocked, and in slices: a request that is cancelled computes no further than its slice. lengths: in characters."""
    if sum(lengths) <= _THREAD_CHARACTERS:
        return [work(item) for item in items]
    results: list[T] = []
    start = size = 0
    for number, length in enumerate(lengths, 1):
        size += length + 1
        if size >= _SLICE_CHARACTERS or number == len(lengths):
            results += await asyncio.to_thread(list, map(work, items[start:number]))
            start, size = number, 0
    return results
