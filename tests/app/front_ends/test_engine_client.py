"""An engine that is called over a socket answers as it does without one."""

from __future__ import annotations

import asyncio
import math
import socket
from collections.abc import Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from app import errors
from app.engine.admission import ORIGIN, RequestOrigin
from app.engine.dispatch.dispatcher import WorkerLost
from app.engine.interface import (
    AttentionQuery,
    Engine,
    GatesQuery,
    GenerationRequest,
    Notice,
    PoolStatus,
    ScoreQuery,
    WalkthroughQuery,
)
from app.engine.metrics.request_work import CURRENT_WORK, RequestWork
from app.engine.output.text_stream import ShowText, TextStream, WrittenToken
from app.engine.protocol.messages import FrameSplitter
from app.front_ends import codec
from app.front_ends.codec import ENGINE_METHODS
from app.front_ends.engine_client import CallBroken
from app.front_ends.engine_server import EngineServer
from models.checkpoint import DemoCard
from models.decoding.options import DecodingOptions
from models.inspection.results import (
    Ablation,
    Alignment,
    AttentionFindings,
    Candidate,
    HeadStatistics,
    OutputStep,
    Rollout,
    WorkedRow,
)
from models.inspection.selection import AttentionSelection, Head, Row
from tests.app.api.fake_engine import LYRICIST, FakeEngine, translator
from tests.app.front_ends.over_sockets import PATIENCE_S, FrontEnd, front_end, own_parts, until
from tests.request_builders import generation_request, translation_request


def generate(**change: Any) -> GenerationRequest:
    return generation_request(**{"prompt": "分开", **change})


MERGED = 3_000_000  # characters
HEAD = Head("cross", 1, 2)
FINDINGS = AttentionFindings(
    logprob_sum=-1.5,
    stats={"cross": [[HeadStatistics(0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, "broad")]]},
    rollout=Rollout([[1.0]], [[0.25]], [0.5], "method", "caveat"),
    alignment=Alignment([(0, 1, 0.5)], "0-1", "word", [(0, 1)], "predicting", None),
    steps=[OutputStep(float("-inf"), 3, 0.5, [Candidate(4, -0.25, "▁x", "x")])],
    ablation=Ablation([HEAD], -1.0, -2.0, [-0.5], [4, 5], "x"),
    qk=WorkedRow("decoder", 0, 1, 2, 0.25, [0.5], [True], [1.0]),
)
RICH = translation_request(
    "hallo\u2028 分",
    "de",
    "en",
    alternatives=2,
    prefix="h",
    wants=frozenset({"scores", "tokens", "alignment"}),
    required=(("a", "b"), ("c",)),
)
CALLS: dict[str, tuple[Any, ...]] = {
    "curves": ("lyrics-zh",),
    "translate": ([RICH, translation_request("bier", "de", "en")],),
    "source_room": (None, "de", "en"),
    "source_tokens": (None, "de", "en", ["ein bier", ""]),
    "align": ("tiny-de-en", "de", "en", [("ein bier", "a beer"), ("", "")]),
    "generate": (generate(n=3, stop=("x",), seed=2**53),),
    "attention": (
        AttentionQuery(
            source=None,
            source_ids=(4, 5),
            selection=AttentionSelection(layers=(-1,), include=("stats",), masked=(HEAD,), row=Row("cross", 0, 0, 1)),
            decoding=DecodingOptions(beam_size=2, required=(((4, 5), (6,)),)),
        ),
    ),
    "walkthrough": (WalkthroughQuery(source="bier", target="beer"),),
    "gates": (GatesQuery("分开"),),
    "score": (ScoreQuery("分开", ids=(4, 5)),),
    "load_model": ("lyrics-zh",),
    "reload_model": ("lyrics-zh",),
    "unload_model": ("lyrics-zh",),
}


