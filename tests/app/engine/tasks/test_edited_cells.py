"""A cell whose formula was edited, from its load to `POST /gates`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from torch import Tensor

from app.api.inspection.schemas import GatesAnswer, GatesRequest
from models.networks.cells import CELLS, Step, gru
from tests.app.api.inspection.test_encoded_arrays import decoded
from tests.app.engine.inline_engine import Inline
from tests.request_builders import gates_query


@pytest.fixture
def edited() -> Iterator[None]:
    def doubled(projected: Tensor, recurrent: Tensor, hidden: Tensor, memory: Tensor) -> Step:
        step = gru(projected, recurrent, hidden, memory)
        return step._replace(gates={**step.gates, "z": 2 * step.gates["z"]})

    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(CELLS, "gru", replace(CELLS["gru"], step=doubled))
        yield


def answered(root: Path, encoding: Any) -> dict[str, Any]:
    async def scene() -> Any:
        return await Inline(root).looking.gates(gates_query("分开后的街道", gates=("z", "h"), units=32))

    request = GatesRequest(text="分开后的街道", encoding=encoding)
    fields: dict[str, Any] = msgspec.to_builtins(GatesAnswer.of(asyncio.run(scene()), request))
    return fields


@pytest.mark.usefixtures("edited")
def test_gates_beyond_the_bounds_of_their_cell_are_not_cut_off(tiny_checkpoints: Path) -> None:
    exact, short = (answered(tiny_checkpoints, encoding) for encoding in ("f32", "u8"))
    z, h = (decoded(short["gates"][name]) for name in ("z", "h"))
    assert decoded(exact["gates"]["z"]).max() > 1.01
    assert abs(z - decoded(exact["gates"]["z"])).max() < 2 / 250
    assert abs(h - decoded(exact["gates"]["h"])).max() <= 1 / 250 + 1e-6
    assert short["model"]["bounds"] == {"r": (0.0, 1.0), "z": None, "n": (-1.0, 1.0), "h": (-1.0, 1.0)}
    assert list(short["summaries"][0]["high"]) == ["r", "n", "h"]


@pytest.mark.usefixtures("edited")
def test_device_says_that_weights_were_trained_with_another_cell(
    tiny_checkpoints: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "models.networks.loading"):
        models = Inline(tiny_checkpoints).scheduler.queues
    sentence = "The weights of tiny-lyrics were trained with other code than runs here (cell gru), "
    assert sum(record.getMessage().startswith(sentence) for record in caplog.records) == 1
    [reason] = [queue.model.reason for name, queue in models.items() if name.startswith("tiny-lyrics")]
    assert f"; {sentence}" in reason
    assert not any("other code" in queue.model.reason for name, queue in models.items() if name.startswith("tiny-de"))
