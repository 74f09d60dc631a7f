"""The segmentation cache across epochs changes no segmentation, full or not."""

from __future__ import annotations

import pytest

from models.tokenizer import sentencepiece_tokenizer
from tests.models.tokenizer.test_subword_sampling import TEXTS, trained


@pytest.mark.parametrize("room", [0, 3, 40, sentencepiece_tokenizer.MAX_CACHED])
@pytest.mark.parametrize("algorithm", ["bpe", "unigram"])
def test_sampling_does_not_depend_on_earlier_calls(algorithm: str, room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = [trained(algorithm).sample(TEXTS, 0.3, seed, algorithm) for seed in range(3)]
    assert fresh[0] != fresh[1]
    monkeypatch.setattr(sentencepiece_tokenizer, "MAX_CACHED", room)
    made = trained(algorithm)
    for share in (0.3, 0.1, 0.3):
        result = [made.sample(TEXTS, share, seed, algorithm) for seed in range(3)]
        assert (result == fresh) == (share == 0.3)
