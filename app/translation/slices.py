"""Work on long texts outside of the event loop, in slices that a cancelled request does not outlive.

A thread cannot be cancelled, and a process would have to be sent its texts and send back thousands of small objects:
unpacking them holds the interpreter for as long as the work does. So every function that works on texts takes a time
linear in their length, and the work of a request is done in slices of a tenth of a second, one after another. Slices of
all requests take turns in two threads: more would compute no faster, and the event loop would have to wait for each of
them when it asks for the interpreter. Whole files are another matter: their libraries run in the processes of
`app.documents.reader_pool`."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

R = TypeVar("R")
T = TypeVar("T")
_THREAD_CHARACTERS = 4000  # layout and repair of so many take a few milliseconds, starting a thread 0.1 ms
_SLICE_CHARACTERS = 20_000  # take about 0.1 s
_THREADS = 2
_threads = ThreadPoolExecutor(_THREADS, "slices")  # first come, first served


def _each(work: Callable[[R], T], items: Sequence[R]) -> list[T]:
    return [work(item) for item in items]


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
            run = partial(contextvars.copy_context().run, _each, work, items[start:number])
            results += await asyncio.get_running_loop().run_in_executor(_threads, run)
            start, size = number, 0
    return results
