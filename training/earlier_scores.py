"""What the model says of itself that a resumed run is about to publish anew."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from models import checkpoint as checkpoints
from models import networks
from models.checkpoint import CheckpointConfig
from training.output import STAGING
from training.run import Run

Scores = dict[str, dict[str, Any]]


def with_earlier(scores: Scores, network: nn.Module, run: Run) -> Scores:
    """`scores`, and those that `run.out` has on other texts, which need not be given again: where the weights are still
    the same. Where they are not, a note says what is gone."""
    config = _config(run.out)
    others = [name for name in config.scores if name not in scores] if config else []
    if config is None or not others:
        return scores
    if _holds(run.out, config, network):
        return {**config.scores, **scores}
    run.workers.note(f"The scores of {', '.join(others)} were other weights': give --test again to have them.")
    return scores


def _config(out: Path) -> CheckpointConfig | None:
    """The published one, or where a kill came between the files of a model the one that was to come last."""
    for folder in (out, out / STAGING):
        with contextlib.suppress(checkpoints.CheckpointError):
            return checkpoints.read_config(folder)
    return None


def _holds(out: Path, config: CheckpointConfig, network: nn.Module) -> bool:
    """Whether the weights that `config` speaks of are these very ones."""
    for path in (out / checkpoints.WEIGHTS, out / STAGING / checkpoints.WEIGHTS):
        with contextlib.suppress(OSError, SafetensorError):
            if checkpoints.sha256(path) == config.files[checkpoints.WEIGHTS]:
                found, wanted = load_file(path), networks.unique_tensors(network)
                return found.keys() == wanted.keys() and all(torch.equal(found[name], wanted[name]) for name in wanted)
    return False
