"""The random numbers that a process draws while it trains: dropout's. The order of the data is not among them."""

from __future__ import annotations

import hashlib
from typing import Any

import torch


def start(seed: int, rank: int) -> None:
    """Give process `rank` a stream of its own; that of rank 0 goes on as it is."""
    if rank:
        torch.manual_seed(int.from_bytes(hashlib.sha256(f"{seed} {rank}".encode()).digest()[:7]))


def states(device: torch.device) -> dict[str, Any]:
    return {
        "cpu": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state(device) if device.type == "cuda" else None,
    }


def restore(of_ranks: list[dict[str, Any]], rank: int, device: torch.device) -> None:
    """Go on with this process's stream. One that was not there before keeps the stream that `start` gave it."""
    if rank >= len(of_ranks):
        return
    torch.set_rng_state(of_ranks[rank]["cpu"])
    if of_ranks[rank]["cuda"] is not None and device.type == "cuda":
        torch.cuda.set_rng_state(of_ranks[rank]["cuda"], device)
