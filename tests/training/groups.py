"""Several processes as torchrun would start them, without its seconds of starting."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import socket
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import torch

from training.distributed.process_group import Workers, join_group

TIMEOUT_S = 180.0
START = multiprocessing.get_context("forkserver")
START.set_forkserver_preload(["tests.training.group_runs"])  # PyTorch is imported once for all tests


def together(count: int, work: Callable[..., Any], *arguments: Any) -> list[Any]:
    """What `work(workers, *arguments)` returns on each rank of a group, or the exception that it raises."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    pipes, processes = [], []
    for rank in range(count):
        ours, theirs = START.Pipe(duplex=False)
        environment = {"RANK": rank, "WORLD_SIZE": count, "LOCAL_RANK": rank, "MASTER_ADDR": "127.0.0.1"}
        process = START.Process(
            target=_member, args=({**environment, "MASTER_PORT": port}, theirs, work, arguments), daemon=True
        )
        process.start()
        theirs.close()
        pipes.append(ours)
        processes.append(process)
    try:
        return [_received(pipe, rank) for rank, pipe in enumerate(pipes)]
    finally:
        for process in processes:
            process.kill()
            process.join()


def _received(pipe: Connection, rank: int) -> Any:
    assert pipe.poll(TIMEOUT_S), f"rank {rank} hangs"
    try:
        return pickle.loads(pipe.recv_bytes())
    except EOFError:
        raise AssertionError(f"rank {rank} has died") from None


def _member(environment: dict[str, object], pipe: Connection, work: Callable[..., Any], arguments: Any) -> None:
    os.environ.update({name: str(value) for name, value in environment.items()})
    torch.set_num_threads(1)
    workers: Workers = join_group()
    try:
        result = work(workers, *arguments)
    except Exception as error:
        traceback.print_exc()
        result = error
    pipe.send_bytes(pickle.dumps(result))  # whole: `send` would lend tensors for as long as this process lives
    signal.pause()  # no process leaves before all have finished