def rich_engine() -> FakeEngine:
    demo = DemoCard("A demo.", 3, ("x",), "Train one.", frozenset({"a", "b"}))
    return FakeEngine(
        loaded=[
            replace(translator("de", "en"), demo=demo, scores={"BLEU": 39.1, "nested": {"a": [1, None]}}),
            LYRICIST,
        ],
        findings=FINDINGS,
        notices={"bier": (Notice("pivot", "Two models.", 1, 2, ("a", "b")),)},
        gate_values=np.asfortranarray(np.arange(12, dtype=np.float32).reshape(2, 3, 2)),
    )


def with_front_end(test: Callable[[FrontEnd], Coroutine[Any, Any, None]], engine: Any = None, **options: Any) -> None:
    async def run() -> None:
        async with front_end(engine or FakeEngine(), **options) as connected:
            await test(connected)

    asyncio.run(run())


def test_every_method_of_the_engine_is_tried() -> None:
    streams = {name for name, method in ENGINE_METHODS.items() if method.streamed}
    assert CALLS.keys() | streams == ENGINE_METHODS.keys()
    others = {name for name in vars(Engine) if not name.startswith("_")} - ENGINE_METHODS.keys()
    assert others == {"status", "models", "check_room"}


@pytest.mark.parametrize("name", CALLS)
def test_call_equals_the_direct_call(name: str) -> None:
    direct, remote = rich_engine(), rich_engine()

    async def check(connected: FrontEnd) -> None:
        result = await getattr(connected.engine, name)(*CALLS[name])
        expected = await getattr(direct, name)(*CALLS[name])
        assert repr(result) == repr(expected)  # of arrays too, which == compares by element
        assert type(result) is type(expected)
        assert [type(request) for request in remote.requests] == [type(request) for request in direct.requests]
        assert remote.requests == direct.requests

    with_front_end(check, remote)


def test_arrays_keep_their_type_and_shape() -> None:
    async def check(connected: FrontEnd) -> None:
        result = await connected.engine.gates(GatesQuery("分开"))
        assert result.values["z"].dtype == np.float32
        assert np.array_equal(result.values["z"], rich_engine().gate_values)

    with_front_end(check, rich_engine())


def error_of(kind: type[errors.EngineError]) -> errors.EngineError:
    if kind is errors.AnswerTooLarge:
        return errors.AnswerTooLarge("No.", values=9, limit=3, suggest={"units": [1, 2]}, field="units")
    if issubclass(kind, errors.RetryLater):
        return kind("Later.", retry_after_s=7, reason="overloaded_requests")
    return kind("No.", field="model", reason="a_reason")


KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.EngineError)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_errors_keep_their_class_message_and_fields(kind: type[errors.EngineError]) -> None:
    error = error_of(kind)
    error.was_sent = True

    async def check(connected: FrontEnd) -> None:
        with pytest.raises(kind) as raised:
            await connected.engine.generate(generate())
        assert type(raised.value) is kind
        assert str(raised.value) == str(error)
        assert vars(raised.value) == vars(error)
        assert raised.value.code == error.code

    with_front_end(check, FakeEngine(failure=error))


def test_error_of_a_class_that_front_ends_do_not_know_is_its_base() -> None:
    async def check(connected: FrontEnd) -> None:
        with pytest.raises(errors.EngineUnavailable) as raised:
            await connected.engine.generate(generate())
        assert (type(raised.value), raised.value.reason) == (errors.EngineUnavailable, "device_died")

    with_front_end(check, FakeEngine(failure=WorkerLost("It died.", reason="device_died")))


def test_exception_breaks_its_call_alone_and_is_logged_where_it_was(caplog: pytest.LogCaptureFixture) -> None:
    engine = FakeEngine(failure=ZeroDivisionError("a bug"))

    async def check(connected: FrontEnd) -> None:
        with pytest.raises(CallBroken):
            await connected.engine.generate(generate())
        assert "ZeroDivisionError" in caplog.text
        engine.failure = None
        assert (await connected.engine.generate(generate())).model == "lyrics-zh"

    with_front_end(check, engine)


