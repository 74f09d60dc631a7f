"""Lets the processes of one start find each other, ignoring earlier starts.

torchrun keeps its key-value store across restarts, including stale entries such as the addresses of dead processes.
`TORCHELASTIC_RESTART_COUNT` does not identify a start: it counts the failures of one machine only."""

from __future__ import annotations

import time
from datetime import timedelta
from uuid import uuid4

from torch.distributed.distributed_c10d import PrefixStore, Store

from training.errors import TrainingError

POLL_S = 0.02


def join_round(store: Store, rank: int, count: int, within: timedelta) -> Store:
    """A prefix of the store for this start only. TrainingError if fewer than `count` processes arrive in time.

    Every process writes a fresh token. Rank 0 announces a round that lists all tokens, and a new one whenever a token
    changes; a process joins the round that lists its own token. The round is final once all have joined."""
    own = uuid4().hex
    store.set(f"here/{rank}", own)
    until = time.monotonic() + within.total_seconds()
    round_id, tokens = "", list[str]()
    while time.monotonic() < until:
        if rank == 0:
            keys = [f"here/{other}" for other in range(count)]
            latest = [token.decode() for token in store.multi_get(keys)] if store.check(keys) else tokens
            if latest != tokens:
                round_id, tokens = uuid4().hex, latest
                store.set("call", " ".join([round_id, *tokens]))
            if round_id and store.check([f"{round_id}/{other}" for other in range(count)]):
                store.set(f"{round_id}/all", "")
        elif store.check(["call"]):
            round_id, *tokens = store.get("call").decode().split()
        if round_id and len(tokens) > rank and tokens[rank] == own:
            store.set(f"{round_id}/{rank}", "")
            if store.check([f"{round_id}/all"]):
                return PrefixStore(round_id, store)
        time.sleep(POLL_S)
    raise TrainingError(f"Not all {count} processes of this run have started within {within.total_seconds():g} s.")
