"""torchrun's environment variables and store, and `--processes N`, which starts processes as torchrun does."""

from __future__ import annotations

import logging
import os
import socket
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

from torch.distributed.distributed_c10d import PrefixStore, Store

from training import snapshot
from training.errors import TrainingError

POLL_S = 0.02  # between looks at the store
GROUP_FILE = "PARLANCE_GROUP_FILE"  # environment variable with the file in which processes of `--processes` meet


def environment_rank() -> int:
    """This process's rank according to torchrun, before it has joined the group."""
    return int(os.environ.get("RANK", "0"))


def restarted_by_torchrun(out: Path | None, launches: Sequence[str]) -> bool:
    """Whether the snapshot in `out` comes from this run, before it lost or gained a process and started its processes
    again: one torchrun at least has then been there all the time. launches: the `launch_name` of each process now."""
    if out is None or not any(launches) or not snapshot.exists(out):
        return False
    return not set(filter(None, launches)).isdisjoint(snapshot.load(out).get("launches", ()))


def launch_name() -> str:
    """Identifies the torchrun that started this process, across restarts; "" without torchrun."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return ""
    parent = os.getppid()
    stat = Path(f"/proc/{parent}/stat")  # with its start time, because process ids are reused
    started = stat.read_text().rpartition(")")[2].split()[19] if stat.exists() else ""
    return f"{os.environ['TORCHELASTIC_RUN_ID']} {socket.gethostname()} {parent} {started}"


def join_round(store: Store, rank: int, count: int, within: timedelta) -> Store:
    """A prefix of the store for this start only. TrainingError if fewer than `count` processes arrive in time.

    torchrun keeps its store across restarts, including stale entries such as the addresses of dead processes, and
    `TORCHELASTIC_RESTART_COUNT` does not identify a start: it counts the failures of one machine only. So every process
    writes a fresh token. Rank 0 announces a round that lists all tokens, and a new one whenever a token changes; a
    process joins the round that lists its own token. The round is final once all have joined."""
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


def launch_processes(count: int, module: str, arguments: Sequence[str]) -> int:
    """Runs `python -m module arguments` in `count` processes of one group, without torchrun's logs. Returns one exit
    code: 0; 2 after a user's mistake; 130 for an interrupt, 143 for SIGTERM; 1 otherwise.

    PyTorch's TCPStore listens on all addresses, asks nobody for a password and holds pickles, which run code when they
    are read. So the processes meet in files of a folder that only this user can open, and gloo and NCCL, which trust
    whoever connects, keep to the loopback interface."""
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, cores // count)))
    for name in ("", ".agent.server.api"):  # the processes print their own errors, and that they stop
        logging.getLogger(f"torch.distributed.elastic{name}").setLevel(logging.CRITICAL)
    loopback = next(name for _, name in socket.if_nameindex() if name.startswith("lo"))
    os.environ |= {"GLOO_SOCKET_IFNAME": loopback, "NCCL_SOCKET_IFNAME": loopback}
    os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"  # else the launcher opens a TCPStore for the processes
    with tempfile.TemporaryDirectory(prefix="parlance-", ignore_cleanup_errors=True) as folder:
        os.environ[GROUP_FILE] = str(Path(folder, "group"))
        config = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=count,
            run_id=uuid4().hex,
            rdzv_backend="c10d",
            rdzv_endpoint=str(Path(folder, "launch")),
            rdzv_configs={"store_type": "file"},
            local_addr="127.0.0.1",
            max_restarts=0,
        )
        try:
            elastic_launch(config, sys.executable)("-m", module, *arguments)
        except ChildFailedError as error:
            return 2 if any(failure.exitcode == 2 for failure in error.failures.values()) else 1
        except SignalException as stopped:
            return 128 + stopped.sigval
        except KeyboardInterrupt:
            return 130
    return 0
