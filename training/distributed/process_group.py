"""The processes that share one training run: torchrun's (`RANK`, `WORLD_SIZE` and so on), or this one alone.

    torchrun --nproc-per-node=8 -m training translator ...                      one machine
    torchrun --nnodes=2 --nproc-per-node=8 --rdzv-backend=c10d \
             --rdzv-endpoint=FIRST:29400 -m training translator ...             the same line on each of two

The first process (rank 0) alone reads and writes `--out`; the corpus must lie on every machine.
"""

from __future__ import annotations

import hashlib
import os
import socket
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import TypedDict, TypeVar, cast

import torch
from torch import Tensor, distributed
from torch.distributed.distributed_c10d import Store
from torch.distributed.rendezvous import rendezvous

from training.distributed.rendezvous import join_round
from training.distributed.watchdog import Watchdog
from training.errors import TrainingError, pluralize

Value = TypeVar("Value")

# Longer than anything between two collectives of a run. A process that dies closes its sockets, which its peers notice
# at once: this limit is for a machine that vanishes.
PEER_TIMEOUT = timedelta(minutes=10)
RANK_0_TIMEOUT = timedelta(days=2)  # fitting the vocabulary of a large corpus takes its time


class RandomState(TypedDict):
    """PyTorch's random generators in one process, which dropout draws from. The order of the data does not."""

    cpu: Tensor
    cuda: Tensor | None


def seed_rank(seed: int, rank: int) -> None:
    """Give process `rank` a random stream of its own; that of rank 0 goes on as it is."""
    if rank:
        torch.manual_seed(int.from_bytes(hashlib.sha256(f"{seed} {rank}".encode()).digest()[:7]))


def random_state(device: torch.device) -> RandomState:
    return {
        "cpu": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state(device) if device.type == "cuda" else None,
    }


def restore_random_state(by_rank: list[RandomState], rank: int, device: torch.device) -> None:
    """A rank without a saved state keeps the stream that `seed_rank` gave it."""
    if rank >= len(by_rank):
        return
    state = by_rank[rank]
    torch.set_rng_state(state["cpu"])
    if state["cuda"] is not None and device.type == "cuda":
        torch.cuda.set_rng_state(state["cuda"], device)


class Workers:
    """The processes of a run as one of them sees it; without arguments, one process alone.

    Numbers and objects go over gloo on the CPU, so that none of them waits for a GPU; gradients go over NCCL where they
    lie on GPUs."""

    def __init__(self, rank: int = 0, count: int = 1, store: Store | None = None) -> None:
        self.rank, self.count, self._store = rank, count, store
        self.local_rank, self.machines = int(os.environ.get("LOCAL_RANK", "0")), 1
        self.synchronize = True  # whether the next backward pass averages gradients over the processes
        self.watchdog: Watchdog | None = None
        self._rank_0_calls = 0

    @property
    def writes(self) -> bool:
        """Whether this process reads and writes the run's folder and prints."""
        return self.rank == 0

    def from_rank_0(self, value: float) -> float:
        """Rank 0's number on every process, for what clocks decide."""
        if self.count == 1:
            return value
        number = torch.tensor(value, dtype=torch.float64)
        distributed.broadcast(number, src=0)
        return number.item()

    def sum(self, value: Tensor) -> Tensor:
        """The sum over all processes, in place; on a GPU the host does not wait for it."""
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
        """What `make` returns on rank 0, the only one to call it. However long it takes, the other ranks wait."""
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
        """A message of a run that goes on, once for all processes."""
        if self.writes:
            print(sentence, file=sys.stderr, flush=True)

    def print_error(self, sentence: str) -> None:
        """Why the run ends, on standard error; of all processes' sentences only the first is printed."""
        if self.watchdog is None:
            print(sentence, file=sys.stderr, flush=True)
        else:
            self.watchdog.print_once(sentence)

    def device(self, kind: str) -> torch.device:
        """The CPU, or this process's own GPU. TrainingError where there are fewer GPUs than processes."""
        if kind != "cuda" or self.count == 1:
            return torch.device(kind)
        gpus = torch.cuda.device_count()
        if self.local_rank >= gpus:
            raise TrainingError(
                f"This machine has {pluralize(gpus, 'GPU')} for more processes: start one process for each."
            )
        device = torch.device("cuda", self.local_rank)
        torch.cuda.set_device(device)
        return device

    def exit_after_peer_failure(self) -> None:
        """End this process, after `watchdog.is_peer_failure`."""
        if self.watchdog is not None:
            self.watchdog.report_failure()
            sys.stdout.flush()
            os._exit(1)  # on the way out PyTorch would wait seconds for a peer that is dead

    def close(self) -> None:
        """Leave the group at the end of a run, and with it the process: a thread of PyTorch's that is still there at
        the interpreter's exit would abort it."""
        if self.count > 1:
            distributed.destroy_process_group()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)


def join_group() -> Workers:
    """The group that torchrun has started this process in, or this process alone. TrainingError where the processes do
    not reach each other."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return Workers()
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    try:
        store, rank, count = next(rendezvous("env://", timeout=PEER_TIMEOUT))
        store = join_round(store, rank, count, PEER_TIMEOUT)
        distributed.init_process_group(backend, store=store, rank=rank, world_size=count, timeout=PEER_TIMEOUT)
    except (RuntimeError, ValueError) as error:
        raise TrainingError(f"The processes of this run do not reach each other ({error}).") from error
    workers, own_connection = Workers(rank, count, store), store.clone()  # type: ignore[attr-defined]
    hosts = workers.gather(socket.gethostname())
    workers.machines, workers.watchdog = len(set(hosts)), Watchdog(own_connection, rank, hosts)
    workers.watchdog.watch()
    return workers


def check_same_run(workers: Workers, fingerprint: str) -> None:
    """TrainingError unless all processes are about to train the same network on the same texts."""
    if any(other != fingerprint for other in workers.gather(fingerprint)):
        raise TrainingError(
            "The processes of this run do not read the same corpus or options: they must be the same on every machine."
        )
