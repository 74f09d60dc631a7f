"""Tokens that come several at a time say the same as one by one, and where a stop string ends them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.engine.output.output_processor import Detokenizer
from app.engine.output.text_stream import ShowText, TextDelta, TextStream
from models.tokenizer import Tokenizer
from tests.app.engine.output.test_detokenizer import TOKENIZERS, Counted, byte_ids, interesting
from tests.app.engine.output.test_output_processor import BYTES, writing
from tests.combinations import slow_but


def cut(ids: Sequence[int], seed: int) -> list[list[int]]:
    """In order, in groups of any length."""
    rng, parts = random.Random(seed), list[list[int]]()
    rest = list(ids)
    while rest:
        size = rng.randrange(1, 8)
        parts.append(rest[:size])
        rest = rest[size:]
    return parts


@pytest.mark.parametrize("kind", slow_but(TOKENIZERS, "characters", "words", "sentencepiece", "bytes, symbols"))
@settings(max_examples=24, deadline=None)
@given(data=st.data())
def test_groups_join_to_the_text_of_all_tokens_and_hold_back_no_more_than_single_ones(
    kind: str, data: st.DataObject
) -> None:
    tokenizer = TOKENIZERS[kind]
    drawn = st.sampled_from(interesting(tokenizer)) | st.integers(0, tokenizer.size - 1)
    if result := byte_ids(tokenizer):
        drawn |= st.sampled_from(result)
    ids = data.draw(st.lists(drawn, max_size=60))
    together, single = Detokenizer(tokenizer), Detokenizer(tokenizer)
    shown, expected = "", ""
    for part in cut(ids, data.draw(st.integers(0, 999))):
        shown += together.feed(part)
        expected += "".join(single.feed([token]) for token in part)
        assert shown == expected
    assert shown + together.finish() == tokenizer.decode(ids)


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_a_group_costs_one_look_at_each_token(kind: str) -> None:
    counted = Counted(TOKENIZERS[kind])
    ids = (list(range(4, counted.tokenizer.size)) * 400)[:1000]
    detokenizer = Detokenizer(cast(Tokenizer, counted))
    detokenizer.feed(ids[:40])
    before = counted.decoded
    for part in range(40, len(ids), 20):
        detokenizer.feed(ids[part : part + 20])
    groups = -(-(len(ids) - 40) // 20)
    assert counted.decoded - before <= len(ids) - 40 + 4 * groups  # an anchor, and at most three bytes that were held


IDS = BYTES.encode("der hund schläft der hund")


@pytest.mark.parametrize("seed", range(8))
def test_a_stop_string_ends_a_group_at_the_token_that_completes_it(seed: int) -> None:
    alone, _ = writing(stops=["nd s", "xyz"])
    end = next(place for place, token in enumerate(IDS, start=1) if alone.feed([token]))
    output, shown = writing(stops=["nd s", "xyz"])
    for part in cut(IDS, seed):
        if output.feed(part):
            break
    assert output.stopped
    assert output.tokens == alone.tokens == IDS[:end]
    assert "".join(shown) == output.text == alone.text == "der hu"


def test_a_group_is_shown_as_one_text() -> None:
    output, shown = writing()
    output.feed(IDS)
    output.finish(IDS)
    assert shown == ["der hund schläft der hund"]


def test_a_reader_wakes_once_for_all_that_was_put_together() -> None:
    async def scene() -> None:
        end: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        deltas: list[ShowText] = []

        async def work(show: ShowText) -> str:
            deltas.append(show)
            show("a", 0)
            return await end

        async with TextStream.opened(work) as stream:
            (show,) = deltas
            assert await stream.taken() == [TextDelta("a")]
            reading = asyncio.create_task(stream.taken())
            await asyncio.sleep(0)
            for index, text in ((1, "x"), (0, "b"), (1, "y"), (0, "c")):
                show(text, index)
            assert await reading == [TextDelta("xy", 1), TextDelta("bc")]
            assert not stream.ended
            show("d", 0)
            end.set_result("all")
            await asyncio.sleep(0.01)
            assert not stream.ended  # there is still a text to take
            assert await stream.taken() == [TextDelta("d")]
            assert stream.ended
            assert (await stream.taken(), stream.result) == ([], "all")

    asyncio.run(scene())


def test_an_end_alone_wakes_the_reader_too() -> None:
    async def scene() -> None:
        end: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        async def work(show: ShowText) -> Any:
            show("a", 0)
            return await end

        async with TextStream.opened(work) as stream:
            await stream.taken()
            reading = asyncio.create_task(stream.taken())
            await asyncio.sleep(0)
            end.set_exception(KeyError("late"))
            assert await reading == []
            with pytest.raises(KeyError, match="late"):
                assert stream.result

    asyncio.run(scene())
