"""The processes that share one training run: torchrun's (`RANK`, `WORLD_SIZE` and so on), or this one alone.

    torchrun --nproc-per-node=8 -m training translator ...                      one machine
    torchrun --nnodes=2 --nproc-per-node=8 --rdzv-backend=c10d \
             --rdzv-endpoint=FIRST:29400 -m training translator ...             the same line on each of two

The first process (rank 0) alone reads and writes `--out`; the corpus must lie on every machine.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, cast

import torch
from torch import Tensor, distributed
from torch.distributed.rendezvous import rendezvous

from training.errors import TrainingError
from training.farewell import Farewell
from training.meeting import meet
from training.wording import counted
from training.workers import Value, Workers

# Nothing between two collectives of a run lasts as long. A process that dies closes its sockets, which the others
# notice at once: this is for a machine that vanishes.
PEERS_ANSWER_WITHIN = timedelta(minutes=10)
FIRST_IS_READY_WITHIN = timedelta(days=2)  # a vocabulary of a large corpus takes its time


class Group(Workers):
    """A process among torchrun's. Numbers and objects go over gloo on the CPU, so that none of them waits for a GPU;
    gradients go over NCCL where they lie on GPUs."""

    def __init__(self, backend: str) -> None:
        try:
            found, self.rank, self.count = next(rendezvous("env://", timeout=PEERS_ANSWER_WITHIN))
            self.store = meet(found, self.rank, self.count, PEERS_ANSWER_WITHIN)
            distributed.init_process_group(
                backend, store=self.store, rank=self.rank, world_size=self.count, timeout=PEERS_ANSWER_WITHIN
            )
        except (RuntimeError, ValueError) as error:
            raise TrainingError(f"The processes of this run do not reach each other ({error}).") from error
        self.local_rank = int(os.environ.get("LOCAL_RANK", "0"))
        self._calls = 0
        own_connection = self.store.clone()  # type: ignore[attr-defined]
        hosts = self.gather(socket.gethostname())
        self.machines = len(set(hosts))
        self.farewell = Farewell(own_connection, self.rank, hosts)
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
            self.store.wait([ready], FIRST_IS_READY_WITHIN)
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
            has = counted(gpus, "GPU")
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


def join() -> Workers:
    """The group that torchrun has started this process in, or this process alone."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return Workers()
    return Group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")


def agree(workers: Workers, fingerprint: str) -> None:
    """TrainingError unless all processes are about to train the same network on the same texts."""
    others = [rank for rank, other in enumerate(workers.gather(fingerprint)) if other != fingerprint]
    if others:
        raise TrainingError(
            "The processes of this run do not read the same corpus or options: they must be the same on every machine."
        )
