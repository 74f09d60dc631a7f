"""The log-probability of each token that is written: that of the network for the same text, and of no company."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

from models.backends.top_k import row_maxima
from models.decoding import row_state
from models.decoding.decoder import Decoder, decode
from models.decoding.options import DecodingOptions, TokenRules
from models.interface import Prompt
from models.scoring import score
from tests.models import tiny
from tests.models.scripted import Scripted

pytestmark = pytest.mark.usefixtures("kernels")
END = 2
RULES = {
    "renormalised": TokenRules(END, (0, 1)),
    "kept shares": TokenRules(END, (0, 1), renormalise=False),
    "no end": TokenRules(None, (0,)),
}
WAYS: list[dict[str, Any]] = [
    {},
    {"temperature": 1.0, "seed": 3},
    {"temperature": 0.6, "seed": 4, "top_k": 3},
    {"temperature": 1.4, "seed": 5, "top_p": 0.7},
    {"temperature": 1.2, "seed": 6, "top_k": 9, "top_p": 0.9},
]
PROMPT = (5, 8, 9)
NATS = {"fp32": 1e-6, "int8": 0.02, "bf16": 0.02}  # int8 and bf16 keep 8 bits of each factor


def options(**given: Any) -> DecodingOptions:
    return DecodingOptions(**{"max_new_tokens": 16, "scores": False, "logprobs": True, **given})


@pytest.mark.every_value
@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
@pytest.mark.parametrize("precision", NATS)
@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_each_token_has_the_log_probability_that_the_text_scores(cell: str, precision: Any, rules: TokenRules) -> None:
    """Whatever the temperature and the cuts by which it was drawn."""
    network = tiny.recurrent(cell=cell)
    results = decode(
        network, rules, [Prompt((), PROMPT)] * len(WAYS), [options(**way) for way in WAYS], precision=precision
    )
    different = set()
    for (hypothesis,) in results:
        scored = score(network, (), (*PROMPT, *hypothesis.tokens), rules).log_probabilities[len(PROMPT) - 1 :]
        assert hypothesis.token_log_probabilities is not None
        assert len(hypothesis.token_log_probabilities) == len(hypothesis.tokens)
        assert hypothesis.token_log_probabilities == pytest.approx(scored.tolist(), abs=NATS[precision])
        different.add(hypothesis.tokens)
    assert len(different) > 3


def test_a_translation_written_token_by_token_too() -> None:
    network, rules = tiny.transformer(), RULES["renormalised"]
    (result,) = decode(network, rules, [Prompt((3, 4, 5), (1,))], options(temperature=1.0, seed=2, scores=True))[0]
    nats = score(network, (3, 4, 5), (1, *result.tokens, *([END] if result.finished else [])), rules).log_probabilities
    assert result.token_log_probabilities == pytest.approx(nats[: len(result.tokens)].tolist(), abs=1e-5)
    assert result.log_probability == pytest.approx(nats.sum().item(), abs=1e-4)


def mixed(asks: Any) -> list[DecodingOptions]:
    each = itertools.cycle([*WAYS, {"beam_size": 3}])
    chosen = [next(each) for _ in range(24)]
    return [
        DecodingOptions(**{"max_new_tokens": 7, "logprobs": "beam_size" not in way and asks(n), **way})
        for n, way in enumerate(chosen)
    ]


def test_requesting_logprobs_changes_no_text_in_any_batch() -> None:
    network, rules = Scripted(9, spread=1.0), TokenRules(END, (0, 1))
    prompts = [Prompt((n,), (1,)) for n in range(24)]
    nobody = decode(network, rules, prompts, mixed(lambda n: False), slots=13)
    alone = [decode(network, rules, [p], o)[0] for p, o in zip(prompts, mixed(lambda n: True), strict=True)]
    for asks in (lambda n: True, lambda n: n % 3 == 0, lambda n: n == 7):
        results = decode(network, rules, prompts, mixed(asks), slots=13)
        for n, ((quiet, *_), (lone, *_), (each, *_)) in enumerate(zip(nobody, alone, results, strict=True)):
            assert (each.tokens, each.finished) == (quiet.tokens, quiet.finished)
            expected = lone.token_log_probabilities if asks(n) else None
            assert each.token_log_probabilities == expected
            assert quiet.token_log_probabilities is None


@pytest.mark.every_value
@pytest.mark.parametrize("cell", tiny.ALL_CELLS)
def test_log_probabilities_do_not_depend_on_the_batch(cell: str) -> None:
    network, rules = tiny.recurrent(cell=cell), RULES["kept shares"]
    prompts = [Prompt((), tuple(tiny.ids((1 + n % 4,), n, low=3).tolist())) for n in range(12)]
    kinds = [options(**WAYS[n % 5], logprobs=n % 2 == 0) for n in range(12)]
    for n, (result,) in enumerate(decode(network, rules, prompts, kinds, slots=5)):
        (lone,) = decode(network, rules, [prompts[n]], kinds[n])[0]
        assert result.tokens == lone.tokens
        if n % 2:
            assert result.token_log_probabilities is lone.token_log_probabilities is None
        else:
            assert result.token_log_probabilities == pytest.approx(lone.token_log_probabilities, abs=2e-6)


def test_step_reports_rows_with_logprobs_or_streams() -> None:
    decoder = Decoder(Scripted(9), TokenRules(END, (0,)), slots=4, source_length=2, target_length=20)
    body = {"both": (True, True), "tokens": (False, True), "end": (True, False)}
    decoder.join(
        [
            (key, Prompt((n,), (1,)), options(logprobs=scored, streamed=streamed, temperature=1.0, seed=n + 20))
            for n, (key, (scored, streamed)) in enumerate(body.items())
        ]
    )
    reported: dict[Any, list[float]] = {}
    listened: dict[Any, list[int]] = {}
    done: dict[Any, Any] = {}
    while decoder.requests:
        progress = decoder.step()
        assert progress.log_probabilities.keys() <= {key for key, _ in progress.tokens}
        for key, nats in progress.log_probabilities.items():
            reported.setdefault(key, []).append(nats)
        for key, token in progress.tokens:
            listened.setdefault(key, []).append(token)
        done.update(progress.finished)
    assert reported.keys() == {"both"}
    assert listened.keys() == {"both", "tokens"}
    assert tuple(listened["both"]) == done["both"][0].tokens
    assert tuple(reported["both"]) == done["both"][0].token_log_probabilities
    assert len(done["end"][0].token_log_probabilities) == len(done["end"][0].tokens) > 0
    assert math.isnan(done["both"][0].log_probability)


def test_log_probabilities_are_computed_only_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    monkeypatch.setattr(row_state, "row_maxima", lambda logits: (looked.append(len(logits)), row_maxima(logits))[1])
    decoder = Decoder(Scripted(9), TokenRules(None), slots=4, source_length=2, target_length=8)
    quiet = [(n, Prompt((n,), (1,)), options(logprobs=False, max_new_tokens=6)) for n in range(3)]
    decoder.join(quiet)
    decoder.step()
    assert looked == []
    decoder.join([(9, Prompt((9,), (1,)), options(max_new_tokens=2))])
    for _ in range(4):
        decoder.step()
    assert looked == [1, 1], "of four rows the one that asks, while it is there"


def test_beam_reports_no_token_log_probabilities() -> None:
    with pytest.raises(ValueError, match="a beam does not score single tokens: use beam_size 1"):
        options(beam_size=2)
