from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app.engine.interface import Usage
from app.engine.output.output_processor import OutputProcessor, total_usage
from app.errors import EngineFailed
from models.checkpoint import Checkpoint, CheckpointConfig
from tests.app.engine.output.test_detokenizer import TOKENIZERS

BYTES = TOKENIZERS["bytes"]
CHECKPOINT = Checkpoint(Path("a"), CheckpointConfig(kind="lyrics", architecture={}), {"target": BYTES})
IDS = [*BYTES.encode("der hund 你"), BYTES.encode("你")[1]]  # the beginning of a character at its end
TEXT = BYTES.decode(IDS)


def writing(**options: Any) -> tuple[OutputProcessor, list[str]]:
    shown: list[str] = []
    return OutputProcessor(CHECKPOINT, show=lambda text, tokens: shown.append(text), **options), shown


@pytest.mark.parametrize("fed", [0, 3, len(IDS)])
def test_shown_parts_join_to_the_text(fed: int) -> None:
    output, shown = writing()
    for token in IDS[:fed]:
        assert not output.feed([token])
    before = len(shown)
    assert (before > 0) == (fed > 0)
    output.finish(IDS)
    assert "".join(shown) == output.text == TEXT
    assert TEXT.endswith("\ufffd")
    assert "" not in shown


def test_answer_that_contradicts_its_stream_is_an_error() -> None:
    output, _ = writing()
    output.feed(IDS[:1])
    with pytest.raises(EngineFailed, match="does not continue its beginning"):
        output.finish(IDS[1:])


def test_a_stop_string_ends_it_and_is_never_shown() -> None:
    output, shown = writing(stops=["hund"])
    ended = [output.feed([token]) for token in IDS]
    assert ended.index(True) < len(IDS) - 3
    assert "".join(shown) == output.text == "der "
    assert output.stopped


def test_stop_string_in_unstreamed_text_counts() -> None:
    output, shown = writing(stops=["hund"])
    output.finish(IDS)
    assert ("".join(shown), output.stopped) == ("der ", True)


def test_the_beginning_of_a_stop_string_that_never_came_is_text() -> None:
    output, shown = writing(stops=["\ufffd!"])
    output.finish(IDS)
    assert ("".join(shown), output.stopped) == (TEXT, False)


def test_only_unseen_output_can_restart() -> None:
    silent = OutputProcessor(CHECKPOINT, ["x"])
    silent.feed(IDS[:1])
    assert silent.restart()
    silent.finish(IDS)
    assert silent.text == TEXT
    output, shown = writing()
    assert output.restart()
    output.feed(IDS[:1])
    assert shown
    assert not output.restart()


def test_text_without_a_listener_is_complete() -> None:
    output = OutputProcessor(CHECKPOINT)
    output.finish(IDS)
    assert (output.text, output.wants_tokens, output.at_once) == (TEXT, False, False)
    assert output.usage(4, None).new_tokens == len(IDS)


def test_stop_strings_are_urgent_only_without_a_listener() -> None:
    assert OutputProcessor(CHECKPOINT, ["x"]).at_once
    assert not writing(stops=["x"])[0].at_once


def test_usage_of_concurrent_texts() -> None:
    usages = [Usage(3, 5, None, 0.5, 2.0), Usage(3, 7, 0.25, 0.4, 1.0)]
    assert total_usage(usages) == Usage(6, 12, 0.25, 0.4, 2.0)


@pytest.mark.parametrize("fed", [0, 2, 5])
def test_prefix_comes_first_and_is_not_counted(fed: int) -> None:
    given, written = IDS[:4], IDS[4:]
    output, shown = writing(given=given)
    for token in written[:fed]:
        output.feed([token])
    output.finish(written)
    quiet = OutputProcessor(CHECKPOINT, given=given)
    quiet.finish(written)
    assert "".join(shown) == output.text == quiet.text == TEXT
    assert output.usage(3, None).new_tokens == quiet.usage(3, None).new_tokens == len(written)
    assert BYTES.decode(given).startswith(shown[0])


def test_prefix_is_shown_without_new_tokens() -> None:
    output, shown = writing(given=BYTES.encode("der hund"))
    output.finish([])
    assert ("".join(shown), output.text, output.usage(3, None).new_tokens) == ("der hund", "der hund", 0)
