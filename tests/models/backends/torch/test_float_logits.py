"""Logits of bf16 networks on a GPU are float32 sums: rounded to bf16, they would tie."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from models.backends import select
from models.interface import Prompt
from tests.cuda_simulator import simulated_cuda
from tests.models import tiny


@pytest.mark.parametrize("options", [{}, {"tied": "output"}, {"tied": "output", "output_bias": True}, None], ids=str)
def test_logits_are_not_rounded_to_the_precision_of_the_weights(options: dict[str, Any] | None) -> None:
    def network() -> Any:
        return (tiny.recurrent() if options is None else tiny.transformer(**options)).bfloat16().float()

    prompt = Prompt((), (5, 6)) if options is None else Prompt((5, 6, 7), (2,))
    with simulated_cuda():
        stepped = select.decodable(network().to("cuda"), "bf16")
        state = stepped.allocate(4, 8, 8)
        stepped.prefill(state, range(4), [prompt] * 4)
        logits = stepped.step(state, torch.full((4,), 2, device="cuda")).cpu()
    reference = select.decodable(network(), "fp32")
    state = reference.allocate(4, 8, 8)
    reference.prefill(state, range(4), [prompt] * 4)
    expected = reference.step(state, torch.full((4,), 2))[:, : logits.size(1)]
    assert logits.dtype == torch.float32
    assert not torch.equal(logits, logits.bfloat16().float())
    # the layers before are in bf16
    assert torch.allclose(logits, expected, atol=0.05 * float(expected.abs().max()))
