"""The decoder on real networks in fp32: batch mates never change an output."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from models.backends import select
from models.decoding.decoder import Decoder, decode
from models.decoding.options import DecodingOptions, Hypothesis, TokenRules
from models.interface import Prompt
from tests.combinations import slow_but
from tests.models import tiny

RULES = TokenRules(2, (0, 1))
CHOSEN: list[dict[str, Any]] = [
    {},
    {"temperature": 0.8, "seed": 5},
    {"beam_size": 3, "n_best": 3},
    {"temperature": 1.2, "top_k": 4, "seed": 6},
    {"beam_size": 2},
    {"max_new_tokens": 3},
]
PROMPTS = [
    Prompt(tuple(tiny.ids((n,), n, low=3).tolist()), (1, *[4] * (n % 3))) for n in (5, 1, 8, 3, 6, 4, 2, 7, 9, 3)
]
LYRICS = [Prompt((), (1, *tiny.ids((n,), n, low=3).tolist())) for n in (5, 1, 0, 3, 6, 4, 2, 7, 9, 3)]
NETWORKS: dict[str, Any] = {
    **{name: (lambda name=name: tiny.transformer(**tiny.OPTIONS[name]), PROMPTS) for name in ("post", "pre", "tied")},
    "marian": (lambda: tiny.transformer(**{**tiny.OPTIONS["marian"], "pad": 0}), PROMPTS),
    **{cell: (lambda cell=cell: tiny.recurrent(cell=cell), LYRICS) for cell in tiny.ALL_CELLS},
    "one-hot": (lambda: tiny.recurrent(embedding=0), LYRICS),
}


def chosen(n: int) -> DecodingOptions:
    return DecodingOptions(**{"max_new_tokens": 8, **CHOSEN[n % len(CHOSEN)]})


def same(found: list[Hypothesis], expected: list[Hypothesis]) -> None:
    assert [(h.tokens, h.finished) for h in found] == [(h.tokens, h.finished) for h in expected]
    for a, b in zip(found, expected, strict=True):
        assert (a.log_probability, a.score) == pytest.approx((b.log_probability, b.score), abs=1e-4)


@torch.inference_mode()
def teacher_forced(network: Any, prompt: Prompt, hypothesis: Hypothesis) -> float:
    """log p of the hypothesis' tokens and its end in one full pass, with suppressed tokens left out."""
    tokens = [*hypothesis.tokens, *([RULES.eos] if hypothesis.finished else [])]
    target = torch.tensor([[*prompt.prefix, *tokens[:-1]]])
    logits = network(torch.tensor([prompt.source]), target) if prompt.source else network(target)[0]
    logits = logits[0, len(prompt.prefix) - 1 :]
    logits[:, list(RULES.suppressed)] = -torch.inf
    return logits.log_softmax(dim=-1).gather(1, torch.tensor(tokens)[:, None]).sum().item()


@pytest.mark.parametrize("name", slow_but(NETWORKS, "post", "marian", "gru", "lstm", "one-hot"))
def test_mixed_batches_equal_single_requests(name: str) -> None:
    make, prompts = NETWORKS[name]
    network = make()
    options = [chosen(n) for n in range(len(prompts))]
    together = decode(network, RULES, prompts, options, slots=7)
    written = set()
    for results, prompt, option in zip(together, prompts, options, strict=True):
        same(results, decode(network, RULES, [prompt], option)[0])
        for hypothesis in results:
            expected = teacher_forced(network, prompt, hypothesis)
            assert hypothesis.log_probability == pytest.approx(expected, abs=1e-4)
            written.add(hypothesis.tokens)
    assert len(written) > 6, "different requests, different texts"


@pytest.mark.parametrize("name", ["post", "gru"])
def test_joining_and_leaving_in_the_middle(name: str) -> None:
    make, prompts = NETWORKS[name]
    network = make()
    decoder = Decoder(select.decodable(network), RULES, slots=8, source_length=9, target_length=18)
    finished: dict[Any, list[Hypothesis]] = {}
    for n in (0, 1, 2):
        decoder.join([(n, prompts[n], chosen(n))])
        finished.update(decoder.step().finished)
    decoder.leave(0)
    decoder.join([(3, prompts[3], chosen(3)), (4, prompts[4], chosen(4))])
    finished.update(decoder.step().finished)
    decoder.leave(2)
    decoder.join([(5, prompts[5], chosen(5)), (8, prompts[8], chosen(8))])
    while decoder.requests:
        finished.update(decoder.step().finished)
    assert set(finished) == {1, 3, 4, 5, 8}
    for n, result in finished.items():
        same(result, decode(network, RULES, [prompts[n]], chosen(n))[0])


def test_empty_source_gives_the_same_alone_and_in_a_batch() -> None:
    network = tiny.transformer()
    empty = Prompt((), (1,))
    alone = decode(network, RULES, [empty], chosen(0))[0]
    same(decode(network, RULES, [empty, *PROMPTS], chosen(0))[0], alone)


def test_lyrics_continue_from_a_single_token() -> None:
    network = tiny.recurrent()
    (result,) = decode(network, TokenRules(None), [Prompt((), (5,))], DecodingOptions(max_new_tokens=20))
    tokens = [5]
    with torch.inference_mode():
        for _ in range(20):
            tokens.append(int(network(torch.tensor([tokens]))[0][0, -1].argmax()))
    assert list(result[0].tokens) == tokens[1:]
