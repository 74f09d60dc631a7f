"""The encoder-decoder network over whole sequences: what sees what, attention maps."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from torch import Tensor

from models.backends import select
from models.backends.torch.transformer_step import pad_rows
from models.interface import Prompt
from models.networks.loading import save_weights
from models.networks.transformer import MultiHeadAttention, Scope, Transformer, TransformerConfig
from tests.models import tiny

ALL = pytest.mark.parametrize("options", tiny.OPTIONS.values(), ids=tiny.OPTIONS.keys())
TOLERANCE = {"rtol": 0, "atol": 1e-5}


# Configuration ------------------------------------------------------------------------------------------


def test_defaults_equal_the_paper() -> None:
    config = TransformerConfig(source_vocabulary=10, target_vocabulary=10)
    assert (config.d_model, config.heads, config.head_width, config.d_ff) == (512, 8, 64, 2048)
    assert (config.encoder_layers, config.decoder_layers, config.norm, config.activation) == (6, 6, "post", "relu")
    assert (config.pad, config.tied, config.positions, config.scale_embedding) == (0, "none", "interleaved", True)


def test_config_error_lists_all_problems() -> None:
    with pytest.raises(ValueError) as excinfo:
        tiny.transformer_config(
            source_vocabulary=0,
            d_model=-1,
            heads=2.0,
            d_ff="24",
            decoder_layers=0,
            norm="sandwich",
            activation="tanh",
            positions="rotary",
            tied="all",
            residual_dropout=1.0,
            attention_dropout=-0.1,
        )
    assert str(excinfo.value) == (
        "source_vocabulary must be a whole number of at least 1, not 0; "
        "d_model must be a whole number of at least 1, not -1; "
        "decoder_layers must be a whole number of at least 1, not 0; "
        "heads must be a whole number of at least 1, not 2.0; "
        "d_ff must be a whole number of at least 1, not '24'; "
        "norm must be one of post, pre, not 'sandwich'; "
        "activation must be one of relu, gelu, silu, not 'tanh'; "
        "positions must be one of interleaved, marian, not 'rotary'; "
        "tied='all' needs one vocabulary for source and target; "
        "residual_dropout must lie in [0, 1), not 1.0; "
        "attention_dropout must lie in [0, 1), not -0.1."
    )


def test_unknown_tying_is_refused() -> None:
    with pytest.raises(ValueError, match="tied must be one of none, output, all, not 'some'"):
        tiny.transformer_config(tied="some")


# Tied tables --------------------------------------------------------------------------------------------


def stored(network: Transformer, path: Path) -> dict[str, tuple[int, ...]]:
    save_weights(network, path)
    with safe_open(path, framework="pt") as file:
        return {name: tuple(file.get_tensor(name).shape) for name in file.keys()}  # noqa: SIM118 (no mapping)


@pytest.mark.parametrize(("tied", "tables"), [("none", 3), ("output", 2), ("all", 1)])
def test_tied_tables_are_one_tensor_stored_once(tied: str, tables: int, tmp_path: Path) -> None:
    network = tiny.transformer(tied=tied, source_vocabulary=tiny.TARGET)
    names = stored(network, tmp_path / "weights")
    assert sum(shape == (tiny.TARGET, 16) for shape in names.values()) == tables
    assert (network.source_embedding.weight is network.target_embedding.weight) == (tied == "all")
    assert (network.output is None) == (tied != "none")
    features = torch.randn(2, 16)
    table = network.target_embedding.weight if network.output is None else network.output.weight
    assert torch.equal(network.project(features), features @ table.T)


@torch.no_grad()
def test_tied_tables_share_their_values() -> None:
    network = tiny.transformer(tied="all", source_vocabulary=tiny.TARGET).to(torch.float64)
    network.source_embedding.weight[5] = 3.0
    assert network.target_embedding.weight[5, 0] == 3.0
    assert network.project(torch.ones(1, 16, dtype=torch.float64))[0, 5] == 48.0


@torch.no_grad()
def test_output_bias() -> None:
    network = tiny.transformer(output_bias=True)
    source, target = tiny.ids((1, 4), 0), tiny.ids((1, 3), 1)
    assert network.output_bias is not None
    before = network(source, target)
    network.output_bias += torch.arange(tiny.TARGET)
    after = network(source, target)
    torch.testing.assert_close(after, before + torch.arange(tiny.TARGET), **TOLERANCE)


# Masks ----------------------------------------------------------------------------------------------------


@ALL
@torch.no_grad()
def test_the_future_does_not_leak(options: dict[str, Any]) -> None:
    network = tiny.transformer(**options)
    source, target = tiny.ids((2, 5), 3), tiny.ids((2, 7), 4)
    logits = network(source, target)
    for changed in range(7):
        other = target.clone()
        other[:, changed] = other[:, changed] % 15 + 1
        result = network(source, other)
        assert torch.equal(result[:, :changed], logits[:, :changed])
        assert not torch.equal(result[:, changed], logits[:, changed])


@ALL
@torch.no_grad()
def test_source_padding_does_not_leak(options: dict[str, Any]) -> None:
    network = tiny.transformer(**options)
    pad = network.config.pad
    source, target = tiny.ids((2, 4), 3), tiny.ids((2, 6), 4)
    padded = torch.cat([source, torch.full((2, 3), pad)], dim=1)
    expected = network(source, target)
    result = network(padded, target)
    torch.testing.assert_close(result, expected, rtol=0, atol=3e-6)
    if network.config.tied != "all":
        network.source_embedding.weight[pad] = 50.0  # padding is masked, whatever it holds
        assert torch.equal(network(padded, target), result)


@torch.no_grad()
def test_padding_inside_a_source_is_masked() -> None:
    network = tiny.transformer()
    source, target = torch.tensor([[3, 0, 4, 0]]), tiny.ids((1, 3), 1)
    before = network(source, target)
    network.source_embedding.weight[0] = 50.0
    assert torch.equal(network(source, target), before)


@torch.no_grad()
def test_source_of_padding_gives_finite_output() -> None:
    network = tiny.transformer()
    logits = network(torch.tensor([[0, 0], [3, 4]]), torch.tensor([[1, 2], [1, 2]]))
    assert logits.isfinite().all()
    torch.testing.assert_close(logits[1], network(torch.tensor([[3, 4]]), torch.tensor([[1, 2]]))[0], **TOLERANCE)
    maps = tiny.attention(network, torch.tensor([[0, 0]]), torch.tensor([[1, 2]]))
    assert all(layer.isfinite().all() for kind in maps.values() for layer in kind)
    assert all((layer == 0).all() for layer in maps["cross"] + maps["encoder"])


@ALL
@torch.no_grad()
def test_batch_equals_single_sentences(options: dict[str, Any]) -> None:
    network = tiny.transformer(**options)
    sources = [tuple(tiny.ids((n,), n).tolist()) for n in (1, 6, 3, 4)]
    targets = [tuple(tiny.ids((n,), n + 9).tolist()) for n in (5, 1, 4, 2)]
    pad, device = network.config.pad, network.device
    logits = network(pad_rows(sources, pad, device), pad_rows(targets, pad, device))
    for row, source, target in zip(logits, sources, targets, strict=True):
        expected = network(torch.tensor([source]), torch.tensor([target]))[0]
        torch.testing.assert_close(row[: len(target)], expected, **TOLERANCE)


# Attention maps -----------------------------------------------------------------------------------------


def by_hand(module: MultiHeadAttention, x: Tensor, y: Tensor, seen: Tensor) -> Tensor:
    """softmax(q·k·scale) [B, H, Q, K] of queries from x and keys from y, head by head, from the bare matrices."""
    heads, width, inner = module.heads, module.head_width, module.heads * module.head_width
    weight, bias = module.projection.weight, module.projection.bias
    bias = torch.zeros(3 * inner) if bias is None else bias
    maps = []
    for head in range(heads):
        own = slice(head * width, (head + 1) * width)
        other = slice(inner + head * width, inner + (head + 1) * width)
        query, key = x @ weight[own].T + bias[own], y @ weight[other].T + bias[other]
        scores = torch.einsum("bqd,bkd->bqk", query, key) * module.scale
        exponent = torch.exp(scores - scores.amax(dim=-1, keepdim=True)) * seen
        maps.append(exponent / exponent.sum(dim=-1, keepdim=True))
    return torch.stack(maps, dim=1)


@pytest.mark.parametrize("name", ["post", "pre", "narrow heads", "no attention bias", "unequal depths"])
@torch.inference_mode()
def test_attention_equals_manual_computation(name: str) -> None:
    network = tiny.transformer(**tiny.OPTIONS[name])
    pre = network.config.norm == "pre"
    source, target = torch.tensor([[3, 4, 5, 0, 0], [6, 7, 8, 9, 2]]), tiny.ids((2, 4), 8)
    maps = tiny.attention(network, source, target)
    readable = (source != 0)[:, None, :]
    x = network.embed(network.source_embedding, source, network.first_positions(5))
    for layer, result in zip(network.encoder, maps["encoder"], strict=True):
        y = layer.around_attention.norm(x) if pre else x
        torch.testing.assert_close(result, by_hand(layer.attention, y, y, readable), **TOLERANCE)
        x = layer(x, Scope(torch.arange(5), readable[:, None]))
    memory, x = network.encoder_norm(x), network.embed(network.target_embedding, target, torch.arange(4))
    causal = torch.ones(4, 4, dtype=torch.bool).tril()
    for layer, own, cross in zip(network.decoder, maps["decoder"], maps["cross"], strict=True):
        y = layer.around_attention.norm(x) if pre else x
        torch.testing.assert_close(own, by_hand(layer.attention, y, y, causal), **TOLERANCE)
        assert (own.masked_select(~causal) == 0).all()
        scope = Scope(torch.arange(4), causal)
        attended = layer.attention(y, scope)
        y = x + attended if pre else layer.around_attention.norm(x + attended)
        y = layer.around_cross.norm(y) if pre else y
        torch.testing.assert_close(cross, by_hand(layer.cross_attention, y, memory, readable), **TOLERANCE)
        assert (cross[0, :, :, 3:] == 0).all()
        given = layer.cross_attention.key_value(memory)
        x = layer(x, scope, given, Scope(scope.positions, readable[:, None]))


def test_captures_of_two_threads_do_not_mix() -> None:
    network = tiny.transformer()
    requests = [(tiny.ids((1, n), n), tiny.ids((1, n + 2), n)) for n in (3, 5)]
    expected = [tiny.attention(network, *request) for request in requests]
    barrier, wrong = threading.Barrier(2), list[str]()

    def ask(which: int) -> None:
        for _ in range(40):
            barrier.wait(timeout=20)
            results = tiny.attention(network, *requests[which])
            for kind in results:
                if len(results[kind]) != 2 or not all(map(torch.equal, results[kind], expected[which][kind])):
                    wrong.append(kind)

    threads = [threading.Thread(target=ask, args=(which,)) for which in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert wrong == []


def test_decoding_leaves_nothing_on_the_network() -> None:
    network = tiny.transformer()
    names = {name: set(vars(module)) for name, module in network.named_modules()}
    decodable = select.decodable(network)
    state = decodable.allocate(2, 4, 8)
    decodable.prefill(state, [0], [Prompt((3, 4), (1, 5))])
    decodable.step(state, torch.tensor([5]))
    tiny.attention(network, tiny.ids((1, 3), 0), tiny.ids((1, 2), 0))
    assert {name: set(vars(module)) for name, module in network.named_modules()} == names
    assert {name for name, _ in network.named_buffers()} == {"position_table"}
