"""Penalties and banned n-grams against Hugging Face's processors and OpenAI's formula, alone and in batches."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from models.backends.top_k import top_k
from models.decoding.decoder import Decoder, decode
from models.decoding.logits_processors import repeated_ngram_tokens
from models.decoding.options import DecodingOptions, TokenRules
from models.interface import Prompt
from tests.models import tiny
from tests.models.decoding.decoders import EOS, NO_END, RULES, decoder_of, one, options
from tests.models.scripted import Scripted

pytestmark = pytest.mark.usefixtures("kernels")
PREFIX = (1, 4, 4, 6)


def changed(logits: Tensor, prefix: tuple[int, ...], written: list[int], way: dict[str, Any]) -> Tensor:
    """One row [V] by their formulas."""
    # here: every worker imports this module, and it takes a second
    from transformers import NoRepeatNGramLogitsProcessor, RepetitionPenaltyLogitsProcessor

    scores = logits[None].clone()
    if repetition := way.get("repetition_penalty"):
        scores = RepetitionPenaltyLogitsProcessor(repetition)(torch.tensor([[*prefix, *written]]), scores)
    for token in set(written):
        scores[0, token] -= way.get("frequency_penalty", 0.0) * written.count(token)
        scores[0, token] -= way.get("presence_penalty", 0.0)
    if size := way.get("no_repeat_ngram_size"):
        scores = NoRepeatNGramLogitsProcessor(size)(torch.tensor([written], dtype=torch.long), scores)
    return scores[0]


def greedily(network: Scripted, prompt: Prompt, limit: int, way: dict[str, Any], rules: TokenRules) -> list[int]:
    written: list[int] = []
    while len(written) < limit and written[-1:] != [rules.eos]:
        logits = torch.tensor(network.logits((prompt.source, (*prompt.prefix, *written))))
        logits[list(rules.suppressed)] = -torch.inf
        written.append(int(changed(logits, prompt.prefix, written, way).argmax()))
    return written


WAYS: list[dict[str, Any]] = [
    {"repetition_penalty": 1.7},
    {"repetition_penalty": 0.6},
    {"presence_penalty": 1.5},
    {"presence_penalty": -2.0},
    {"frequency_penalty": 0.8},
    {"frequency_penalty": 0.3, "presence_penalty": 0.4, "repetition_penalty": 1.2},
    {"no_repeat_ngram_size": 1},
    {"no_repeat_ngram_size": 2},
    {"no_repeat_ngram_size": 3},
    {"no_repeat_ngram_size": 2, "repetition_penalty": 1.3, "frequency_penalty": -0.5},
]


@pytest.mark.every_value
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_greedy_texts_equal_the_formulas(way: dict[str, Any]) -> None:
    for seed in range(5):
        network, prompt = Scripted(14, seed=seed, spread=1.0), Prompt((), PREFIX)
        result = one(network, prompt, options(max_new_tokens=11, **way), TokenRules(None, (0, 1)))[0]
        assert list(result.tokens) == greedily(network, prompt, 11, way, TokenRules(None, (0, 1)))
        plain = network.score(prompt, result.tokens, (0, 1))
        assert result.log_probability == pytest.approx(plain, abs=1e-5), "of the model's own distribution"


@given(st.lists(st.integers(0, 3), max_size=20), st.integers(1, 5))
@settings(max_examples=80)
def test_banned_tokens_equal_the_processor(written: list[int], size: int) -> None:
    from transformers import NoRepeatNGramLogitsProcessor

    rows, tokens = repeated_ngram_tokens(np.array([written, written[::-1]], dtype=np.int64).reshape(2, -1), size)
    for row, each in enumerate((written, written[::-1])):
        scores = NoRepeatNGramLogitsProcessor(size)(torch.tensor([each], dtype=torch.long), torch.zeros(1, 4))[0]
        assert {t for r, t in zip(rows.tolist(), tokens.tolist(), strict=True) if r == row} == set(
            (scores == -math.inf).nonzero()[:, 0].tolist()
        )


def test_sampling_uses_the_penalised_distribution() -> None:
    """120 seeds, one step: the same tokens as from a network that returns the logits of the formula."""
    table = {(1, 4): (0.0, 0.5, -0.3, 1.0, 0.7), (1, 4, 3): (0.2, 0.9, 1.1, 1.4, 1.2)}
    way = {"repetition_penalty": 1.5, "frequency_penalty": 0.7, "presence_penalty": -0.2}
    other = {**table, (1, 4, 3): tuple(changed(torch.tensor(table[1, 4, 3]), (1, 4), [3], way).tolist())}
    other[1, 4] = tuple(changed(torch.tensor(table[1, 4]), (1, 4), [], way).tolist())
    for seed in range(120):
        drawing = {"max_new_tokens": 2, "temperature": 0.9, "top_k": 4, "top_p": 0.9, "seed": seed}
        (ours,) = one(Scripted(5, table=table), Prompt((), (1, 4)), options(**drawing, **way), NO_END)
        (theirs,) = one(Scripted(5, table=other), Prompt((), (1, 4)), options(**drawing), NO_END)
        if ours.tokens[0] == 3:
            assert ours.tokens == theirs.tokens
        else:
            assert ours.tokens[0] == theirs.tokens[0]


def test_a_text_that_may_write_nothing_more_ends_unfinished() -> None:
    for rules in (TokenRules(None, (0, 1)), TokenRules(None, (0, 1), forced_end=True)):
        for drawing in ({}, {"temperature": 1.0, "seed": 3}, {"beam_size": 2}):
            chosen = options(max_new_tokens=9, no_repeat_ngram_size=1, **drawing)
            (result,) = one(Scripted(5), Prompt((), (1,)), chosen, rules)
            assert sorted(result.tokens) == [2, 3, 4]
            assert not result.finished
            plain = Scripted(5).score(Prompt((), (1,)), result.tokens, (0, 1))
            assert result.log_probability == pytest.approx(plain, abs=1e-5)


@pytest.mark.every_value
@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("width", [2, 3])
def test_no_hypothesis_of_a_beam_repeats_a_run(size: int, width: int) -> None:
    repeats = 0
    for seed in range(6):
        network, prompt = Scripted(5, seed=seed, spread=1.0), Prompt((3,), (1,))
        given: dict[str, Any] = {"max_new_tokens": 9, "beam_size": width, "n_best": width}
        for way in ({}, {"no_repeat_ngram_size": size}):
            for result in one(network, prompt, options(**given, **way)):
                runs = list(zip(*(result.tokens[i:] for i in range(size)), strict=False))
                repeats += bool(not way and len(set(runs)) < len(runs))
                assert not way or len(set(runs)) == len(runs)
                whole = [*result.tokens, *([EOS] if result.finished else [])]
                plain = network.score(prompt, whole, RULES.suppressed)
                assert result.log_probability == pytest.approx(plain, abs=1e-5)
    assert repeats or size == 3


def test_batch_mates_change_no_result() -> None:
    """Rows with penalties, without, drawn and not, beams with bans: each as alone, whatever joins and leaves."""
    drawn = {"temperature": 0.9, "top_p": 0.9}
    kinds: list[dict[str, Any]] = [*WAYS, {}, drawn, {"beam_size": 3}, {"beam_size": 3, "no_repeat_ngram_size": 2}]
    kinds += [{**drawn, **way} for way in WAYS]
    network = Scripted(9, spread=1.0)
    prompts = [Prompt((n,), (1, 4)) for n in range(2 * len(kinds))]
    each = [options(max_new_tokens=8, seed=n, **kinds[n % len(kinds)]) for n in range(len(prompts))]
    for slots in (3, 7, 50):
        together = decode(network, RULES, prompts, each, slots=slots)
        for result, prompt, chosen in zip(together, prompts, each, strict=True):
            (lone,) = one(network, prompt, chosen)
            assert (result[0].tokens, result[0].finished) == (lone.tokens, lone.finished)
            assert result[0].log_probability == pytest.approx(lone.log_probability, abs=1e-5)


def test_freed_row_loses_its_banned_tokens() -> None:
    network = Scripted(9, seed=2, spread=0.5)
    decoder = decoder_of(network, 3)
    chosen = {"a": options(), "b": options(no_repeat_ngram_size=1), "c": options(repetition_penalty=3.0)}
    decoder.join([(key, Prompt((5,), (1,)), choice) for key, choice in chosen.items()])
    decoder.step()
    decoder.leave("a")  # the last row takes the place of the first
    decoder.step()
    decoder.leave("c")
    decoder.join([("d", Prompt((5,), (1,)), options())])  # where another's bans have been
    done: dict[Any, Any] = {}
    while decoder.requests:
        done.update(decoder.step().finished)
    assert done["d"][0].tokens == one(network, Prompt((5,), (1,)), options())[0].tokens
    assert done["b"][0].tokens == one(network, Prompt((5,), (1,)), chosen["b"])[0].tokens
    assert not decoder.rows.repetition.active


@pytest.mark.parametrize("rules", [RULES, TokenRules(EOS, (0, 1), renormalise=False)], ids=["renormalised", "shares"])
@pytest.mark.parametrize("vocabulary", [9, 640])
def test_the_likeliest_tokens_at_each_place(vocabulary: int, rules: TokenRules) -> None:
    network, prompt = Scripted(vocabulary, spread=1.0), Prompt((3,), (1,))
    body = {"logprobs": True, "top_logprobs": 4, "temperature": 1.0, "seed": 5, "no_repeat_ngram_size": 1}
    decoder = Decoder(network, rules, slots=4, source_length=2, target_length=12)
    decoder.join(
        [
            ("quiet", prompt, options(logprobs=True)),
            ("two", prompt, options(logprobs=True, top_logprobs=2)),
            ("it", prompt, options(**body, presence_penalty=2.0)),
            ("deaf", prompt, options(**body, streamed=False)),
        ]
    )
    done: dict[Any, Any] = {}
    reported: dict[Any, list[Any]] = {}
    while decoder.requests:
        progress = decoder.step()
        done.update(progress.finished)
        for key, candidate in progress.top.items():
            reported.setdefault(key, []).append(candidate)
    assert done["quiet"][0].top is None
    assert reported.keys() == {"two", "it"}
    for key, count in (("two", 2), ("it", 4), ("deaf", 4)):
        (result,) = done[key]
        assert len(result.top) == len(result.tokens) > 0
        assert key == "deaf" or tuple(reported[key]) == result.top
        for place, candidate in enumerate(result.top):
            logits = torch.tensor(network.logits((prompt.source, (*prompt.prefix, *result.tokens[:place]))))
            own = logits.log_softmax(-1)
            if rules.renormalise:
                own = logits.index_fill(0, torch.tensor([0, 1]), -math.inf).log_softmax(-1)
            own[:2] = -math.inf
            values, tokens = top_k(own[None], count)
            assert [token for token, _ in candidate] == tokens[0].tolist()
            assert [nats for _, nats in candidate] == pytest.approx(values[0].tolist(), abs=1e-5)
            assert result.token_log_probabilities[place] == pytest.approx(own[result.tokens[place]].item(), abs=1e-5)


def test_more_top_tokens_than_the_vocabulary() -> None:
    (result,) = one(Scripted(5), Prompt((), (1,)), options(logprobs=True, top_logprobs=20), NO_END)
    assert [len(each) for each in result.top or ()] == [5] * 5
    for each in result.top or ():
        assert sum(math.exp(nats) for _, nats in each) == pytest.approx(1, abs=1e-6)
    (result,) = one(Scripted(6), Prompt((), (1,)), options(logprobs=True, top_logprobs=20, max_new_tokens=2))
    assert {token for each in result.top or () for token, _ in each} == {2, 3, 4, 5}, "suppressed ones never come"


@pytest.mark.every_value
@pytest.mark.parametrize("precision", ["fp32", "int8"])
@pytest.mark.parametrize("cell", tiny.ALL_CELLS)
def test_real_networks_follow_the_formulas(cell: str, precision: Any) -> None:
    network = tiny.recurrent(cell=cell)
    for way in ({"repetition_penalty": 1.8, "no_repeat_ngram_size": 2}, {"frequency_penalty": 1.0}):
        chosen = options(max_new_tokens=14, logprobs=True, top_logprobs=20, **way)
        (result,) = decode(network, NO_END, [Prompt((), (5, 8))], chosen, precision=precision)[0]
        assert result.top is not None
        for place, candidate in enumerate(result.top):
            written, scores = list(result.tokens[:place]), torch.full((64,), -1e9)
            for token, nats in candidate:
                scores[token] = nats
            if "repetition_penalty" not in way:  # which depends on the logits' zero
                assert changed(scores, (5, 8), written, way).argmax() == result.tokens[place]
        runs = list(itertools.pairwise(result.tokens))
        assert "no_repeat_ngram_size" not in way or len(set(runs)) == len(runs)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"no_repeat_ngram_size": -1}, "no_repeat_ngram_size must lie in 0..1000, not -1."),
        ({"presence_penalty": 2.1}, "presence_penalty must lie in -2..2, not 2.1."),
        ({"frequency_penalty": math.nan}, "frequency_penalty must lie in -2..2, not nan."),
        ({"repetition_penalty": 0.0}, "repetition_penalty must lie in 0.01..100, not 0.0."),
        ({"repetition_penalty": math.inf}, "repetition_penalty must lie in 0.01..100, not inf."),
        ({"top_logprobs": 21, "logprobs": True}, "top_logprobs must lie in 0..20, not 21."),
        ({"top_logprobs": 2}, "top_logprobs comes with logprobs."),
        ({"beam_size": 2, "presence_penalty": 0.1}, "a beam has no penalties: use beam_size 1."),
    ],
)
def test_invalid_options_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as excinfo:
        DecodingOptions(max_new_tokens=1, **given)
    assert str(excinfo.value) == message
