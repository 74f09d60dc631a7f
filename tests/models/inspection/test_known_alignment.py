"""A network whose alignment is known beyond doubt: what is chosen finds it, and the shifted reading does not."""

from __future__ import annotations

import pytest

from models.inspection.alignment_error import alignment_error_rate, pairs
from models.inspection.choosing import choose
from tests.models.inspection.reversing import examples, trained


@pytest.mark.slow  # half a minute of training
@pytest.mark.parametrize("seed", [0, 1])
def test_a_reversed_sentence_is_aligned_by_what_was_chosen(seed: int) -> None:
    network = trained(900, seed)
    choice = choose(examples(network, 50, seed))
    best = choice.best
    held_out = examples(network, 50, seed + 100)
    found = [(pairs(best.links(e.maps, e.source_units, e.target_units)), e.gold) for e in held_out]
    assert alignment_error_rate(found) <= 0.10
    assert best.error <= 0.10
    (shifted,) = [c.error for c in choice.candidates if c.heads == best.heads and c.convention != best.convention]
    assert shifted >= 0.5, "rows that are named for the other token point one word off"
    assert best.convention == "predicting"
    assert choice.candidates[-1].error > 0.5
