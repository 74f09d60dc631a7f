"""Sources that end with padding, as those of the recipe `classic`: decoding does not attend to it, as training."""

from __future__ import annotations

import pytest
import torch

from models.backends.select import select
from models.interface import Precision, Prompt
from tests.models import tiny


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_padding_at_the_end_of_a_source_changes_no_step(precision: Precision) -> None:
    network = tiny.transformer()
    pad, sources = network.config.pad, [(5, 6, 7), (8, 9), (4,)]
    decodable = select(network, precision).decodable
    logits = []
    for padding in (0, 2):
        state = decodable.allocate(3, 5, 4)
        prompts = [Prompt((*source, *[pad] * padding), (1, 4)) for source in sources]
        decodable.prefill(state, [0, 1, 2], prompts)
        logits.append(decodable.step(state, torch.tensor([4, 4, 4])))
    assert torch.equal(*logits)
    if precision == "fp32":
        for row, source in zip(logits[1], sources, strict=True):
            with torch.inference_mode():
                full = network(torch.tensor([[*source, pad, pad]]), torch.tensor([[1, 4]]))
            torch.testing.assert_close(row, full[0, -1], atol=1e-5, rtol=1e-5)
