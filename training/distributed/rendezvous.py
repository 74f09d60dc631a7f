"""How the processes of one start find each other, and nobody of the start before.

torchrun keeps its key-value store when it starts a group again, with all that the last one had written there, such as
the addresses of dead processes. `TORCHELASTIC_RESTART_COUNT` does not tell starts apart: it counts the failures on one
machine, and the others go on with their own number.
"""

from __future__ import annotations

import time
from datetime import timedelta
from uuid import uuid4

from torch.distributed.distributed_c10d import PrefixStore, Store

from training.errors import TrainingError

POLL_S = 0.02


def join_round(store: Store, rank: int, count: int, within: timedelta) -> Store:
    """A part of the store that only this start writes to. TrainingError if not all `count` processes come in time.

    Every process leaves a fresh word. Rank 0 calls all the words that it sees, again whenever one of them has changed;
    the others answer the call that has their own. When all have answered, those are the ones who are here.
    """
    own = uuid4().hex
    store.set(f"here/{rank}", own)
    until = time.monotonic() + within.total_seconds()
    call, words = "", list[str]()
    while time.monotonic() < until:
        if rank == 0:
            call, words = _announce(store, count, call, words)
            if call and store.check([f"{call}/{other}" for other in range(count)]):
                store.set(f"{call}/all", "")
        elif store.check(["call"]):
            call, *words = store.get("call").decode().split()
        if call and len(words) > rank and words[rank] == own:
            store.set(f"{call}/{rank}", "")
            if store.check([f"{call}/all"]):
                return PrefixStore(call, store)
        time.sleep(POLL_S)
    raise TrainingError(f"Not all {count} processes of this run have started within {within.total_seconds():g} s.")


def _announce(store: Store, count: int, call: str, words: list[str]) -> tuple[str, list[str]]:
    """The call that names everybody's last word: the one before, if they are the same."""
    keys = [f"here/{rank}" for rank in range(count)]
    if not store.check(keys):
        return call, words
    found = [word.decode() for word in store.multi_get(keys)]
    if found != words:
        call, words = uuid4().hex, found
        store.set("call", " ".join([call, *words]))
    return call, words
