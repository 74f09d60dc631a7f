"""What a lyricist may be kept from writing, and the likeliest tokens at each place."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.engine.interface import Continuation, GenerationRequest, GenerationResult
from app.engine.output.output_processor import text_after_others
from app.engine.output.text_stream import TextDelta
from app.engine.protocol import messages as m
from models.decoding.options import OptionError
from tests.app.engine.inline_engine import Inline
from tests.app.engine.output.test_detokenizer import TOKENIZERS
from tests.request_builders import changed, generation_request

JOB = generation_request("分开", max_new_tokens=8, temperature=0.0, seed=5, logprobs=True, top_logprobs=3)


@pytest.fixture(scope="module")
def inline(tiny_checkpoints: Path) -> Inline:
    return Inline(tiny_checkpoints)


def write(inline: Inline, request: GenerationRequest) -> Continuation:
    generation: GenerationResult = inline.do(inline.continuing.generate(request))
    return generation.continuations[0]


def test_options_reach_the_device(inline: Inline) -> None:
    inline.sent.clear()
    write(inline, changed(JOB, presence_penalty=0.5, frequency_penalty=-0.25, repetition_penalty=1.5))
    write(inline, changed(JOB, logprobs=False, top_logprobs=0, no_repeat_ngram_size=3))
    first, second = (message.options for message in inline.sent)
    assert (first.presence_penalty, first.frequency_penalty, first.repetition_penalty) == (0.5, -0.25, 1.5)
    assert (first.top_logprobs, first.logprobs, first.no_repeat_ngram_size) == (3, True, 0)
    assert (second.top_logprobs, second.logprobs, second.no_repeat_ngram_size) == (0, False, 3)
    assert (second.presence_penalty, second.frequency_penalty, second.repetition_penalty) == (0.0, 0.0, 1.0)


def test_penalties_change_the_text_and_a_ban_holds(inline: Inline) -> None:
    long = changed(JOB, max_new_tokens=40, logprobs=False, top_logprobs=0)
    plain = write(inline, long).text
    assert len(set(plain)) < 6
    assert write(inline, changed(long, repetition_penalty=5.0)).text != plain
    banned = write(inline, changed(long, no_repeat_ngram_size=2)).text
    pairs = [banned[at : at + 2] for at in range(len(banned) - 1)]
    assert len(set(pairs)) == len(pairs)


def test_top_tokens_equal_the_network(inline: Inline) -> None:
    written = write(inline, JOB)
    assert written.tokens is not None
    edition = inline.registry.versions["tiny-lyrics"]
    ids = [*edition.target_ids(JOB.prompt), *(token.id for token in written.tokens)]
    inline.scheduler.handle(m.ScoreTokens(99, edition.key, [], ids, 3, by_rules=True))
    (scored,) = inline.scheduler.step()
    start, expected = len(ids) - 8 - 1, scored.expected
    nats = np.frombuffer(expected.top_log_probabilities.data, "<f4").reshape(-1, 3)
    for place, token in enumerate(written.tokens, start):
        assert [each for each, _, _ in token.top] == expected.tokens[place]
        assert [text for _, text, _ in token.top] == [edition.decode([each]) for each in expected.tokens[place]]
        assert [value for _, _, value in token.top] == pytest.approx(nats[place].tolist(), abs=1e-5)
        assert token.top[0][::2] == (token.id, pytest.approx(token.log_probability, abs=1e-6))  # greedy


def test_streams_have_top_tokens(inline: Inline) -> None:
    async def deltas_and_result() -> tuple[list[TextDelta], GenerationResult]:
        async with inline.continuing.stream(replace(JOB, n=2)) as stream:
            return [delta async for delta in stream.deltas()], stream.result

    deltas, result = inline.do(deltas_and_result())
    for index, continuation in enumerate(result.continuations):
        streamed = tuple(token for delta in deltas if delta.index == index for token in delta.tokens)
        assert streamed == continuation.tokens
        assert [len(token.top) for token in streamed] == [3] * 8


def test_top_logprobs_0_lists_no_alternatives(inline: Inline) -> None:
    tokens = write(inline, changed(JOB, top_logprobs=0)).tokens
    assert tokens is not None
    assert [token.top for token in tokens] == [()] * 8


@pytest.mark.parametrize(
    ("change", "field", "says"),
    [
        ({"top_logprobs": 21}, "top_logprobs", "top_logprobs must lie in 0..20, not 21."),
        ({"logprobs": False}, "top_logprobs", "top_logprobs comes with logprobs."),
        ({"presence_penalty": 2.5}, "presence_penalty", "presence_penalty must lie in -2..2, not 2.5."),
        ({"frequency_penalty": math.nan}, "frequency_penalty", "frequency_penalty must lie in -2..2, not nan."),
        ({"repetition_penalty": 0.0}, "repetition_penalty", "repetition_penalty must lie in 0.01..100, not 0.0."),
        ({"no_repeat_ngram_size": 1001}, "no_repeat_ngram_size", "no_repeat_ngram_size must lie in 0..1000, not 1001."),
    ],
)
def test_options_out_of_range_are_refused_by_their_names(change: dict[str, Any], field: str, says: str) -> None:
    with pytest.raises(OptionError) as refused:
        changed(JOB, **change)
    assert (refused.value.field, str(refused.value)) == (field, says)


def test_repetition_is_reported_where_the_limit_cut_it(inline: Inline) -> None:
    long = changed(JOB, max_new_tokens=60, logprobs=False, top_logprobs=0)
    circle = write(inline, long)
    assert circle.text[-12:] == circle.text[-15:-3]  # three characters, again and again
    assert circle.finish_reason == "repetition"
    assert write(inline, changed(long, max_new_tokens=8)).finish_reason == "length"
    assert write(inline, replace(long, stop=(circle.text[30:33],))).finish_reason == "stop"
    assert write(inline, changed(long, temperature=1.0)).finish_reason == "length"
    honest = write(inline, replace(long, prompt="分开" + "不留留" * 12))
    assert honest.finish_reason == "length"


@pytest.mark.parametrize(("kind", "word"), [("sentencepiece", " hund"), ("words", " möchte"), ("characters", "分")])
def test_token_text_after_other_tokens(kind: str, word: str) -> None:
    writer = TOKENIZERS[kind]
    (token,) = writer.encode(word)[-1:]
    assert text_after_others(writer, token) == word
    assert text_after_others(writer, 3) == "</s>"


def test_a_part_of_a_character_reads_as_the_vocabulary_writes_it() -> None:
    writer = TOKENIZERS["bytes"]
    token = writer.encode("你")[-1]
    assert text_after_others(writer, token) == writer.piece(token) == "<0xA0>"


def test_texts_of_likely_tokens_are_made_once_for_a_vocabulary(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of sequences ask for the same tokens at each of their steps."""
    writer, decoded = copy.copy(TOKENIZERS["sentencepiece"]), list[list[int]]()
    whole = writer.untrimmed

    def untrimmed(tokens: list[int]) -> str:
        decoded.append(tokens)
        return whole(tokens)

    monkeypatch.setattr(writer, "untrimmed", untrimmed)
    (token,) = writer.encode(" hund")[-1:]
    texts = {text_after_others(writer, token) for _ in range(50)}
    assert texts == {" hund"}
    assert sum(token in tokens and len(tokens) == 2 for tokens in decoded) == 1