def test_result_that_cannot_be_sent_breaks_its_call_alone(caplog: pytest.LogCaptureFixture) -> None:
    class Huge(FakeEngine):
        async def source_tokens(self, *_: Any) -> list[int]:
            return [2**70]

    async def check(connected: FrontEnd) -> None:
        with pytest.raises(CallBroken):
            await connected.engine.source_tokens(None, "de", "en", [""])
        assert (await connected.engine.generate(generate())).model == "lyrics-zh"

    with_front_end(check, Huge())


class Waiting(FakeEngine):
    """Calls wait until `go` is set. seen: the origins of the calls."""

    def __init__(self) -> None:
        super().__init__()
        self.go, self.waiting, self.cancelled = asyncio.Event(), 0, 0
        self.seen = list[RequestOrigin]()

    async def generate(self, request: Any) -> Any:
        self.seen.append(ORIGIN.get())
        self.waiting += 1
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.waiting -= 1
        return await super().generate(request)


def test_cancelled_call_is_cancelled_in_the_engine() -> None:
    engine = Waiting()

    async def check(connected: FrontEnd) -> None:
        calls = [asyncio.create_task(connected.engine.generate(generate(seed=seed))) for seed in range(3)]
        await until(lambda: engine.waiting == 3)
        calls[1].cancel()
        await until(lambda: engine.waiting == 2)
        engine.go.set()
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert isinstance(results[1], asyncio.CancelledError)
        assert [results[i].continuations[0].seed for i in (0, 2)] == [0, 2]
        assert engine.cancelled == 1

    with_front_end(check, engine)


def test_client_and_deadline_of_the_request_are_those_of_the_call() -> None:
    engine = Waiting()
    engine.go.set()

    async def check(connected: FrontEnd) -> None:
        origin = RequestOrigin("key abc", 1234.5)
        ORIGIN.set(origin)
        await connected.engine.generate(generate())
        assert engine.seen == [origin]

    with_front_end(check, engine)


def test_work_of_a_request_is_recorded_where_it_is_logged() -> None:
    async def recorded(engine: Any) -> RequestWork:
        CURRENT_WORK.set(work := RequestWork())
        await engine.translate([RICH])
        async with engine.stream_generation(generate(n=2)) as stream:
            [delta async for delta in stream.deltas()]
        return work

    async def check(connected: FrontEnd) -> None:
        work = await recorded(connected.engine)
        expected = await recorded(FakeEngine())
        assert (work.sequences, work.model, work.failed) == (expected.sequences, expected.model, expected.failed)
        connected.server.engine.failure = errors.UnknownPair("No.")  # type: ignore[attr-defined]
        with pytest.raises(errors.UnknownPair):
            await connected.engine.translate([RICH])
        current = CURRENT_WORK.get()
        assert current is not None
        assert current.failed == "unknown_pair"

    with_front_end(check)


def test_end_of_a_front_end_cancels_its_calls_and_no_others() -> None:
    engine = Waiting()

    async def run() -> None:
        server = EngineServer(engine, own_parts(engine))
        lost = list[None]()
        async with front_end(engine, server) as other:
            async with front_end(engine, server, on_loss=lambda: lost.append(None)) as connected:
                mine = [asyncio.create_task(connected.engine.generate(generate())) for _ in range(2)]
                others = asyncio.create_task(other.engine.generate(generate()))
                await until(lambda: engine.waiting == 3)
                connected.connection.link.abort()
                await until(lambda: engine.waiting == 1)
                for result in await asyncio.gather(*mine, return_exceptions=True):
                    assert isinstance(result, errors.EngineUnavailable)
                assert len(server.front_ends) == 1
            engine.go.set()
            assert (await others).model == "lyrics-zh"

    asyncio.run(run())


