"""Translators side by side in one network: four copies of one say what it says."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from benchmarks import side_by_side
from models.networks import loading, transformer
from models.networks.transformer import Transformer, TransformerConfig, sinusoids


@pytest.fixture(autouse=True)
def _sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("VOCABULARY", 90), ("LAYERS", 3), ("INNER", 256)):
        monkeypatch.setattr(side_by_side, name, value)


def built(config: TransformerConfig, seed: int = 0) -> Transformer:
    torch.manual_seed(seed)
    network = loading.build(loading.architecture("transformer", config)).eval()
    for parameter in network.parameters():  # biases and norms away from 0 and 1 show which was forgotten
        parameter.data.add_(0.3 * torch.randn_like(parameter))
    assert isinstance(network, Transformer)
    return network


def small(**changed: Any) -> TransformerConfig:
    fields: dict[str, Any] = {
        "source_vocabulary": 50,
        "target_vocabulary": 50,
        "d_model": 16,
        "heads": 2,
        "head_width": 8,
    }
    fields |= {"d_ff": 32, "encoder_layers": 2, "decoder_layers": 2, "norm": "pre", "tied": "all"}
    return TransformerConfig(**(fields | changed))


def test_four_copies_of_a_model_have_its_logits(monkeypatch: pytest.MonkeyPatch) -> None:
    old = built(small())
    tensors, config = side_by_side.joined([loading.unique_tensors(old)] * 4, old.config)
    assert (config.d_model, config.heads, config.d_ff, config.target_vocabulary) == (64, 8, 256, 90)

    def repeated(length: int, width: int, layout: str) -> torch.Tensor:
        table = torch.empty(length, width)
        for block in range(4):
            table[:, side_by_side.positions_of(block, 16)] = sinusoids(length, 16, "interleaved")
        return table

    new = built(config, 1)
    loading.load_weights(new, tensors)
    source, target = torch.randint(4, 50, (3, 7)), torch.randint(4, 50, (3, 5))
    with torch.no_grad():
        expected = old(source, target)
        monkeypatch.setattr(transformer, "sinusoids", repeated)
        torch.testing.assert_close(new(source, target)[..., :50], expected, rtol=1e-4, atol=1e-4)


def test_entries_beyond_the_vocabulary_are_distributed_as_the_rarer_ones() -> None:
    generator = torch.Generator().manual_seed(0)
    rare = torch.randn(200, 4, generator=generator) @ torch.randn(4, 4, generator=generator) + 3
    table = torch.cat([torch.randn(200, 4, generator=generator), rare])
    drawn = side_by_side.with_drawn_rows(table, 20_400)
    assert torch.equal(drawn[:400], table)
    torch.testing.assert_close(drawn[400:].mean(dim=0), rare.mean(dim=0), rtol=0, atol=0.1)
    torch.testing.assert_close(torch.cov(drawn[400:].T), torch.cov(rare.T), rtol=0.1, atol=0.2)


def test_another_kind_of_network_is_refused() -> None:
    for changed in ({"norm": "post"}, {"tied": "output"}, {"d_ff": 48}):
        with pytest.raises(ValueError, match="recipe `tiny`"):
            side_by_side.side_by_side_config(small(**changed))
