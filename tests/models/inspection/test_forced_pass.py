"""One teacher-forced pass: its maps, its logits, heads taken away, and a worked row."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from msgspec.structs import replace

from models.inspection.ablation import without_heads
from models.inspection.forced_pass import ForcedPass, forced_pass
from models.inspection.selection import KINDS, Head, Row, SelectionError
from models.networks.transformer import Capture
from tests.models import tiny

ALL = pytest.mark.parametrize("options", tiny.OPTIONS.values(), ids=tiny.OPTIONS.keys())
INPUTS = [1, 7, 8, 4, 3]
HEADS = [Head("encoder", 0, 1), Head("decoder", 0, -1), Head("cross", -1, 0), Head("cross", -1, 1)]


def padded(network: Any) -> list[int]:
    """A source with padding inside and behind."""
    pad = network.config.pad
    return [3, pad, 4, 5, pad]


@ALL
def test_rows_sum_to_1_and_hidden_keys_have_exactly_0(options: dict[str, Any]) -> None:
    network = tiny.transformer(**options)
    result = forced_pass(network, padded(network), INPUTS)
    assert result.readable.tolist() == [True, False, True, True, False]
    for kind in KINDS:
        valid = result.valid(kind)
        assert len(result.maps[kind]) == (
            network.config.encoder_layers if kind == "encoder" else network.config.decoder_layers
        )
        for weights in result.maps[kind]:
            assert weights.dtype == torch.float32
            assert weights.shape == (network.config.heads, 5, 5)
            assert (weights.sum(dim=-1) - 1).abs().max() <= 1e-6
            assert (weights[:, ~valid] == 0).all()
            assert (weights[:, valid] > 0).all()


@ALL
def test_logits_equal_the_fused_network(options: dict[str, Any]) -> None:
    network = tiny.transformer(**options)
    source = padded(network)
    with torch.inference_mode():
        fused = network(torch.tensor([source]), torch.tensor([INPUTS]))[0]
    torch.testing.assert_close(forced_pass(network, source, INPUTS).logits, fused, rtol=0, atol=4e-6)


def test_maps_equal_the_network() -> None:
    network = tiny.transformer(encoder_layers=3)
    source = padded(network)
    expected = tiny.attention(network, torch.tensor([source]), torch.tensor([INPUTS]))
    for kind, maps in forced_pass(network, source, INPUTS).maps.items():
        for ours, theirs in zip(maps, expected[kind], strict=True):
            assert torch.equal(ours, theirs[0])


def same(a: ForcedPass, b: ForcedPass) -> bool:
    layers = all(torch.equal(x, y) for kind in KINDS for x, y in zip(a.maps[kind], b.maps[kind], strict=True))
    return torch.equal(a.logits, b.logits) and layers


@pytest.mark.parametrize("name", ["post", "pre", "marian"])
def test_results_do_not_depend_on_other_options(name: str) -> None:
    network = tiny.transformer(**tiny.OPTIONS[name])
    whole = forced_pass(network, [3, 4, 5], INPUTS)
    assert same(whole, forced_pass(network, [3, 4, 5], INPUTS, masked=[]))
    assert same(whole, forced_pass(network, [3, 4, 5], INPUTS, row=Row("cross", 0, 0, 0)))
    alone = forced_pass(network, [3, 4, 5], INPUTS, ["cross"])
    assert list(alone.maps) == ["cross"]
    assert torch.equal(alone.logits, whole.logits)
    assert all(map(torch.equal, alone.maps["cross"], whole.maps["cross"]))


@ALL
def test_ablated_head_equals_zeroed_columns(options: dict[str, Any]) -> None:
    """Two ways that share nothing but the formula."""
    network = tiny.transformer(**options)
    source = padded(network)
    whole, masked = (forced_pass(network, source, INPUTS, masked=heads) for heads in ([], HEADS))
    zeroed = forced_pass(without_heads(network, HEADS), source, INPUTS)
    torch.testing.assert_close(masked.logits, zeroed.logits, rtol=0, atol=4e-6)
    for kind in KINDS:
        for ours, theirs in zip(masked.maps[kind], zeroed.maps[kind], strict=True):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=4e-6)
    assert (whole.logits - masked.logits).abs().max() > 0.01
    assert torch.equal(whole.maps["encoder"][0], masked.maps["encoder"][0]), "the weights before it are as they were"


def test_heads_differ() -> None:
    network = tiny.transformer()
    logits = [
        forced_pass(network, [3, 4, 5], INPUTS, masked=[Head(kind, layer, head)]).logits
        for kind in KINDS
        for layer in range(2)
        for head in range(4)
    ]
    assert min((a - b).abs().max() for i, a in enumerate(logits) for b in logits[:i]) > 1e-4


def test_ablating_all_heads_leaves_the_bias() -> None:
    network = tiny.transformer()
    heads = [Head("cross", layer, head) for layer in range(2) for head in range(4)]
    first, second = (forced_pass(network, source, INPUTS, masked=heads).logits for source in ([3, 4, 5], [9, 8]))
    assert torch.equal(first, second), "without cross-attention no source is read"


@pytest.mark.parametrize("row", [Row("encoder", 0, 1, 2), Row("decoder", -1, 3, 1), Row("cross", 1, -4, -1)])
@pytest.mark.parametrize("name", ["post", "pre", "narrow heads"])
def test_a_worked_row(name: str, row: Row) -> None:
    network = tiny.transformer(**tiny.OPTIONS[name])
    if name == "narrow heads":
        row = replace(row, head=-1)
    source = padded(network)
    result = forced_pass(network, source, INPUTS, row=row)
    worked = result.worked
    assert worked is not None
    weights = result.maps[row.kind][row.layer][row.head, row.row]
    place = row.layer % 2, row.head % network.config.heads, row.row % 5
    assert (worked.kind, worked.layer, worked.head, worked.row) == (row.kind, *place)
    assert worked.softmax == weights.tolist()
    assert worked.mask == result.valid(row.kind)[row.row].tolist()
    traced = {kind: Capture(traced=place[0]) for kind in KINDS}
    with torch.inference_mode():
        memory, readable = network.encode(torch.tensor([source]), traced["encoder"])
        network.decode(torch.tensor([INPUTS]), memory, readable, (traced["decoder"], traced["cross"]))
    trace = traced[row.kind].trace
    assert trace is not None
    query, keys = trace.query[0, row.head, row.row], trace.key[0, row.head]
    assert worked.scale == (0.3 if name == "narrow heads" else 0.5)
    scores = [worked.scale * sum(a * b for a, b in zip(query.tolist(), key, strict=True)) for key in keys.tolist()]
    assert worked.scores == pytest.approx(scores, abs=1e-6)
    powers = [math.exp(s) if r else 0.0 for s, r in zip(scores, worked.mask, strict=True)]
    assert weights.tolist() == pytest.approx([p / sum(powers) for p in powers], abs=1e-6)


@pytest.mark.parametrize(
    ("given", "message", "field"),
    [
        ({"kinds": ["self"]}, "no attention kind 'self'; the kinds are encoder, decoder, cross", "kinds"),
        ({"masked": [Head("cross", 3, 0)]}, r"no cross layer 3: this model has 3 \(cross layers 0 to 2\)", "masked"),
        ({"masked": [Head("encoder", -2, 0)]}, r"no encoder layer -2: this model has 1", "masked"),
        ({"masked": [Head("decoder", 0, 4)]}, r"no head 4: this model has 4 \(heads 0 to 3\)", "masked"),
        ({"masked": [Head("self", 0, 0)]}, "no attention kind 'self'", "masked"),
        ({"row": Row("cross", 0, 0, 5)}, r"no row 5: this cross map has 5 \(rows 0 to 4\)", "row"),
        ({"row": Row("encoder", 0, 0, -4)}, r"no row -4: this encoder map has 3 \(rows 0 to 2\)", "row"),
        ({"row": Row("encoder", 0, 7, 0)}, "no head 7", "row"),
    ],
)
def test_missing_layers_and_heads_are_refused(given: dict[str, Any], message: str, field: str) -> None:
    network = tiny.transformer(**tiny.OPTIONS["unequal depths"])
    with pytest.raises(SelectionError, match=message) as excinfo:
        forced_pass(network, [3, 4, 5], INPUTS, **given)
    assert excinfo.value.field == field


def test_network_in_training_or_in_bf16_is_refused() -> None:
    with pytest.raises(AssertionError, match="evaluation mode"):
        forced_pass(tiny.transformer().train(), [3], INPUTS)
    with pytest.raises(AssertionError, match="fp32"):
        forced_pass(tiny.transformer().bfloat16(), [3], INPUTS)


def test_the_edges() -> None:
    network = tiny.transformer()
    with pytest.raises(ValueError, match="The decoder needs a token to start from"):
        forced_pass(network, [3], [])
    empty = forced_pass(network, [], INPUTS)
    assert [tuple(m.shape) for m in (empty.maps["encoder"][0], empty.maps["cross"][0])] == [(4, 0, 0), (4, 5, 0)]
    assert empty.logits.isfinite().all()
    assert forced_pass(network, [3], [1]).maps["cross"][1].tolist() == [[[1.0]]] * 4


def test_concurrent_passes_with_different_heads_do_not_mix() -> None:
    network = tiny.transformer()
    before = {name: set(vars(module)) for name, module in network.named_modules()}
    asked = [
        (
            [6, 3, 4, 5][: 2 + n % 3],
            INPUTS[: 2 + n % 4],
            [Head(KINDS[n % 3], n % 2, n % 4)][: n % 8],
            Row("cross", n % 2, n % 4, 0),
        )
        for n in range(8)
    ]

    def ask(n: int) -> list[ForcedPass]:
        source, inputs, masked, row = asked[n]
        return [forced_pass(network, source, inputs, masked=masked, row=row) for _ in range(12)]

    expected = [ask(n)[0] for n in range(8)]
    with ThreadPoolExecutor(8) as pool:
        for each, right in zip(pool.map(ask, range(8)), expected, strict=True):
            for result in each:
                assert same(result, right)
                assert result.worked == right.worked is not None
    assert {name: set(vars(module)) for name, module in network.named_modules()} == before
