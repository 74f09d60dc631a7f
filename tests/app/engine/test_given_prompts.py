"""Prompts that are given as tokens."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from app import errors
from app.engine import input_processor
from app.engine.interface import ScoreQuery, TokenQuery
from models import checkpoint as checkpoints
from models.checkpoint import Checkpoint
from tests.app.engine.engine_thread import Running, generate
from tests.request_builders import generation_request


def read(root: Path) -> Checkpoint:
    return checkpoints.read(root / "tiny-lyrics")


def test_given_tokens_equal_the_tokenized_text(tiny_checkpoints: Path) -> None:
    lyricist = read(tiny_checkpoints)
    ids = lyricist.target_ids("分开")
    request = generation_request("分开", max_new_tokens=5)
    assert (
        input_processor.prompt_token_ids(lyricist, replace(request, prompt="", prompt_ids=ids))
        == ids
        == input_processor.prompt_token_ids(lyricist, request)
    )


def test_a_start_token_comes_first_and_once(tiny_checkpoints: Path) -> None:
    lyricist = read(tiny_checkpoints)
    begun = replace(lyricist, config=replace(lyricist.config, target_prefix=(5,)))
    assert (
        input_processor.given_prompt_ids(begun, [7, 8])
        == (5, 7, 8)
        == input_processor.given_prompt_ids(begun, (5, 7, 8))
    )


@pytest.mark.parametrize(
    ("ids", "sentence"),
    [
        ([3, 99], r"There is no token 99: tiny-lyrics has 26 of them \(0 to 25\)\."),
        ([3, 0], r"Token 0 \(<unk>\) stands for no text: leave it out\."),
    ],
)
def test_token_ids_outside_the_vocabulary_are_refused(tiny_checkpoints: Path, ids: list[int], sentence: str) -> None:
    with pytest.raises(errors.InvalidRequest, match=f"^{sentence}$") as refused:
        input_processor.given_prompt_ids(read(tiny_checkpoints), ids)
    assert refused.value.field == "prompt"


def test_text_is_tokenized_with_its_unknown_characters(tiny_checkpoints: Path) -> None:
    lyricist = read(tiny_checkpoints)
    result = input_processor.tokenized(lyricist, TokenQuery("分x开"))
    first, last = lyricist.target_ids("分开")
    assert (result.ids, result.pieces) == ((first, 0, last), ("分", "<unk>", "开"))
    assert input_processor.tokenized(lyricist, TokenQuery("", ids=result.ids)).text == "分开"
    assert result.special == {"bos": None, "eos": None, "unk": "<unk>", "pad": None}
    assert input_processor.tokenized(lyricist, TokenQuery("<unk>")).ids == (0,)
    with pytest.raises(errors.InvalidRequest, match=r"^There is no token 99: tiny-lyrics has 26 of them"):
        input_processor.tokenized(lyricist, TokenQuery("", ids=(99,)))
    begun = replace(lyricist, config=replace(lyricist.config, target_prefix=(5,), eos=7))
    assert input_processor.tokenized(begun, TokenQuery("分", start=True)).ids == (5, first)
    assert input_processor.tokenized(begun, TokenQuery(lyricist.tokenizers["target"].piece(7))).ids == (7,)


@pytest.mark.slow
def test_a_pool_continues_and_scores_them(running: Running, tiny_checkpoints: Path) -> None:
    lyricist, text = read(tiny_checkpoints), "分开\n后"
    ids = tuple(lyricist.target_ids(text))
    by_text = running.do(running.pool.generate(generate(prompt=text)))
    by_ids = running.do(running.pool.generate(generate(prompt="", prompt_ids=ids)))
    assert by_ids.continuations == by_text.continuations
    by_tokens, from_text = (
        running.do(running.pool.score(request))
        for request in (ScoreQuery(text, top_k=2), ScoreQuery("", top_k=2, ids=ids))
    )
    assert (from_text.text, from_text.steps, from_text.log_probability) == (
        text,
        by_tokens.steps,
        by_tokens.log_probability,
    )
    assert [(token.id, token.end) for token in from_text.tokens] == [
        (token.id, token.end) for token in by_tokens.tokens
    ]


@pytest.mark.slow
def test_score_of_one_given_token(running: Running, tiny_checkpoints: Path) -> None:
    (token,) = read(tiny_checkpoints).target_ids("分")
    for request in (ScoreQuery("分", least_predicted=0), ScoreQuery("", ids=(token,), least_predicted=0)):
        result = running.do(running.pool.score(request))
        assert ([each.text for each in result.tokens], result.steps, result.predicted) == (["分"], (None,), 0)
    with pytest.raises(errors.InvalidRequest, match="too short to be scored"):
        running.do(running.pool.score(ScoreQuery("分")))
