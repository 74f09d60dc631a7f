"""Weights that were trained with one code of their network and are run with another."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from models import checkpoint as checkpoints
from models.checkpoint import CheckpointError
from models.networks import cells, loading, transformer
from models.networks.cells import CELLS, Step
from models.networks.transformer import FeedForward
from tests.models import tiny
from tests.models.networks.test_loading import publish


def written(tmp_path: Path, network: Any) -> Path:
    name = "recurrent" if hasattr(network, "recurrent") else "transformer"
    (tmp_path / "staging").mkdir()
    loading.save_weights(network, tmp_path / "staging" / checkpoints.WEIGHTS)
    architecture = loading.architecture(name, network.config)
    return publish(tmp_path, architecture, edited_code=loading.edited_code(network))


def warnings_at_load(folder: Path, caplog: pytest.LogCaptureFixture) -> list[str]:
    caplog.clear()
    with caplog.at_level(logging.WARNING, "models.networks.loading"):
        loading.load_network(checkpoints.read(folder))
    return [record.getMessage() for record in caplog.records]


def edit_feed_forward(patched: pytest.MonkeyPatch) -> None:
    def forward(self: FeedForward, x: Tensor) -> Tensor:
        return self.narrow(self.activation(self.widen(x)).square())

    patched.setattr(FeedForward, "forward", forward)


def edit_helper(patched: pytest.MonkeyPatch) -> None:
    def norm(config: Any) -> torch.nn.Module:
        return torch.nn.LayerNorm(config.d_model, eps=1.0)

    norm.__module__ = transformer.__name__
    patched.setattr(transformer, "norm", norm)


def edit_cell(patched: pytest.MonkeyPatch) -> None:
    def gru(projected: Tensor, recurrent: Tensor, hidden: Tensor, memory: Tensor) -> Step:
        step = cells.gru(projected, recurrent, hidden, memory)
        return step._replace(hidden=step.hidden / 2)

    patched.setitem(CELLS, "gru", replace(CELLS["gru"], step=gru))


EDITS = {
    "FeedForward.forward": (tiny.transformer, edit_feed_forward),
    "norm": (tiny.transformer, edit_helper),
    "cell gru": (tiny.recurrent, edit_cell),
}


@pytest.mark.parametrize("name", EDITS)
def test_weights_of_edited_code_are_noticed_without_the_edit(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make, edit = EDITS[name]
    with pytest.MonkeyPatch.context() as patched:
        edit(patched)
        folder = written(tmp_path, make())
        assert warnings_at_load(folder, caplog) == []
    [sentence] = warnings_at_load(folder, caplog)
    assert name in sentence
    assert sentence.startswith("The weights of model were trained with other code than runs here (")


@pytest.mark.parametrize("name", EDITS)
def test_weights_of_the_code_as_it_is_are_noticed_under_an_edit(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, edit = EDITS[name]
    folder = written(tmp_path, make())
    assert "edited_code" not in (folder / checkpoints.CONFIG).read_text()  # which earlier versions would refuse
    assert warnings_at_load(folder, caplog) == []
    edit(monkeypatch)
    [sentence] = warnings_at_load(folder, caplog)
    assert name in sentence


def test_two_edits_of_one_method_are_told_apart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit_feed_forward(monkeypatch)
    folder = written(tmp_path, tiny.transformer())
    monkeypatch.setattr(FeedForward, "forward", lambda self, x: self.narrow(self.widen(x)))
    assert len(warnings_at_load(folder, caplog)) == 1


@pytest.mark.parametrize(
    "edited", ["FeedForward.forward", {"FeedForward.forward": 3}, {"\x1b[2J": "00"}, {"a" * 201: "00"}]
)
def test_broken_record_is_refused(edited: Any, tmp_path: Path) -> None:
    folder = written(tmp_path, tiny.transformer())
    (folder / checkpoints.CONFIG_CHECKSUM).unlink()
    content = json.loads((folder / checkpoints.CONFIG).read_text()) | {"edited_code": edited}
    (folder / checkpoints.CONFIG).write_text(json.dumps(content))
    with pytest.raises(CheckpointError, match=r"edited.code"):
        checkpoints.read_config(folder)
