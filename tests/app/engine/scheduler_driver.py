"""A scheduler's work in this process: run to its end, with failures on the way."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from app.engine.protocol import messages as m
from app.engine.worker.scheduler import Scheduler
from models import checkpoint as checkpoints
from models.decoding.decoder import decode
from models.decoding.options import TokenRules
from models.interface import Prompt
from models.networks.loading import load_network
from tests.request_builders import decode_message

FAR = 1e12


def run(scheduler: Scheduler, most: int = 2000) -> list[Any]:
    replies: list[Any] = []
    for _ in range(most):
        if not scheduler.busy:
            return replies
        replies += scheduler.step()
    raise AssertionError("the scheduler is still busy")


def requests(count: int) -> list[m.Decode]:
    """Every kind of request for both kinds of model, many more than there are slots."""
    rng = random.Random(4)
    made = []
    for number in range(count):
        kind = rng.choice(["greedy", "beam", "sample"])
        options: dict[str, Any] = {
            "greedy": {},
            "beam": {"beam_size": 3, "n_best": 2},
            "sample": {"temperature": 0.9},
        }[kind]
        if kind == "sample":
            options = {**options, "top_k": rng.choice([0, 5]), "top_p": 0.9, "seed": number}
        if rng.random() < 0.5:
            source, prefix = [rng.randrange(4, 12) for _ in range(rng.randrange(1, 9))] + [3], [2]
            model = "tiny-de-en"
        else:
            source, prefix = [], [rng.randrange(1, 20) for _ in range(rng.randrange(1, 9))]
            model = "tiny-lyrics"
        made.append(decode_message(number, model, source, prefix, FAR, rng.randrange(1, 16), **options))
    return made


def alone(folder: Path, request: m.Decode) -> list[tuple[int, ...]]:
    checkpoint = checkpoints.read(folder / request.model)
    rules = TokenRules(checkpoint.config.eos, checkpoint.config.suppressed)
    prompt = Prompt(tuple(request.source), tuple(request.prefix))
    return [h.tokens for h in decode(load_network(checkpoint), rules, [prompt], request.options)[0]]


def fails(monkeypatch: pytest.MonkeyPatch, target: Any, name: str, times: int, error: Exception) -> None:
    """The first calls raise; then it works as before."""
    work, left = getattr(target, name), [error] * times

    def broken(*given: Any) -> Any:
        if left:
            raise left.pop()
        return work(*given)

    monkeypatch.setattr(target, name, broken)
