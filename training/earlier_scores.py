"""What the model says of itself that a resumed run is about to publish anew."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from models import checkpoint as checkpoints
from models import networks
from training.run import Run

Scores = dict[str, dict[str, Any]]


def with_earlier(scores: Scores, network: nn.Module, run: Run) -> Scores:
    """`scores`, and those that `run.out` has on other texts, which need not be given again: where the weights are still
    the same. Where they are not, a note says what is gone."""
    earlier = _scores(run.out)
    others = [name for name in earlier if name not in scores]
    if not others:
        return scores
    if _holds(run.out, network):
        return {**earlier, **scores}
    run.workers.note(f"The scores of {', '.join(others)} were other weights': give --test again to have them.")
    return scores


def _scores(folder: Path) -> Mapping[str, dict[str, Any]]:
    try:
        return checkpoints.read_config(folder).scores
    except checkpoints.CheckpointError:
        return {}  # none was published, or a kill came between its files


def _holds(folder: Path, network: nn.Module) -> bool:
    """Whether these very weights lie there."""
    try:
        found = load_file(folder / checkpoints.WEIGHTS)
    except (OSError, SafetensorError):
        return False
    wanted = networks.unique_tensors(network)
    return found.keys() == wanted.keys() and all(torch.equal(found[name], wanted[name]) for name in wanted)
