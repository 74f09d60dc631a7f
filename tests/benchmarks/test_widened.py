"""A network made wider says what it said."""

from __future__ import annotations

import pytest
import torch

from benchmarks import widened
from models.networks import loading, transformer
from models.networks.transformer import TransformerConfig, sinusoids


def small(**changed: object) -> TransformerConfig:
    fields = {"source_vocabulary": 50, "target_vocabulary": 50, "d_model": 16, "heads": 2, "head_width": 8}
    return TransformerConfig(
        **(fields | {"d_ff": 32, "encoder_layers": 2, "decoder_layers": 2} | {"norm": "pre", "tied": "all"} | changed)
    )


def built(config: TransformerConfig, tensors: dict[str, torch.Tensor] | None = None):
    torch.manual_seed(3)
    network = loading.build(loading.architecture("transformer", config)).eval()
    if tensors is not None:
        loading.load_weights(network, tensors)
    else:
        for parameter in network.parameters():  # biases and norms away from 0 and 1 show which was forgotten
            parameter.data.add_(0.3 * torch.randn_like(parameter))
    return network


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(widened, "WIDTH", 64)
    monkeypatch.setattr(widened, "LAYERS", 3)
    monkeypatch.setattr(widened, "HEADS", 4)
    monkeypatch.setattr(widened, "INNER", 128)


def test_says_the_same_where_positions_are_the_same(sizes: None, monkeypatch: pytest.MonkeyPatch) -> None:
    old = built(small())
    tensors, config = widened.widened(loading.unique_tensors(old), old.config)
    assert (config.d_model, config.encoder_layers, config.heads, config.head_width, config.d_ff) == (64, 3, 4, 16, 128)
    by = widened.Wider(old.config, config)

    def repeated(length: int, width: int, layout: str) -> torch.Tensor:
        return sinusoids(length, 16, "interleaved")[:, by.stream()]

    new = built(config, tensors)
    source, target = torch.randint(4, 50, (3, 7)), torch.randint(4, 50, (3, 5))
    with torch.no_grad():
        before = old(source, target)
        monkeypatch.setattr(transformer, "sinusoids", repeated)
        after = new(source, target)
    torch.testing.assert_close(after, before, rtol=1e-4, atol=1e-4)


def test_the_first_copy_of_a_number_has_its_own_frequency() -> None:
    by = widened.Wider(small(d_model=128), small(d_model=512))
    kept = by.first().bool()
    torch.testing.assert_close(sinusoids(40, 512, "interleaved")[:, kept], sinusoids(40, 128, "interleaved"))
    assert by.stream()[kept].tolist() == list(range(128))


OTHER: list[dict[str, object]] = [
    {"d_model": 24, "heads": 3},
    {"encoder_layers": 4},
    {"tied": "none"},
    {"positions": "marian"},
    {"norm": "post"},
    {"scale_embedding": False},
    {"attention_scale": 0.5},
    {"output_bias": True},
]


@pytest.mark.parametrize("changed", OTHER)
def test_refuses_what_does_not_go_in_evenly(sizes: None, changed: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="smaller network"):
        widened.wider_config(small(**changed))
