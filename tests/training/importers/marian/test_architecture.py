"""What config.json leaves out is what transformers takes it for."""

from __future__ import annotations

from tests.training.importers.marian.folders import SHAPE
from training.importers.marian.weight_conversion import complete_config, transformer_config


def test_default_activation_equals_transformers() -> None:
    given = {**SHAPE, "model_type": "marian", "vocab_size": 50, "pad_token_id": 49}
    assert transformer_config(complete_config(given), "all").activation == "gelu"
