"""What config.json leaves out is what transformers takes it for."""

from __future__ import annotations

from tests.training.marian.folders import SHAPE
from training.marian.architecture import transformer_config, whole


def test_a_config_that_names_no_activation_has_that_of_transformers() -> None:
    given = {**SHAPE, "model_type": "marian", "vocab_size": 50, "pad_token_id": 49}
    assert transformer_config(whole(given), "all").activation == "gelu"
