"""A tiny translator whose translations end: most of them soon, some at once."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from models import checkpoint as checkpoints
from models.networks.loading import load_network, save_weights


@pytest.fixture(scope="session")
def ending_model(tiny_checkpoints: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """de → en, with a larger logit of the end token than the random network has."""
    checkpoint = checkpoints.read(tiny_checkpoints / "tiny-de-en")
    network, staging = load_network(checkpoint), tmp_path_factory.mktemp("staging")
    assert checkpoint.config.eos is not None
    with torch.no_grad():
        network.output_weight[checkpoint.config.eos] *= -3
    save_weights(network, staging / checkpoints.WEIGHTS)
    folder = tmp_path_factory.mktemp("ending") / "ending-de-en"
    checkpoints.write(staging, folder, checkpoint.config, checkpoint.tokenizers)
    return folder
