"""What a run publishes at its end, and a kill in the middle of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from models import checkpoint as checkpoints
from models.networks.loading import load_network
from tests.training.runs import Killed, assert_same_run, sing, timeless, translate
from tests.training.small import pairs
from training.errors import TrainingError

pytestmark = pytest.mark.usefixtures("no_curves")


@pytest.mark.slow  # two whole runs
def test_kill_while_publishing_is_repaired_by_a_resume(tmp_path: Path, whole: Callable[..., Path]) -> None:
    replace_file, moved = Path.replace, []

    def dying(self: Path, target: Path) -> Path:
        if target.parent != tmp_path:  # a snapshot
            return replace_file(self, target)
        if len(moved) == 2:
            raise Killed
        moved.append(target)
        return replace_file(self, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "replace", dying)
        with pytest.raises(Killed):
            translate(tmp_path)
    assert len(moved) == 2
    assert not checkpoints.is_checkpoint(tmp_path)
    (tmp_path / ".staging").mkdir(exist_ok=True)  # as `kill -9` would leave it
    (tmp_path / ".staging" / "model.safetensors").write_bytes(b"half")
    with pytest.raises(TrainingError, match="holds an unfinished run; go on with --resume"):
        translate(tmp_path)
    translate(tmp_path, resume=True)
    assert_same_run(tmp_path, whole(translate))
    assert not (tmp_path / ".staging").exists()
    assert json.loads((tmp_path / "config.json").read_text())["files"].keys() == {
        "model.safetensors",
        "source.json",
        "target.json",
    }


def test_published_weights_have_the_best_validation_loss(whole: Callable[..., Path]) -> None:
    """Averaged weights, pair by pair, through a file and back."""
    folder = whole(translate)
    checkpoint = checkpoints.read(folder)
    network, valid = load_network(checkpoint), pairs(10, seed=1)
    nats, tokens = 0.0, 0
    for source, target in zip(valid.sources, valid.targets, strict=True):
        ids = [*checkpoint.target_ids(target), 3]
        with torch.inference_mode():
            logits = network(torch.tensor([checkpoint.source_ids(source)]), torch.tensor([ids[:-1]]))[0]
        log_p = torch.log_softmax(logits.double(), -1)
        nats -= sum(float(log_p[t, following]) for t, following in enumerate(ids[1:]))
        tokens += len(ids) - 1
    losses = [row["valid_loss"] for row in timeless(folder) if "valid_loss" in row]
    assert nats / tokens == pytest.approx(min(losses), rel=1e-5)
    song = checkpoints.read(whole(sing)).config.scores["held-out end of the text"]
    losses = [row["valid_loss"] for row in timeless(whole(sing)) if "valid_loss" in row]
    assert song["nats_per_character"] == pytest.approx(min(losses), abs=6e-5)
