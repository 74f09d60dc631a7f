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
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, distributed
from torch.distributed.rendezvous import rendezvous

from training.distributed.rendezvous import join_round
from training.distributed.watchdog import Watchdog
from training.errors import TrainingError, pluralize


def start_random_stream(seed: int, rank: int) -> None:
    """Give process `rank` a stream of its own; that of rank 0 goes on as it is."""
    if rank:
        torch.manual_seed(int.from_bytes(hashlib.sha256(f"{seed} {rank}".encode()).digest()[:7]))


def random_states(device: torch.device) -> dict[str, Any]:
    return {
        "cpu": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state(device) if device.type == "cuda" else None,
    }


def restore_random_states(of_ranks: list[dict[str, Any]], rank: int, device: torch.device) -> None:
    """Go on with this process's stream. One that was not there before keeps the stream that `start` gave it."""
    if rank >= len(of_ranks):
        return
    torch.set_rng_state(of_ranks[rank]["cpu"])
    if of_ranks[rank]["cuda"] is not None and device.type == "cuda":
        torch.cuda.set_rng_state(of_ranks[rank]["cuda"], device)


Value = TypeVar("Value")


class Workers:
    """One process alone: what it decides and what it sums is what it has."""

    rank, count, local_rank, machines = 0, 1, 0, 1
    together = True  # whether the next backward pass brings the gradients of all processes together

    @property
    def writes(self) -> bool:
        """Whether this is the process that reads and writes the run's folder and talks."""
        return self.rank == 0

    def first(self, value: float) -> float:
        """Rank 0's value, for what clocks decide."""
        return value

    def sum(self, values: Sequence[float]) -> list[float]:
        return list(values)

    def total(self, value: Tensor) -> Tensor:
        """The sum over all processes; on a GPU nobody waits for it."""
        return value

    def gather(self, value: Value) -> list[Value]:
        """The values of all processes, by rank; on every process."""
        return [value]

    def given(self, make: Callable[[], Value]) -> Value:
        """What `make` returns on rank 0, the only one to call it. However long it takes, the others wait."""
        return make()

    def say(self, sentence: str) -> None:
        """Why the run ends, on standard error; of all processes' sentences only the first that is said."""
        print(sentence, file=sys.stderr, flush=True)

    def note(self, sentence: str) -> None:
        """What a run says on its way, once for all processes. It is no last word: see `say`."""
        if self.writes:
            print(sentence, file=sys.stderr, flush=True)

    def end(self) -> None:
        """Of this process, after `training.distributed.watchdog.is_peer_failure`."""

    def device(self, kind: str) -> torch.device:
        """The CPU, or the GPU that is this process's own."""
        return torch.device(kind)

    def leave(self) -> None:
        """No word to the others after this."""


# Nothing between two collectives of a run lasts as long. A process that dies closes its sockets, which the others
# notice at once: this is for a machine that vanishes.
PEER_TIMEOUT = timedelta(minutes=10)
RANK_0_TIMEOUT = timedelta(days=2)  # a vocabulary of a large corpus takes its time


class ProcessGroup(Workers):
    """A process among torchrun's. Numbers and objects go over gloo on the CPU, so that none of them waits for a GPU;
    gradients go over NCCL where they lie on GPUs."""

    def __init__(self, backend: str) -> None:
        try:
            found, self.rank, self.count = next(rendezvous("env://", timeout=PEER_TIMEOUT))
            self.store = join_round(found, self.rank, self.count, PEER_TIMEOUT)
            distributed.init_process_group(
                backend, store=self.store, rank=self.rank, world_size=self.count, timeout=PEER_TIMEOUT
            )
        except (RuntimeError, ValueError) as error:
            raise TrainingError(f"The processes of this run do not reach each other ({error}).") from error
        self.local_rank = int(os.environ.get("LOCAL_RANK", "0"))
        self._calls = 0
        own_connection = self.store.clone()  # type: ignore[attr-defined]
        hosts = self.gather(socket.gethostname())
        self.machines = len(set(hosts))
        self.farewell = Watchdog(own_connection, self.rank, hosts)
        self.farewell.watch()

    def first(self, value: float) -> float:
        number = torch.tensor(value, dtype=torch.float64)
        distributed.broadcast(number, src=0)
        return number.item()

    def sum(self, values: Sequence[float]) -> list[float]:
        numbers = torch.tensor(values, dtype=torch.float64)
        distributed.all_reduce(numbers)
        return cast(list[float], numbers.tolist())

    def total(self, value: Tensor) -> Tensor:
        distributed.all_reduce(value)
        return value

    def gather(self, value: Value) -> list[Value]:
        values: list[Any] = [None] * self.count
        distributed.all_gather_object(values, value)
        return values

    def given(self, make: Callable[[], Value]) -> Value:
        self._calls += 1
        ready = f"ready/{self._calls}"
        found: list[Any] = [make() if self.rank == 0 else None]
        if self.rank == 0:
            self.store.set(ready, "")
        else:
            self.store.wait([ready], RANK_0_TIMEOUT)
        distributed.broadcast_object_list(found, src=0)
        return cast(Value, found[0])

    def say(self, sentence: str) -> None:
        self.farewell.say(sentence)

    def end(self) -> None:
        self.farewell.say_who_died()
        sys.stdout.flush()
        os._exit(1)  # on the way out PyTorch would wait seconds for a peer that is dead

    def device(self, kind: str) -> torch.device:
        if kind != "cuda":
            return torch.device(kind)
        gpus = torch.cuda.device_count()
        if self.local_rank >= gpus:
            has = pluralize(gpus, "GPU")
            raise TrainingError(f"This machine has {has} for more processes: start one process for each.")
        device = torch.device("cuda", self.local_rank)
        torch.cuda.set_device(device)
        return device

    def leave(self) -> None:
        """Ends this process too: a thread of PyTorch's that is there when the interpreter goes would abort it."""
        distributed.destroy_process_group()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def join_group() -> Workers:
    """The group that torchrun has started this process in, or this process alone."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return Workers()
    return ProcessGroup("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")


def check_same_run(workers: Workers, fingerprint: str) -> None:
    """TrainingError unless all processes are about to train the same network on the same texts."""
    others = [rank for rank, other in enumerate(workers.gather(fingerprint)) if other != fingerprint]
    if others:
        raise TrainingError(
            "The processes of this run do not read the same corpus or options: they must be the same on every machine."
        )