def test_end_of_the_engine_process_fails_calls_at_once() -> None:
    engine, lost = Waiting(), list[None]()

    async def run() -> None:
        async with front_end(engine, on_loss=lambda: lost.append(None)) as connected:
            call = asyncio.create_task(connected.engine.generate(generate()))
            await until(lambda: engine.waiting == 1)
            connected.accepted.link.abort()
            with pytest.raises(errors.EngineUnavailable, match="stopped"):
                await call
            assert lost == [None]
            with pytest.raises(errors.EngineUnavailable, match="stopped"):
                await connected.engine.generate(generate())

    asyncio.run(run())


async def text_of(opened: Any) -> tuple[dict[int, str], Any]:
    texts = dict[int, str]()
    async with opened as stream:
        async for delta in stream.deltas():
            texts[delta.index] = texts.get(delta.index, "") + delta.text
        return texts, stream.result


def test_streams_have_the_text_and_the_result_of_direct_ones() -> None:
    async def check(connected: FrontEnd) -> None:
        for opened in (
            lambda engine: engine.stream_translation(RICH),
            lambda engine: engine.stream_generation(generate(n=3)),
        ):
            assert await text_of(opened(connected.engine)) == await text_of(opened(FakeEngine()))

    with_front_end(check)


def test_tokens_of_a_stream_cross() -> None:
    token = WrittenToken(4, "分", -0.25, ((4, "分", -0.25), (5, "开", -1.5)))

    class Tokens(FakeEngine):
        def stream_generation(self, request: Any) -> Any:
            async def work(show: ShowText) -> Any:
                show("分", 1, [token])
                return await self.generate(request)

            return TextStream.opened(work)

    async def check(connected: FrontEnd) -> None:
        async with connected.engine.stream_generation(generate()) as stream:
            (delta,) = [delta async for delta in stream.deltas()]
        assert (delta.text, delta.index, delta.tokens) == ("分", 1, (token,))

    with_front_end(check, Tokens())


def test_stream_fails_as_a_direct_one_before_and_after_its_first_text() -> None:
    early, late = errors.TextTooLong("No.", field="q"), errors.EngineUnavailable("Gone.")
    engine = FakeEngine(failure=early)

    async def check(connected: FrontEnd) -> None:
        with pytest.raises(errors.TextTooLong):
            async with connected.engine.stream_translation(RICH):
                raise AssertionError("it opened")
        engine.failure, engine.late_failure = None, late
        async with connected.engine.stream_translation(RICH) as stream:
            (first, *_) = await stream.taken()
            assert first.text
            with pytest.raises(errors.EngineUnavailable):
                [delta async for delta in stream.deltas()]

    with_front_end(check, engine)


class Fountain(FakeEngine):
    """Its streams write for as long as they are open. written: letters; open_streams: now."""

    written = open_streams = 0

    @asynccontextmanager
    async def stream_generation(self, request: Any) -> Any:  # type: ignore[override]
        async def work(show: ShowText) -> Any:
            while True:
                show("x" * 20_000, 0)
                self.written += 20_000
                await asyncio.sleep(0)

        self.open_streams += 1
        try:
            async with TextStream.opened(work) as stream:
                yield stream
        finally:
            self.open_streams -= 1


def test_left_stream_ends_in_the_engine() -> None:
    engine = Fountain()

    async def check(connected: FrontEnd) -> None:
        async with connected.engine.stream_generation(generate()) as stream:
            await stream.taken()
            assert engine.open_streams == 1
        await until(lambda: engine.open_streams == 0)

    with_front_end(check, engine)


def test_text_for_a_front_end_that_does_not_read_is_merged_and_not_queued() -> None:
    engine = Fountain()

    async def run() -> None:
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        loop, accepted = asyncio.get_running_loop(), await EngineServer(engine, own_parts(engine)).connect(ours)
        request = msgspec.Raw(codec.encode_value((generate(),)))
        call = codec.Call(1, "stream_generation", "", math.inf, request)
        await loop.sock_sendall(theirs, codec.frame([codec.encode_value(call)]))
        await until(lambda: not accepted.link.has_room)
        written = engine.written
        await until(lambda: engine.written > written + MERGED)
        splitter, longest = FrameSplitter(), 0
        async with asyncio.timeout(PATIENCE_S):
            while longest <= MERGED:
                for body in splitter.bodies(await loop.sock_recv(theirs, 1 << 20)):
                    for message in codec.to_front_end(body):
                        if isinstance(message, codec.Streamed):
                            longest = max(longest, *(len(delta.text) for delta in message.deltas))
        theirs.close()
        await until(lambda: engine.open_streams == 0)

    asyncio.run(run())


