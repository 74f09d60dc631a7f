"""How probable a given text is: against the decoder, enumeration by hand, and what `training evaluate` says."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from models import checkpoint as checkpoints
from models.decoding.decoder import decode
from models.decoding.options import DecodingOptions, TokenRules
from models.interface import Prompt
from models.networks.loading import load_network
from models.scoring import WINDOW, expected, score
from tests import tiny as folders
from tests.models import tiny
from training.data.sentence_pairs import Pairs
from training.evaluation.scores import reference_nats, score_lyricist

SOURCE, START, END = (3, 4, 5, 6), 1, 2
SUPPRESSED = (0, 1, 3)
RULES = {
    "renormalised": TokenRules(END, SUPPRESSED),
    "kept shares": TokenRules(END, SUPPRESSED, renormalise=False),
    "nothing suppressed": TokenRules(END),
}


@pytest.mark.every_value
@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
@pytest.mark.parametrize("beam", [1, 4])
def test_a_hypothesis_has_the_log_probability_that_the_decoder_gave_it(rules: TokenRules, beam: int) -> None:
    for seed in range(4):
        network = tiny.transformer(seed)
        options = DecodingOptions(max_new_tokens=12, beam_size=beam, n_best=beam)
        for result in decode(network, rules, [Prompt(SOURCE, (START,))], options)[0]:
            target = (START, *result.tokens, *([END] if result.finished else []))
            scored = score(network, SOURCE, target, rules)
            assert len(scored.log_probabilities) == len(target) - 1
            assert scored.log_probabilities.sum().item() == pytest.approx(result.log_probability, abs=1e-4)


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
@pytest.mark.parametrize("cell", tiny.ALL_CELLS)
def test_a_continuation_has_the_log_probability_that_the_decoder_gave_it(rules: TokenRules, cell: str) -> None:
    network, prompt = tiny.recurrent(cell=cell), (5, 8, 9)
    (result,) = decode(network, rules, [Prompt((), prompt)], DecodingOptions(max_new_tokens=20))[0]
    scored = score(network, (), (*prompt, *result.tokens, *([END] if result.finished else [])), rules)
    total = scored.log_probabilities[len(prompt) - 1 :].sum().item()
    assert total == pytest.approx(result.log_probability, abs=1e-4)
    assert (scored.ranks[len(prompt) - 1 :] == 1).all(), "greedy takes the likeliest"


@pytest.mark.parametrize("rules", [None, *RULES.values()], ids=["the network", *RULES])
def test_entropy_and_rank_equal_the_probabilities(rules: TokenRules | None) -> None:
    network = tiny.recurrent()
    text = (5, 8, 9, 5, 5, 17)
    result = score(network, (), text, rules, top_k=4)
    with torch.inference_mode():
        logits = network(torch.tensor([text[:-1]]))[0][0].double()
    for place, token in enumerate(text[1:]):
        allowed = [i for i in range(19) if rules is None or i not in rules.suppressed]
        weights = logits[place].exp()
        whole = weights.sum() if rules is None or not rules.renormalise else weights[allowed].sum()
        probability = {i: (weights[i] / whole).item() for i in allowed}
        assert result.log_probabilities[place].exp().item() == pytest.approx(probability[token], rel=1e-6)
        order = sorted(allowed, key=lambda i: -probability[i])
        assert result.ranks[place].item() == 1 + order.index(token)
        assert result.tokens[place].tolist() == order[:4]
        shown = result.token_log_probabilities[place].exp().tolist()
        assert shown == pytest.approx([probability[i] for i in order[:4]], rel=1e-6)
        total = sum(probability.values())  # less than 1 where suppressed tokens keep their mass
        entropy = -sum(p / total * math.log(p / total) for p in probability.values())
        assert result.entropies[place].item() == pytest.approx(entropy, rel=1e-6)


def test_suppressed_tokens_have_probability_0_and_rank_last() -> None:
    result = score(tiny.recurrent(), (), (5, 0, 9), RULES["renormalised"], top_k=50)
    assert result.log_probabilities[0].item() == -math.inf
    assert result.tokens.shape == (2, 19)
    assert set(result.tokens[0, -3:].tolist()) == set(SUPPRESSED)
    assert (result.token_log_probabilities[:, -3:] == -math.inf).all()
    assert torch.isfinite(result.entropies).all()


def test_windowed_scores_equal_a_full_pass() -> None:
    network = tiny.recurrent()
    text = tiny.ids((3 * WINDOW + 7,), seed=3).tolist()
    whole = score(network, (), text, RULES["kept shares"], top_k=2)
    tokens = torch.tensor([text])
    with torch.inference_mode():
        features = network.features(tokens, tokens[:, :-1])[0]
        alone = [
            expected(network, features[t : t + 1], text[t + 1 : t + 2], RULES["kept shares"], 2) for t in range(99)
        ]
    for name in ("log_probabilities", "ranks", "entropies", "tokens", "token_log_probabilities"):
        joined = torch.cat([getattr(each, name) for each in alone])
        torch.testing.assert_close(getattr(whole, name)[:99], joined, rtol=0, atol=2e-6)


def test_entropies_outnumber_tokens_by_one() -> None:
    network = tiny.recurrent()
    tokens = torch.tensor([[4, 5, 6]])
    with torch.inference_mode():
        result = expected(network, network.features(tokens, tokens)[0], (5, 6), None, 1)
    assert (len(result.log_probabilities), len(result.entropies), len(result.tokens)) == (2, 3, 3)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folders.write_all(tmp_path_factory.mktemp("models"))


def loaded(folder: Path) -> tuple[Any, Any]:
    checkpoint = checkpoints.read(folder)
    return checkpoint, load_network(checkpoint)


def test_a_lyricist_scores_as_evaluate_does(root: Path) -> None:
    checkpoint, network = loaded(root / "tiny-lyrics")
    text = "我把灯留给夜里的你\n分开后的街道"
    says = score_lyricist(checkpoint, network, text)
    result = score(network, (), checkpoint.target_ids(text))
    nats = -result.log_probabilities.sum().item() / (len(text) - 1)
    assert round(nats, 4) == says["nats_per_character"]
    assert round(nats / math.log(2), 4) == says["bits_per_character"]
    assert len(result.log_probabilities) == says["characters"]


def test_a_translator_scores_as_evaluate_does(root: Path) -> None:
    checkpoint, network = loaded(root / "tiny-de-en")
    total, tokens = 0.0, 0
    for source, target in zip(folders.GERMAN, folders.ENGLISH, strict=True):
        given = (*checkpoint.target_ids(target), checkpoint.config.eos)
        result = score(network, checkpoint.source_ids(source), given)
        total -= result.log_probabilities.sum().item()
        tokens += len(result.log_probabilities)
    pairs = Pairs(folders.GERMAN, folders.ENGLISH)
    assert total / tokens == pytest.approx(reference_nats(checkpoint, network, pairs), abs=1e-6)
