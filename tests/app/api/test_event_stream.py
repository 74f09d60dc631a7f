"""Server-sent events, as a client reads them."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from starlette.types import Message

from app import errors
from app.api import event_stream
from app.api.event_stream import format_event
from tests.app.api.client import Client, described
from tests.app.api.disconnecting import posted
from tests.app.api.fake_engine import FakeEngine

TRANSLATE = {"q": "hallo", "source": "de", "target": "en", "stream": True}
GENERATE = {"prompt": "分", "stream": True}


def events(body: str) -> list[tuple[str, Any]]:
    """Strictly: two lines an event, and an empty one behind."""
    results = []
    assert body.endswith("\n\n")
    for block in body.removesuffix("\n\n").split("\n\n"):
        name, data = block.split("\n")
        results.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return results


def test_translation_events() -> None:
    client = Client()
    answer = client.post("/translate", json=TRANSLATE)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["cache-control"] == "no-store"
    assert "content-length" not in answer.headers
    assert answer.headers["x-request-id"]
    *tokens, (last, done) = events(answer.text)
    assert tokens == [("token", {"text": letter}) for letter in "en:hallo"]
    assert (last, done) == (
        "done",
        {
            "translatedText": "en:hallo",
            "usage": {"source_tokens": 3, "new_tokens": 8},
            "timing": {"queued_ms": 1.0, "first_token_ms": 2.0, "total_ms": 500.0},
        },
    )


def test_done_is_the_answer_without_a_stream() -> None:
    expected = {**TRANSLATE, "source": "auto", "q": "Ich möchte ein Bier", "alternatives": 2}
    engine = FakeEngine(length_limited=frozenset({expected["q"]}))
    streamed = dict(events(Client(engine).post("/translate", json=expected).text))["done"]
    whole = Client(engine).post("/translate", json={**expected, "stream": False}).json()
    assert {"alternatives", "detectedLanguage", "finishReason"} < whole.keys()
    assert {**whole, "usage": streamed["usage"], "timing": streamed["timing"]} == streamed


@pytest.mark.parametrize("way", ["form", "query"])
def test_a_form_streams_too(way: str) -> None:
    fields = {**TRANSLATE, "stream": "true"}
    client = Client()
    answer = (
        client.post("/translate", data=fields) if way == "form" else client.post("/translate", params=fields)  # type: ignore[arg-type]
    )
    assert events(answer.text)[-1][1]["translatedText"] == "en:hallo"


def test_white_space_alone_needs_no_engine() -> None:
    client = Client()
    result = events(client.post("/translate", json={**TRANSLATE, "q": " \n "}).text)
    assert result[0] == ("token", {"text": " \n "})
    assert result[1][1]["translatedText"] == " \n "
    assert client.engine.calls == 0


def test_generation_events() -> None:
    client = Client()
    *tokens, (last, done) = events(client.post("/generate", json={**GENERATE, "seed": 7}).text)
    assert tokens == [("token", {"text": "后"}), ("token", {"text": "0"})]
    assert (last, done) == (
        "done",
        {
            "text": "后0",
            "finish_reason": "length",
            "seed": 7,
            "model": "lyrics-zh",
            "usage": {"prompt_tokens": 2, "new_tokens": 8},
            "timing": {"first_token_ms": 2.0, "total_ms": 500.0},
        },
    )


def test_events_of_several_continuations_carry_their_index() -> None:
    *tokens, (_, done) = events(Client().post("/generate", json={**GENERATE, "n": 3}).text)
    texts = ["", "", ""]
    for _, token in tokens:
        texts[token["index"]] += token["text"]
    assert (
        texts == ["后0", "后1", "后2"] == [done["text"], *(alternative["text"] for alternative in done["alternatives"])]
    )


def test_a_list_cannot_be_streamed() -> None:
    answer = Client().post("/translate", json={**TRANSLATE, "q": ["a", "b"]})
    assert (answer.status_code, answer.json()["field"]) == (400, "stream")
    assert answer.json()["error"] == (
        '"stream" is true, but "q" is a list; stream one text at a time, or leave "stream" out.'
    )


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (errors.Overloaded("Full; come back.", retry_after_s=7), 429),
        (errors.EngineUnavailable("Nobody; come back."), 503),
        (errors.DeadlineExceeded("Late."), 504),
        (errors.TextTooLong("Long.", field="q"), 422),
        (errors.EngineFailed("Ours."), 500),
        (KeyError("stray"), 500),
    ],
)
def test_failure_before_the_first_event_has_its_own_status(failure: Exception, status: int) -> None:
    client = Client(FakeEngine(failure=failure))
    plain = client.post("/translate", json={**TRANSLATE, "stream": False})
    streamed = client.post("/translate", json=TRANSLATE)
    assert streamed.status_code == plain.status_code == status
    assert streamed.headers["content-type"] == "application/json"
    assert streamed.headers.get("retry-after") == plain.headers.get("retry-after")
    assert {**streamed.json(), "request_id": ""} == {**plain.json(), "request_id": ""}


def test_bad_input_is_refused_with_a_status() -> None:
    client = Client()
    assert client.post("/generate", json={**GENERATE, "prompt": ""}).status_code == 422
    assert client.post("/generate", json={**GENERATE, "model": "nobody"}).status_code == 404
    assert client.post("/translate", json={**TRANSLATE, "target": "fr"}).json()["code"] == "unknown_pair"
    assert client.post("/translate", json={**TRANSLATE, "stream": "perhaps"}).json()["field"] == "stream"


@pytest.mark.parametrize(
    ("failure", "code", "sentence"),
    [
        (errors.EngineUnavailable("The device process ended; please try again."), "engine_unavailable", "ended"),
        (KeyError("stray"), "internal_error", "a fault of ours"),
    ],
)
def test_later_failure_is_the_last_event(failure: Exception, code: str, sentence: str) -> None:
    answer = Client(FakeEngine(late_failure=failure)).post("/generate", json=GENERATE, headers={"X-Request-Id": "r1"})
    assert answer.status_code == 200
    token, (name, error) = events(answer.text)
    assert token == ("token", {"text": "后"})
    assert name == "error"
    assert (error["code"], error["field"], error["request_id"]) == (code, None, "r1")
    assert sentence in error["error"]


# Readers ------------------------------------------------------------------------------------------------


class Endless(FakeEngine):
    """Writes for ever; says when it was cancelled."""

    cancelled = False

    async def _spell(self, show: Callable[[str, int], None], texts: list[str]) -> None:
        try:
            while True:
                show("x", 0)
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.cancelled = True
            raise


async def answered(
    engine: FakeEngine,
    receive: Callable[[], Awaitable[Message]],
    send: Callable[[Message], Awaitable[None]],
    **limits: Any,
) -> None:
    body: list[Message] = [{"type": "http.request", "body": json.dumps(GENERATE).encode(), "more_body": False}]

    async def body_first() -> Message:
        return body.pop() if body else await receive()

    await posted("/generate", engine, body_first, send, **limits)


def test_disconnect_cancels_the_work() -> None:
    async def scene() -> None:
        engine, sent, enough = Endless(), list[Message](), asyncio.Event()

        async def receive() -> Message:
            await enough.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            sent.append(message)
            if len(sent) > 3:
                enough.set()

        await answered(engine, receive, send)
        assert engine.cancelled
        assert sent[0]["status"] == 200
        assert all(message["type"] == "http.response.body" and message["more_body"] for message in sent[1:])

    asyncio.run(scene())


def test_stalled_reader_is_disconnected_and_its_work_cancelled() -> None:
    async def scene() -> None:
        engine, sent = Endless(), list[Message]()

        async def send(message: Message) -> None:
            if sent and sent[-1].get("body"):
                await asyncio.Event().wait()  # as a server does while the client's buffers are full
            sent.append(message)

        await answered(engine, asyncio.Event().wait, send, request_timeout_s=0.05)  # type: ignore[arg-type]
        assert engine.cancelled
        assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]

    asyncio.run(scene())


def test_an_answer_in_events_is_documented() -> None:
    paths = described()["paths"]
    for path in ("/translate", "/generate"):
        content = paths[path]["post"]["responses"]["200"]["content"]
        assert content.keys() == {"application/json", "text/event-stream"}
        assert content["application/json"]["schema"]["$ref"].endswith("Answer")
        assert [name for name, _ in events(content["text/event-stream"]["example"])] == ["token", "token", "done"]


def test_events_of_many_texts_leave_the_event_loop_its_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each event of these takes longer than a slice: others run between the writes, which join to the same stream."""
    body = {**GENERATE, "n": 8, "seed": 3}
    whole = Client().post("/generate", json=body).text
    monkeypatch.setattr(event_stream, "SLICE_S", 0.0)
    writes: list[bytes] = []
    turns = 0

    async def run() -> None:
        parts = iter([{"type": "http.request", "body": json.dumps(body).encode()}])
        never = asyncio.Event()

        async def receive() -> Message:
            for part in parts:
                return part
            await never.wait()
            raise AssertionError

        async def send(message: Message) -> None:
            if message["type"] == "http.response.body":
                writes.append(message["body"])

        async def other() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += bool(writes)

        others = asyncio.create_task(other())
        await posted("/generate", FakeEngine(), receive, send)
        others.cancel()

    asyncio.run(run())
    assert events(b"".join(writes).decode()) == events(whole)
    assert len(writes) > 8
    assert turns >= len(writes) - 1


@pytest.mark.parametrize(("large_bytes", "in_thread"), [(65_536, False), (0, True)])
def test_last_event_of_a_large_stream_is_made_in_a_thread(
    large_bytes: int, in_thread: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[bool] = []

    def done(name: str, data: object) -> bytes:
        threads.append(threading.current_thread() is not threading.main_thread())
        return format_event(name, data)

    whole = Client().post("/generate", json=GENERATE).text
    monkeypatch.setattr(event_stream, "LARGE_STREAM_BYTES", large_bytes)
    monkeypatch.setattr(event_stream, "format_event", done)
    assert events(Client().post("/generate", json=GENERATE).text) == events(whole)
    assert threads[-1] == in_thread
    assert not any(threads[:-1])
