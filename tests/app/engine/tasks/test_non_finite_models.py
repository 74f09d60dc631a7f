"""Inspection of a model that computes NaN or infinity is refused by name. Non-finite weights are refused at load;
these weights are finite, and the computation overflows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch

from app.engine.protocol import messages as m
from app.engine.worker.model_runner import ModelRunner
from app.engine.worker.scheduler import Scheduler
from app.main import create_app
from app.settings import Settings
from models.inspection.forced_pass import NonFiniteOutput, require_finite
from models.inspection.selection import GateSelection, WalkthroughFocus
from tests.app.engine.corrupt_checkpoints import broken
from tests.app.engine.engine_thread import Running, options
from tests.request_builders import inspect_attention

SAYS = "{}: {} gives NaN or infinity, so its weights are broken; load a sound checkpoint of it."
FAILED = "Looking into this sentence failed"
HUGE = 3e38  # near the greatest number of float32
LOOKS = {
    "attention": inspect_attention(7, "tiny-de-en", [4, 5, 3], [2, 6], [6, 3]),
    "encoder": m.InspectWalkthrough(7, "tiny-de-en", [4, 5, 3], [2, 6], WalkthroughFocus("encoder", -1, 0, 1, 8, 9)),
    "decoder": m.InspectWalkthrough(7, "tiny-de-en", [4, 5, 3], [2, 6], WalkthroughFocus("decoder", -1, 0, 1, 8, 9)),
    "a translation": m.ScoreTokens(7, "tiny-de-en", [4, 5, 3], [2, 6, 3], 3, True),
    "a lyric": m.ScoreTokens(7, "tiny-lyrics", [], [7, 8, 9], 3, False),
    "gates": m.InspectGates(7, "tiny-lyrics", [7, 8], GateSelection(units=4), 3, 9999),
}


def loaded(folder: Path) -> Scheduler:
    scheduler = Scheduler(ModelRunner("cpu", 1, slots=2))
    assert isinstance(scheduler.handle(m.Load(folder.name, str(folder)))[0], m.Loaded)
    return scheduler


@pytest.mark.every_value
@pytest.mark.parametrize("value", [HUGE, -HUGE])
@pytest.mark.parametrize("name", LOOKS)
def test_inspection_refuses_non_finite_numbers(tiny_checkpoints: Path, tmp_path: Path, name: str, value: float) -> None:
    message = LOOKS[name]
    tensor = "encoder.0.attention.projection.weight" if message.model == "tiny-de-en" else "output.weight"
    scheduler = loaded(broken(tiny_checkpoints / message.model, tmp_path, tensor, value))
    scheduler.handle(message)
    (failed,) = scheduler.step()
    assert failed == m.Failed(7, "engine_failed", SAYS.format(FAILED, message.model))


@pytest.mark.parametrize("name", LOOKS)
def test_finite_model_is_inspected(tiny_checkpoints: Path, name: str) -> None:
    scheduler = loaded(tiny_checkpoints / LOOKS[name].model)
    scheduler.handle(LOOKS[name])
    (result,) = scheduler.step()
    assert not isinstance(result, m.Failed)


def test_minus_infinity_is_allowed_in_logits_only() -> None:
    low, fine = torch.tensor([-torch.inf, 0.0]), torch.tensor([1.0])
    require_finite(fine, fine, logits=low)
    for shown, logits in (((fine, low), None), ((), -low), ((), low.log()), ((low.log(),), low)):
        with pytest.raises(NonFiniteOutput, match=r"^gives NaN or infinity"):
            require_finite(*shown, logits=logits)


@pytest.fixture(scope="module")
def served(tiny_checkpoints: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("broken")
    broken(tiny_checkpoints / "tiny-de-en", folder, "decoder.0.attention.projection.weight", HUGE)
    broken(tiny_checkpoints / "tiny-lyrics", folder, "output.weight", HUGE)
    running = Running(options(folder))
    try:
        running.ready()
        yield running
    finally:
        running.close()


@pytest.mark.slow  # a pool of its own
@pytest.mark.parametrize("encoding", ["json", "f32", "u16", "u8"])
def test_every_endpoint_reports_non_finite_numbers_in_every_encoding(served: Running, encoding: str) -> None:
    app = create_app(Settings(), served.pool)
    pair = {"source": "ich möchte ein bier", "target": "i want a beer"}
    requests: list[tuple[str, str, dict[str, Any]]] = [
        ("tiny-de-en", "/attention", {**pair, "encoding": encoding}),
        ("tiny-de-en", "/attention", {"source": pair["source"], "encoding": encoding}),
        ("tiny-lyrics", "/gates", {"text": "分开", "encoding": encoding}),
        ("tiny-de-en", "/walkthrough", pair),
        ("tiny-de-en", "/score", pair),
        ("tiny-lyrics", "/score", {"text": "分开"}),
    ]

    async def all_of_them() -> list[httpx.Response]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://parlance") as client:
            return [await client.post(path, json={**body, "model": model}) for model, path, body in requests]

    for (model, path, _), answer in zip(requests, served.do(all_of_them()), strict=True):
        body = answer.json()
        assert (answer.status_code, body["code"], body["field"]) == (500, "engine_failed", None), path
        assert body["error"] == SAYS.format(FAILED, model), path
