"""Number formats: everything is cast, and decoding still says the same."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from models.decoding import DecodingOptions, TokenRules, decode
from models.interface import Prompt
from models.precision import DTYPES, cast
from tests.models import tiny

PROMPTS = [Prompt((3, 4, 5), (1, 6)), Prompt((7,), (1,))]
LYRICS = [Prompt((), (3, 4, 5)), Prompt((), (6,))]
NETWORKS: dict[str, Any] = {
    "post": lambda: (tiny.transformer(), PROMPTS),
    "pre": lambda: (tiny.transformer(norm="pre"), PROMPTS),
    **{cell: (lambda cell=cell: (tiny.recurrent(cell=cell), LYRICS)) for cell in ("rnn", "gru", "lstm")},
    "one-hot": lambda: (tiny.recurrent(embedding=0), LYRICS),
}


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize("name", NETWORKS)
def test_narrow_networks_decode_as_before(name: str, precision: Any) -> None:
    network, prompts = NETWORKS[name]()
    options = DecodingOptions(max_new_tokens=6, beam=2)
    rules = TokenRules(2, (0,))
    before = decode(network, rules, prompts, options)
    state = network.allocate(2, 3, 8)  # a table of positions that is there is cast along
    assert cast(network, precision) is network
    dtype = DTYPES[precision]
    floating = [*network.parameters(), *network.buffers()]
    assert all(tensor.dtype == dtype for tensor in floating)
    state = network.allocate(2, 3, 8)
    network.prefill(state, [0, 1], prompts)
    logits = network.step(state, torch.tensor([p.prefix[-1] for p in prompts]))
    assert logits.dtype == dtype
    wide, _ = NETWORKS[name]()
    state = wide.allocate(2, 3, 8)
    wide.prefill(state, [0, 1], prompts)
    expected = wide.step(state, torch.tensor([p.prefix[-1] for p in prompts]))
    torch.testing.assert_close(logits.float(), expected, rtol=0, atol=0.12 if precision == "bf16" else 0.015)
    after = decode(network, rules, prompts, options)
    for old, new in zip(before, after, strict=True):
        assert new[0].log_probability == pytest.approx(old[0].log_probability, abs=0.5)
        assert isinstance(new[0].log_probability, float)


def test_an_unknown_precision() -> None:
    with pytest.raises(ValueError, match="precision must be one of fp32, bf16, fp16, not 'int3'"):
        cast(tiny.recurrent(), "int3")  # type: ignore[arg-type]


def test_fp32_is_as_it_was() -> None:
    network = tiny.transformer()
    before = network.source_embedding.weight.clone()
    assert torch.equal(cast(network, "fp32").source_embedding.weight, before)  # type: ignore[union-attr]
