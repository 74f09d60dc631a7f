"""How the interpreter of the front end is shared: between the event loop and the threads beside it, and with the
garbage collector. One event loop answers everybody, so that each of its waits is everybody's.

A thread cannot be cancelled, and a process would have to be sent its texts and send back thousands of small objects:
unpacking them holds the interpreter for as long as the work does. So every function that works on texts takes a time
linear in their length, and the work of a request is done in slices of a tenth of a second, one after another. Slices of
all requests take turns in two threads: more would compute no faster, and the event loop would have to wait for each of
them when it asks for the interpreter. Whole files are another matter: their libraries run in the processes of
`app.documents.reader_pool`."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TypeVar

T = TypeVar("T")
# A thread that computes gives the interpreter up after so long. The event loop has to ask for it several times for one
# request, after each call of the system: at Python's own 5 ms a tiny request waits up to 100 ms beside one thread.
SWITCH_INTERVAL_S = 0.0005
_GIVE_WAY_S = 0.00005  # longer than a waiting thread takes to wake
# A full collection stops the event loop for about 0.2 us per object that is not frozen.
FEW_OBJECTS = 20_000
MANY_OBJECTS = 1_000_000  # as garbage they would take some 200 MB
LONGEST_PAUSE_S = 60.0
_CHECK_INTERVAL_S = 1.0
_NEVER = 1 << 30
# Collections of the two younger generations: at Python's own 700 and 10 the first alone took 10 % of a translation's
# time; the second looks at 25,000 objects at most, for about 1 ms.
YOUNG_OBJECTS, YOUNG_COLLECTIONS = 5_000, 4
LONG_CHARACTERS = 4000  # layout and repair of so many take a few milliseconds, starting a thread 0.1 ms
_THREADS = 2
_threads = ThreadPoolExecutor(_THREADS, "slices")  # first come, first served
_gave_way = threading.local()


def full_collection_is_due(objects: int, since_last_s: float) -> bool:
    """objects: number in the oldest generation, where a large request's objects stay until its answer is written."""
    return objects <= FEW_OBJECTS or objects >= MANY_OBJECTS or since_last_s >= LONGEST_PAUSE_S


def give_way() -> None:
    """Gives the interpreter up where this thread has computed for `SWITCH_INTERVAL_S` since the last time; does nothing
    in the thread of an event loop. For loops around calls that release the interpreter for microseconds, such as
    numpy's on small arrays: each wakes the event loop, which finds the interpreter taken again and begins to wait for
    `SWITCH_INTERVAL_S` anew. The loop waited up to 59 ms for it beside one such thread, and 137 ms beside two."""
    computed_s = time.thread_time()
    if computed_s - getattr(_gave_way, "at_s", 0.0) >= SWITCH_INTERVAL_S and not _is_event_loop():
        _gave_way.at_s = computed_s
        time.sleep(_GIVE_WAY_S)


def _is_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


@asynccontextmanager
async def shared_interpreter() -> AsyncIterator[None]:
    """Within the context threads take turns at short intervals, young objects are collected less often, and full
    garbage collections run while there are few objects to look at, rather than whenever a large request has made many.
    What exists at the start is never looked at again: it would take 65 ms. Everything is as before at the end, but for
    frozen objects."""
    interval_s, thresholds = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, YOUNG_COLLECTIONS, _NEVER)
    collecting = asyncio.create_task(_collect_now_and_then())
    try:
        yield
    finally:
        collecting.cancel()
        with suppress(asyncio.CancelledError):
            await collecting
        gc.set_threshold(*thresholds)
        sys.setswitchinterval(interval_s)


async def _collect_now_and_then() -> None:
    last_s = time.monotonic()
    while True:
        await asyncio.sleep(_CHECK_INTERVAL_S)
        has_survivors = gc.get_count()[2] > 0  # a younger generation was collected since the last full collection
        if has_survivors and full_collection_is_due(
            len(gc.get_objects(generation=2)), (now_s := time.monotonic()) - last_s
        ):
            gc.collect()
            last_s = now_s


async def in_thread(work: Callable[..., T], *arguments: object) -> T:
    """`work` in one of the threads for texts, so that the event loop is not blocked. Work that takes more than a tenth
    of a second is to be given in parts, so that texts of several requests take turns, and a request that is cancelled
    computes no further."""
    run = partial(contextvars.copy_context().run, work, *arguments)
    return await asyncio.get_running_loop().run_in_executor(_threads, run)


async def in_thread_if_long(characters: int, work: Callable[..., T], *arguments: object) -> T:
    """`work` on texts of so many characters: in place where a thread would take longer to begin."""
    return await in_thread(work, *arguments) if characters > LONG_CHARACTERS else work(*arguments)
