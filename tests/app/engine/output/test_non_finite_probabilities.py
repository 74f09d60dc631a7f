"""A non-finite probability ends the text with an error, because JSON would write it as null."""

from __future__ import annotations

import math

import pytest

from app.errors import EngineFailed
from tests.app.engine.output.test_output_processor import IDS, writing

SAYS = "^a gives a token a probability that is no number, so its weights are broken; load a sound checkpoint of it\\.$"


@pytest.mark.parametrize("value", [math.nan, -math.inf, math.inf])
def test_non_finite_probabilities_are_not_reported(value: float) -> None:
    streamed, shown = writing(logprobs=True)
    assert not streamed.feed(IDS[:1], [-0.5])
    with pytest.raises(EngineFailed, match=SAYS):
        streamed.feed(IDS[1:3], [-0.5, value])
    assert len(shown) == 1
    at_once, shown = writing(logprobs=True)
    with pytest.raises(EngineFailed, match=SAYS):
        at_once.finish(IDS, [value] * len(IDS))
    assert shown == []