def test_state_is_known_at_the_start_and_follows_the_engine() -> None:
    engine = FakeEngine()

    async def check(connected: FrontEnd) -> None:
        assert connected.engine.status() == engine.status()
        assert repr(connected.engine.models()) == repr(engine.models())
        engine.pool_status = PoolStatus(False, {"cpu": "restarting"}, 4, ("cpu is restarting.",), 1, 2, 3)
        engine.loaded = engine.loaded[1:]
        await until(lambda: connected.engine.status() == engine.pool_status and len(connected.engine.models()) == 3)

    with_front_end(check, engine)


def test_scores_that_cannot_be_sent_keep_no_model_from_front_ends() -> None:
    engine = FakeEngine(loaded=[replace(translator("de", "en"), scores={"x": 2**70}), LYRICIST])

    async def check(connected: FrontEnd) -> None:
        assert [(model.name, dict(model.scores)) for model in connected.engine.models()] == [
            ("tiny-de-en", {}),
            ("lyrics-zh", {}),
        ]

    with_front_end(check, engine)


@pytest.mark.parametrize("parameters", [True, 2**64])
def test_model_that_cannot_be_sent_is_left_out_and_the_others_are_offered(
    parameters: int, caplog: pytest.LogCaptureFixture
) -> None:
    engine = FakeEngine(loaded=[LYRICIST])

    async def check(connected: FrontEnd) -> None:
        odd = replace(translator("de", "en"), name="odd", parameters=parameters)
        engine.loaded = [odd, LYRICIST, translator("de", "en")]
        await until(lambda: len(connected.engine.models()) > 1)
        assert [model.name for model in connected.engine.models()] == ["lyrics-zh", "tiny-de-en"]
        engine.loaded = [odd]
        await until(lambda: connected.engine.models() == [])
        engine.loaded = [LYRICIST]
        await until(lambda: connected.engine.models() != [])

    with_front_end(check, engine)
    assert "odd is not offered" in caplog.text


def test_silent_engine_process_is_neither_ready_nor_alive_until_it_is_heard_of_again() -> None:
    engine = FakeEngine()
    now_s = 100.0

    async def run() -> None:
        nonlocal now_s
        server = EngineServer(engine, own_parts(engine), alive_s=0.01)
        async with front_end(engine, server, hang_timeout_s=0.4, clock=lambda: now_s) as connected:

            def heard_now() -> bool:
                return connected.connection.heard_at_s == now_s

            for _ in range(10):  # signs of life come, though nothing changes
                now_s += 0.3
                await until(heard_now)
            assert connected.engine.alive and connected.engine.status().ready
            accepted = set(server.front_ends)
            server.front_ends.clear()  # as one that hangs: nothing is sent
            now_s += 0.5
            await until(lambda: not connected.engine.alive)
            status = connected.engine.status()
            assert not status.ready
            assert status.problems[0].startswith("The engine process has not been heard of")
            server.front_ends |= accepted
            await until(lambda: connected.engine.alive and connected.engine.status().ready)

    asyncio.run(run())


def test_number_that_cannot_be_sent_is_the_request_s_fault() -> None:
    async def check(connected: FrontEnd) -> None:
        with pytest.raises(errors.InvalidRequest, match="too large"):
            await connected.engine.score(ScoreQuery("分开", ids=(10**25,)))
        assert await connected.engine.translate([RICH])

    with_front_end(check)


