"""Streams of a real server process: their content, slow readers, and disconnects."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.app.api.test_event_stream import events
from tests.serving import Server, serving
from tests.tiny import GERMAN

pytestmark = pytest.mark.slow  # a server of its own
TIMEOUT_S = 30
LONG = {"prompt": "分开", "max_new_tokens": 400, "seed": 7, "n": 16, "stream": True}


@pytest.fixture(scope="module")
def server(tiny_checkpoints: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PARLANCE_REQUEST_TIMEOUT_S", str(TIMEOUT_S))
        environment.setenv("PARLANCE_STREAM_INTERVAL_MS", "0")
        environment.setenv("PARLANCE_MAX_INFLIGHT_REQUESTS", "16")
        with serving(tiny_checkpoints, tmp_path_factory.mktemp("server")) as server:
            yield server


@contextlib.contextmanager
def begun(server: Server, path: str, body: dict[str, Any]) -> Iterator[http.client.HTTPResponse]:
    """Its headers and its first token have arrived. Leaving the context closes the connection."""
    connection = http.client.HTTPConnection(server.base.removeprefix("http://"), timeout=30)
    with contextlib.closing(connection):
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        with connection.getresponse() as answer:
            yield answer


def streamed(server: Server, path: str, body: dict[str, Any]) -> list[tuple[str, Any]]:
    with begun(server, path, {**body, "stream": True}) as answer:
        assert (answer.status, answer.getheader("content-type")) == (200, "text/event-stream; charset=utf-8")
        return events(answer.read().decode())


def all_room_is_free(server: Server) -> None:
    """Waits until as many sequences are let in as the server takes at once."""
    end, status = time.monotonic() + 20, 429
    while status == 429:
        with begun(server, "/generate", {"prompt": "分开", "max_new_tokens": 2, "n": 16}) as answer:
            status = answer.status
        assert time.monotonic() < end
        time.sleep(0.01)
    assert status == 200


@pytest.mark.parametrize("alternatives", [0, 2, 5])
def test_beam_stream_joins_to_the_unstreamed_answer(server: Server, alternatives: int) -> None:
    body = {"q": GERMAN[0], "source": "de", "target": "en", "alternatives": alternatives}
    *tokens, (last, done) = streamed(server, "/translate", body)
    whole = server.ask("/translate", body)
    assert last == "done"
    if alternatives < 4:  # six hypotheses of this network never agree
        assert len(tokens) > 1  # beside the last text there is one that came before all was decided
    assert [event for event, _ in tokens] == ["token"] * len(tokens)
    assert "".join(token["text"] for _, token in tokens) == done["translatedText"] == whole["translatedText"]
    assert done.get("alternatives", []) == whole.get("alternatives", [])
    assert len(done.get("alternatives", [])) == alternatives
    assert done["usage"]["source_tokens"] == 5
    assert done["usage"]["new_tokens"] > 0
    assert 0 < done["timing"]["first_token_ms"] <= done["timing"]["total_ms"]


def test_generation_streams_tokens_and_ends_before_its_stop_string(server: Server) -> None:
    body = {"prompt": "分开", "max_new_tokens": 200, "seed": 7, "n": 2}
    *tokens, (_, done) = streamed(server, "/generate", body)
    whole = server.ask("/generate", body)
    for index, alternative in enumerate([whole, *whole["alternatives"]]):
        assert "".join(token["text"] for _, token in tokens if token["index"] == index) == alternative["text"]
    assert len(tokens) > 4  # more than a first and a last one each; where steps are short, some come together
    assert done["usage"] == {"prompt_tokens": 2, "new_tokens": 400}
    stop = whole["text"][50:53]
    *tokens, (_, done) = streamed(server, "/generate", {**body, "n": 1, "stop": stop})
    shown = "".join(token["text"] for _, token in tokens)
    assert shown == done["text"] == whole["text"][: whole["text"].index(stop)]
    assert done["finish_reason"] == "stop"


def test_refused_stream_has_an_error_status(server: Server) -> None:
    body = {"q": "ich", "source": "de", "target": "en", "stream": True, "prefix": "i " * 40}
    with begun(server, "/translate", body) as answer:
        assert (answer.status, answer.getheader("content-type")) == (422, "application/json")
        assert "has 40 tokens; the model takes 32" in json.load(answer)["error"]


def test_disconnect_frees_the_slots_for_the_next_request(server: Server) -> None:
    """Only one of these fits at a time."""
    for _ in range(3):
        end, status = time.monotonic() + 20, 429
        while status == 429:
            with begun(server, "/generate", LONG) as answer:
                status = answer.status
                answer.readline()
            assert time.monotonic() < end
        assert status == 200


def test_slow_reader_delays_no_other_and_receives_everything(server: Server) -> None:
    all_room_is_free(server)
    host, port = server.base.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port))
    connection.sock = socket.socket()  # with a buffer of a few events
    connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16384)
    connection.sock.settimeout(30)
    connection.sock.connect((host, int(port)))
    with contextlib.closing(connection):
        connection.request("POST", "/generate", json.dumps(LONG))
        with connection.getresponse() as answer:
            all_room_is_free(server)  # everything of the slow reader is written
            result = events(answer.read().decode())
    *tokens, (_, done) = result
    for index, alternative in enumerate([done, *done["alternatives"]]):
        assert "".join(token["text"] for _, token in tokens if token["index"] == index) == alternative["text"]
        assert len(alternative["text"]) == LONG["max_new_tokens"]
