"""Several sentences in one pass are what each is by itself."""

from __future__ import annotations

import pytest
import torch

from models.decoding.options import TokenRules
from models.inspection.forced_pass import ForcedSentence, forced_batch, forced_pass
from models.inspection.word_alignment import mean_of_heads
from models.scoring import score
from tests.combinations import slow_but
from tests.models import tiny

ALL = pytest.mark.parametrize("options", tiny.OPTIONS.values(), ids=tiny.OPTIONS.keys())
HEADS = [[(0, 1)], [(1, 0), (1, 1)], [(0, 0), (1, 1)], [(1, 1), (0, 0), (0, 1)]]
RULES = TokenRules(2, (0, 1))
SENTENCES = [
    ForcedSentence([3, 4, 5, 6, 7, 8], [1, 7, 8, 4, 3], 1),
    ForcedSentence([6], [1, 2], 1),
    ForcedSentence([3, 4, 5], [1, 4, 4, 5, 6, 7, 8, 5, 2], 2),
]


@pytest.mark.parametrize("name", slow_but(tiny.OPTIONS, *tiny.QUICK))
def test_batched_maps_and_probabilities_equal_single_requests(name: str) -> None:
    network = tiny.transformer(**{"decoder_layers": 2, **tiny.OPTIONS[name]})
    depth = network.config.decoder_layers
    for chosen in HEADS:
        heads = [(layer % depth, head % network.config.heads) for layer, head in chosen]
        for rules in (RULES, None):
            result = forced_batch(network, SENTENCES, heads, rules)
            for sentence, weights in zip(SENTENCES, result.maps, strict=True):
                alone = forced_pass(network, sentence.source, sentence.target[:-1])
                torch.testing.assert_close(weights, mean_of_heads(alone.maps["cross"], heads), rtol=0, atol=1e-6)
            assert len(result.nats) == (3 if rules else 0)
            for sentence, nats in zip(SENTENCES, result.nats, strict=bool(rules)):
                expected = score(network, sentence.source, sentence.target, RULES).log_probabilities
                assert nats.tolist() == pytest.approx(expected[sentence.given - 1 :].tolist(), abs=1e-5)


def test_probabilities_alone_need_no_heads() -> None:
    network = tiny.transformer()
    assert forced_batch(network, SENTENCES, [], RULES).maps == []
    with_maps = forced_batch(network, SENTENCES, [(0, 0)], RULES).nats
    for ours, theirs in zip(forced_batch(network, SENTENCES, [], RULES).nats, with_maps, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)


def test_layers_above_the_heads_are_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    network = tiny.transformer(decoder_layers=3)
    for layer in network.decoder[1:]:
        monkeypatch.setattr(layer, "forward", lambda *given: pytest.fail("a layer that nobody needs"))
    assert len(forced_batch(network, SENTENCES, [(0, 0)], None).maps) == 3
