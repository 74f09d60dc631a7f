"""The plain loop drops what recipe `tiny` drops, and no more: what it did besides would be raced against us."""

from __future__ import annotations

import torch

from benchmarks.peers.plain_training import PlainTransformer
from training.config import recipes


def test_dropout_is_where_the_recipe_has_it() -> None:
    rates = {
        name: rate for name, rate in recipes.TRANSLATORS["tiny"].config.network.items() if name.endswith("dropout")
    }
    assert rates.keys() == {"embedding_dropout", "residual_dropout"}
    made = PlainTransformer(50, 16, 2, (2, 2), 32, 0.2).train()
    attended = [part for part in made.network.modules() if isinstance(part, torch.nn.MultiheadAttention)]
    assert [part.dropout for part in attended] == [0.0] * 6
    active = [part for part in made.modules() if isinstance(part, torch.nn.Dropout) and part.p > 0]
    assert len(active) == 1 + 2 * 2 + 2 * 3  # embeddings; two sums of each encoder layer, three of each decoder layer
