"""Streams of a real server with a stream interval longer than any stream: the first token, then all others at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.serving import Server, serving
from tests.test_streams import streamed
from tests.tiny import GERMAN

pytestmark = pytest.mark.slow  # a server of its own

LENGTH = 1500  # it takes a tenth of a second and more to write: the first token is read long before the end
LYRICS = {"prompt": "分开", "max_new_tokens": LENGTH, "seed": 7}


@pytest.fixture(scope="module")
def server(tiny_checkpoints: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(
        tiny_checkpoints, tmp_path_factory.mktemp("server"), STREAM_INTERVAL_MS="10000", MAX_NEW_TOKENS="2000"
    ) as server:
        yield server


def joined(tokens: list[tuple[str, Any]], index: int | None = None) -> str:
    return "".join(token["text"] for _, token in tokens if token.get("index") == index)


def test_first_token_is_sent_at_once_and_the_rest_at_the_end(server: Server) -> None:
    *tokens, (last, done) = streamed(server, "/generate", LYRICS)
    assert last == "done"
    assert [len(token["text"]) for _, token in tokens] == [1, LENGTH - 1]
    assert joined(tokens) == done["text"] == server.ask("/generate", LYRICS)["text"]
    assert done["usage"] == {"prompt_tokens": 2, "new_tokens": LENGTH}


def test_first_token_of_every_continuation_is_sent_at_once(server: Server) -> None:
    *tokens, (_, done) = streamed(server, "/generate", {**LYRICS, "n": 3})
    for index, alternative in enumerate([done, *done["alternatives"]]):
        assert [len(token["text"]) for _, token in tokens if token["index"] == index] == [1, LENGTH - 1]
        assert joined(tokens, index) == alternative["text"]


def test_stop_string_within_one_interval_ends_the_text_and_is_not_sent(server: Server) -> None:
    whole = server.ask("/generate", LYRICS)["text"]
    stop = whole[30:33]
    *tokens, (_, done) = streamed(server, "/generate", {**LYRICS, "stop": stop})
    before = whole[: whole.index(stop)]
    assert joined(tokens) == done["text"] == before
    assert (done["finish_reason"], done["usage"]["new_tokens"]) == ("stop", len(before) + len(stop))


def test_beam_stream_sends_the_common_prefix(server: Server) -> None:
    body = {"q": GERMAN[0], "source": "de", "target": "en"}
    *tokens, (_, done) = streamed(server, "/translate", body)
    assert 1 <= len(tokens) <= 2
    assert joined(tokens) == done["translatedText"] == server.ask("/translate", body)["translatedText"]
