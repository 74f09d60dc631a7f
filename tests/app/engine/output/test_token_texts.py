"""Tokens leave with the text that they brought: whole, once, in order, whatever the vocabulary and the stop strings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.engine.output.output_processor import OutputProcessor, TokenTexts
from app.engine.output.text_stream import WrittenToken
from app.errors import EngineFailed
from models.checkpoint import Checkpoint, CheckpointConfig
from tests.app.engine.output.test_detokenizer import TOKENIZERS, byte_ids, interesting
from tests.app.engine.output.test_token_batches import cut
from tests.combinations import slow_but

CHECKPOINTS = {
    kind: Checkpoint(Path("a"), CheckpointConfig(kind="lyrics", architecture={}), {"target": tokenizer})
    for kind, tokenizer in TOKENIZERS.items()
}
BYTES = TOKENIZERS["bytes"]
Shown = list[tuple[str, tuple[WrittenToken, ...]]]


def writing(kind: str = "bytes", **options: Any) -> tuple[OutputProcessor, Shown]:
    shown: Shown = []
    show = lambda text, tokens: shown.append((text, tuple(tokens)))  # noqa: E731
    return OutputProcessor(CHECKPOINTS[kind], show=show, **{"logprobs": True, **options}), shown


def nats(count: int) -> list[float]:
    """Of each token another."""
    return [-float(place) for place in range(count)]


def texts(tokens: Any) -> list[str]:
    return [token.text for token in tokens]


@pytest.mark.parametrize("kind", slow_but(TOKENIZERS, "characters", "words", "sentencepiece", "bytes, symbols"))
@settings(max_examples=24, deadline=None)
@given(data=st.data())
def test_the_texts_of_tokens_join_to_the_text_that_comes_without_them(kind: str, data: st.DataObject) -> None:
    tokenizer = TOKENIZERS[kind]
    drawn = st.sampled_from(interesting(tokenizer)) | st.integers(0, tokenizer.size - 1)
    if result := byte_ids(tokenizer):
        drawn |= st.sampled_from(result)
    ids = data.draw(st.lists(drawn, max_size=40))
    stops = data.draw(st.lists(st.text("ab chi\n ▁\ufffd", min_size=1, max_size=4), max_size=2))
    fed = data.draw(st.integers(0, len(ids)))
    plain, _ = writing(kind, stops=stops, logprobs=False)
    output, shown = writing(kind, stops=stops)
    ended, place, values = False, 0, nats(len(ids))
    for part in cut(ids[:fed], data.draw(st.integers(0, 999))):
        ended = output.feed(part, values[place : place + len(part)])
        assert plain.feed(part) == ended
        place += len(part)
        if ended:
            break
    if not ended:
        plain.finish(ids)
        output.finish(ids, values)
    assert (output.text, output.tokens, output.stopped) == (plain.text, plain.tokens, plain.stopped)
    assert "".join(text for text, _ in shown) == output.text
    assert all("".join(texts(tokens)) == text for text, tokens in shown)
    assert [token for _, tokens in shown for token in tokens] == output.written
    written_tokens = output.written
    assert [(t.id, t.log_probability) for t in written_tokens] == list(zip(ids, values, strict=True))[
        : len(written_tokens)
    ]
    if not output.stopped:
        assert len(written_tokens) == len(ids), "each once"
    quiet = OutputProcessor(CHECKPOINTS[kind], stops, logprobs=True)
    quiet.finish(ids, values)
    assert (quiet.text, quiet.written) == (output.text, written_tokens)


def test_a_character_of_several_tokens_stands_with_its_last() -> None:
    ids = BYTES.encode("a你b")
    output, shown = writing()
    for token, value in zip(ids, nats(len(ids)), strict=True):
        output.feed([token], [value])
    first = len(ids) - 4  # the bytes and the letter behind them
    assert texts(output.written) == [*texts(output.written)[:first], "", "", "你", "b"]
    assert [text for text, _ in shown][-2:] == ["你", "b"]
    assert [len(tokens) for _, tokens in shown][-2:] == [3, 1]


def test_bytes_that_never_became_a_character_have_a_token_each() -> None:
    byte = BYTES.encode("你")[1]
    output, _ = writing()
    output.finish([byte, byte], [-1.0, -2.0])
    assert output.written == [WrittenToken(byte, "\ufffd", -1.0), WrittenToken(byte, "\ufffd", -2.0)]


def test_text_that_a_stop_string_holds_back_keeps_its_tokens() -> None:
    ids = BYTES.encode("der hund")
    assert len(ids) < len("der hund"), "tokens of several characters"
    last = BYTES.untrimmed([4, ids[-1]])[len(BYTES.untrimmed([4])) :]
    output, shown = writing(stops=[last + "!"])
    output.feed(ids, nats(len(ids)))
    assert "".join(text for text, _ in shown) == "der hund"[: -len(last)]
    assert len(output.written) == len(ids) - 1
    output.finish(ids, nats(len(ids)))
    assert (output.text, texts(output.written)[-1], len(output.written)) == ("der hund", last, len(ids))


def test_a_token_that_a_stop_string_begins_in_keeps_the_part_before_it() -> None:
    result = TokenTexts()
    result.add(WrittenToken(1, "", -1.0), "ab", 0)
    result.add(WrittenToken(2, "", -2.0), "cde", 0)
    result.add(WrittenToken(3, "", -3.0), "fg", 0)
    assert result.release("abc") == [WrittenToken(1, "ab", -1.0)]
    assert result.cut() == [WrittenToken(2, "c", -2.0)]
    assert result.release("de") == [WrittenToken(2, "cde", -2.0)]
    assert result.cut() == []


def test_final_tokens_without_text_are_kept_unless_cut_by_a_stop_string() -> None:
    result = TokenTexts()
    result.add(WrittenToken(1, "", -1.0), "a", 0)
    result.add(WrittenToken(2, "", -2.0), "", 0)
    assert result.release("a") == [WrittenToken(1, "a", -1.0)]
    assert result.cut() == []
    assert result.end() == [WrittenToken(2, "", -2.0)]


def test_restarted_output_is_empty() -> None:
    ids = BYTES.encode("der hund 你")
    silent = OutputProcessor(CHECKPOINTS["bytes"], ["x"], logprobs=True)
    silent.feed(ids[:-1], [-50.0] * (len(ids) - 1))
    assert silent.written
    assert silent.restart()
    assert silent.written == []
    silent.finish(ids, nats(len(ids)))
    assert [each.log_probability for each in silent.written] == nats(len(ids))
    output, shown = writing()
    assert output.restart()
    output.feed(ids[:2], nats(2))
    assert shown
    assert not output.restart()


def test_a_token_without_its_probability_is_not_guessed() -> None:
    output, _ = writing()
    with pytest.raises(ValueError, match="shorter"):
        output.feed(BYTES.encode("der hund"), [-1.0])
    output, _ = writing()
    with pytest.raises(EngineFailed, match="did not say how probable"):
        output.finish(BYTES.encode("der"))


def test_without_a_listener_there_is_no_first_token_time() -> None:
    quiet = OutputProcessor(CHECKPOINTS["bytes"], logprobs=True)
    assert (quiet.wants_tokens, quiet.at_once) == (False, False)
    ids = BYTES.encode("der hund")
    quiet.finish(ids, nats(len(ids)))
    assert quiet.usage(1, None).first_token_s is None
    assert quiet.usage(1, None).new_tokens == len(ids)
