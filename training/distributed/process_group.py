"""The processes that share one training run: torchrun's (`RANK`, `WORLD_SIZE` and so on), or this one alone.

    torchrun --nproc-per-node=8 -m training translator ...       one machine; docs/training.md has several

The first process (rank 0) alone reads and writes `--out`; the corpus must lie on every machine."""

from __future__ import annotations

import hashlib
import math
import os
import socket
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import TypedDict, TypeVar, cast

import torch
from torch import Tensor, distributed
from torch.distributed import FileStore  # type: ignore[attr-defined]
from torch.distributed.distributed_c10d import Store
from torch.distributed.rendezvous import rendezvous

from training.distributed.torchrun import GROUP_FILE, join_round, launch_name
from training.distributed.watchdog import Watchdog
from training.errors import TrainingError, pluralize

Value = TypeVar("Value")

# Longer than any gap between collectives, for a machine that vanishes: a dead process closes its sockets at once.
PEER_TIMEOUT = timedelta(minutes=10)
RANK_0_TIMEOUT = timedelta(days=2)  # fitting the vocabulary of a large corpus takes long


class RandomState(TypedDict):
    """PyTorch's random generators in one process, used by dropout. Data order does not depend on them."""

    cpu: Tensor
    cuda: Tensor | None


def seed_rank(seed: int, rank: int) -> None:
    """Gives process `rank` its own random stream; rank 0 keeps its current one."""
    if rank:
        torch.manual_seed(int.from_bytes(hashlib.sha256(f"{seed} {rank}".encode()).digest()[:7]))


def random_state(device: torch.device) -> RandomState:
    return {"cpu": torch.get_rng_state(), "cuda": torch.cuda.get_rng_state(device) if device.type == "cuda" else None}


def restore_random_state(by_rank: list[RandomState], rank: int, device: torch.device) -> None:
    """A rank without saved state keeps the stream from `seed_rank`."""
    if rank >= len(by_rank):
        return
    state = by_rank[rank]
    torch.set_rng_state(state["cpu"])
    if state["cuda"] is not None and device.type == "cuda":
        torch.cuda.set_rng_state(state["cuda"], device)


class Workers:
    """The process group of a run, from this process's view; by default a single process. Numbers and objects go over
    gloo on the CPU, so that they never wait for a GPU; gradients on GPUs go over NCCL."""

    def __init__(self, rank: int = 0, count: int = 1, store: Store | None = None) -> None:
        self.rank, self.count, self._store = rank, count, store
        self.local_rank, self.machines = int(os.environ.get("LOCAL_RANK", "0")), 1
        self.synchronize = True  # whether the next backward pass averages gradients across processes
        self.watchdog: Watchdog | None = None
        self.launches = [launch_name()]  # of all processes
        self._rank_0_calls = 0

    @property
    def writes(self) -> bool:
        """Whether this process reads and writes the run's folder and prints."""
        return self.rank == 0

    def agree(self, seconds: float, stop_signal: int) -> tuple[float, int]:
        """Rank 0's clock, and the signal that any process has received (0: none), in one collective."""
        if self.count == 1:
            return seconds, stop_signal
        numbers = torch.tensor([seconds if self.rank == 0 else -math.inf, float(stop_signal)], dtype=torch.float64)
        distributed.all_reduce(numbers, distributed.ReduceOp.MAX)
        return numbers[0].item(), int(numbers[1])

    def sum(self, value: Tensor) -> Tensor:
        """The sum over all processes, in place; asynchronous on a GPU."""
        if self.count > 1:
            distributed.all_reduce(value)
        return value

    def gather(self, value: Value) -> list[Value]:
        """The values of all processes, by rank; on every process."""
        if self.count == 1:
            return [value]
        values: list[Value | None] = [None] * self.count
        distributed.all_gather_object(values, value)
        return cast(list[Value], values)

    def on_rank_0(self, make: Callable[[], Value]) -> Value:
        """Calls `make` on rank 0 only and broadcasts its result. The other ranks wait however long it takes."""
        if self._store is None:
            return make()
        self._rank_0_calls += 1
        ready = f"ready/{self._rank_0_calls}"
        value: list[Value | None] = [make() if self.rank == 0 else None]
        if self.rank == 0:
            self._store.set(ready, "")
        else:
            self._store.wait([ready], RANK_0_TIMEOUT)
        distributed.broadcast_object_list(value, src=0)
        return cast(Value, value[0])

    def note(self, sentence: str) -> None:
        """Prints a message once per group."""
        if self.writes:
            print(sentence, file=sys.stderr, flush=True)

    def print_error(self, sentence: str) -> None:
        """Prints the reason that the run ends to stderr; only the first process to do so prints."""
        if self.watchdog is None:
            print(sentence, file=sys.stderr, flush=True)
        else:
            self.watchdog.print_once(sentence)

    def device(self, kind: str) -> torch.device:
        """The CPU, or this process's GPU. TrainingError if there are fewer GPUs than processes."""
        if kind != "cuda" or self.count == 1:
            return torch.device(kind)
        gpus = torch.cuda.device_count()
        if self.local_rank >= gpus:
            has = pluralize(gpus, "GPU")
            raise TrainingError(f"This machine has {has} for more processes: start one process for each.")
        device = torch.device("cuda", self.local_rank)
        torch.cuda.set_device(device)
        return device

    def exit_after_peer_failure(self) -> None:
        """Ends this process, after `watchdog.is_peer_failure`."""
        if self.watchdog is not None:
            self.watchdog.report_failure()
            self.exit(1)  # a normal exit makes PyTorch wait seconds for the dead peer

    def exit(self, code: int) -> None:
        """Ends a process of a group, whether or not it has left the group in order; returns in a single process. The
        interpreter's own exit would abort the process if one of PyTorch's threads is still alive then."""
        if self.count > 1:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def leave(self) -> None:
        """Leaves the group in order, at the end of a run."""
        if self.count > 1:
            distributed.destroy_process_group()


def join_group() -> Workers:
    """The group of torchrun's environment or of `launch_processes`, or a single process. TrainingError if processes
    cannot reach each other."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return Workers()
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    try:
        if GROUP_FILE in os.environ:
            rank, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
            store: Store = FileStore(os.environ[GROUP_FILE], count)
        else:
            store, rank, count = next(rendezvous("env://", timeout=PEER_TIMEOUT))
        store = join_round(store, rank, count, PEER_TIMEOUT)
        distributed.init_process_group(backend, store=store, rank=rank, world_size=count, timeout=PEER_TIMEOUT)
    except (RuntimeError, ValueError) as error:
        raise TrainingError(f"The processes of this run do not reach each other ({error}).") from error
    workers, own_connection = Workers(rank, count, store), store.clone()  # type: ignore[attr-defined]
    hosts = workers.gather(socket.gethostname())
    workers.launches = workers.gather(launch_name())
    workers.machines, workers.watchdog = len(set(hosts)), Watchdog(own_connection, rank, hosts)
    workers.watchdog.watch()
    return workers


def check_same_run(workers: Workers, fingerprint: str) -> None:
    """Raises TrainingError unless all processes have the same network and texts."""
    if any(other != fingerprint for other in workers.gather(fingerprint)):
        raise TrainingError(
            "The processes of this run do not read the same corpus or options: they must be the same on every machine."
        )