def test_call_that_the_engine_cancels_itself_is_broken_and_does_not_wait() -> None:
    class Cancelling(FakeEngine):
        async def curves(self, name: str) -> Any:
            raise asyncio.CancelledError

    async def check(connected: FrontEnd) -> None:
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(CallBroken):
                await connected.engine.curves("lyrics-zh")

    with_front_end(check, Cancelling())


def test_change_of_models_is_seen_by_every_front_end_before_it_is_answered() -> None:
    class Loading(FakeEngine):
        async def load_model(self, name: str) -> Any:
            change = await super().load_model("lyrics-zh")
            self.loaded = [replace(LYRICIST, name=name)]
            return change

    engine = Loading()

    async def run() -> None:
        server = EngineServer(engine, own_parts(engine))
        async with front_end(engine, server) as one, front_end(engine, server) as two:
            await one.engine.load_model("new")
            assert [[model.name for model in each.engine.models()] for each in (one, two)] == [["new"], ["new"]]

    asyncio.run(run())


def test_room_of_a_source_is_asked_once_until_the_models_change() -> None:
    class Counting(FakeEngine):
        asked = 0

        async def source_room(self, *pair: Any) -> int:
            self.asked += 1
            if pair[1] == "xx":
                raise errors.UnknownPair("No.", field="target")
            return self.room

    engine = Counting()

    async def check(connected: FrontEnd) -> None:
        rooms = [await connected.engine.source_room(None, "de", "en") for _ in range(3)]
        assert (rooms, engine.asked) == ([256] * 3, 1)
        for _ in range(2):
            with pytest.raises(errors.UnknownPair):
                await connected.engine.source_room(None, "xx", "en")
        assert engine.asked == 3
        engine.room, engine.loaded = 31, engine.loaded[:1]
        await until(lambda: len(connected.engine.models()) == 1)
        assert await connected.engine.source_room(None, "de", "en") == 31

    with_front_end(check, engine)


def test_draining_service_refuses_in_its_front_ends() -> None:
    engine = FakeEngine()

    def refused(connected: FrontEnd) -> bool:
        try:
            connected.engine.check_room()
        except errors.EngineUnavailable as refusal:
            return refusal.reason == "draining"
        return False

    async def check(connected: FrontEnd) -> None:
        assert not refused(connected)
        engine.full = errors.EngineUnavailable("The service is shutting down.", reason="draining")
        await until(lambda: refused(connected))

    with_front_end(check, engine)


def test_full_service_refuses_in_its_front_ends_for_a_moment() -> None:
    engine = FakeEngine()
    now_s = 100.0

    def reason(connected: FrontEnd, client: str) -> str | None:
        token = ORIGIN.set(RequestOrigin(client))
        try:
            connected.engine.check_room()
        except errors.Overloaded as refusal:
            return refusal.reason
        finally:
            ORIGIN.reset(token)
        return None

    async def refuse(connected: FrontEnd, full: str | None) -> None:
        ORIGIN.set(RequestOrigin("anna"))
        engine.failure = errors.Overloaded("Later.", retry_after_s=2, reason="overloaded_tokens")
        engine.full = None if full is None else errors.Overloaded("Later.", retry_after_s=2, reason=full)
        with pytest.raises(errors.Overloaded):
            await connected.engine.translate([RICH])

    async def check(connected: FrontEnd) -> None:
        nonlocal now_s
        await refuse(connected, None)  # a smaller request finds room
        assert reason(connected, "anna") is None
        await refuse(connected, "overloaded_client")
        assert (reason(connected, "anna"), reason(connected, "berta")) == ("overloaded_client", None)
        await refuse(connected, "overloaded_requests")
        assert reason(connected, "berta") == "overloaded_requests"
        await until(lambda: connected.connection.refusal is not None)  # of all clients, as the engine says it now
        now_s += 0.02
        assert reason(connected, "berta") == "overloaded_requests"
        engine.full = None
        await until(lambda: reason(connected, "berta") is None)

    with_front_end(check, engine, clock=lambda: now_s)
