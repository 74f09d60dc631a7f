"""The pool over a real device process with tiny networks."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import threading
import time
from collections.abc import Coroutine, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.engine import errors
from app.engine import messages as m
from app.engine.jobs import AttentionJob, GenerationJob, TranslationJob
from app.engine.pool import Pool, PoolOptions
from models import checkpoint as checkpoints
from models.decoding import DecodingOptions, TokenRules, decode
from models.interface import Prompt
from models.networks import load_network

READY_S = 60.0


class Running:
    """A pool on an event loop of its own."""

    def __init__(self, options: PoolOptions) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.pool = Pool(options)
        self.do(self.pool.start())

    def do(self, work: Coroutine[Any, Any, Any], timeout: float = 60) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(timeout)

    def until(self, condition: Any, what: str) -> None:
        end = time.monotonic() + READY_S
        while not condition():
            assert time.monotonic() < end, f"{what}: {self.pool.status()}"
            time.sleep(0.02)

    def ready(self) -> None:
        self.until(lambda: self.pool.status().ready, "not ready")

    def close(self) -> None:
        self.do(self.pool.stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


def options(root: Path, **change: Any) -> PoolOptions:
    tests = {"devices": "cpu", "cpu_threads": 1, "slots_per_model": 8, "precision": "fp32"}
    return PoolOptions(**{"checkpoints": root, **tests, **change})


@pytest.fixture(scope="module")
def running(tiny_checkpoints: Path) -> Iterator[Running]:
    running = Running(options(tiny_checkpoints))
    try:
        running.ready()
        yield running
    finally:
        running.close()


def generate(**change: Any) -> GenerationJob:
    return GenerationJob(**{"prompt": "分开", "max_new_tokens": 24, "seed": 5, **change})


def spied(running: Running, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is sent to the device process from now on."""
    process = running.pool.devices.all["cpu"].process
    assert process is not None
    sent: list[Any] = []
    send = process.send
    monkeypatch.setattr(process, "send", lambda messages: (sent.extend(messages), send(messages)))
    return sent


async def together(*work: Coroutine[Any, Any, Any]) -> list[Any]:
    return await asyncio.gather(*work, return_exceptions=True)


def test_a_translation_is_what_offline_beam_search_finds(running: Running, tiny_checkpoints: Path) -> None:
    jobs = [TranslationJob(text, "de", "en", alternatives=1) for text in ("ich möchte ein bier", "der hund schläft")]
    answers = running.do(running.pool.translate(jobs))
    checkpoint = checkpoints.read(tiny_checkpoints / "tiny-de-en")
    rules = TokenRules(checkpoint.config.eos, checkpoint.config.suppressed)
    for job, answer in zip(jobs, answers, strict=True):
        source = checkpoint.source_ids(job.text)
        wanted = decode(
            load_network(checkpoint),
            rules,
            [Prompt(source, checkpoint.config.target_prefix)],
            DecodingOptions(max_new_tokens=min(32, 2 * len(source) + 20), beam=4, n_best=4),
        )[0]
        texts = list(dict.fromkeys(checkpoint.decode(h.tokens) for h in wanted))
        assert answer.text == texts[0]
        assert answer.alternatives == tuple(text for text in texts[1:] if text)[:1]
        assert answer.finish_reason == ("stop" if wanted[0].finished else "length")
        assert answer.model == "tiny-de-en"


def test_models_say_where_they_run(running: Running) -> None:
    infos = running.pool.models()
    assert [(i.name, i.kind, i.devices) for i in infos] == [
        ("tiny-de-en", "translator", ("cpu",)),
        ("tiny-en-es", "translator", ("cpu",)),
        ("tiny-lyrics", "lyrics", ("cpu",)),
    ]
    assert infos[0].scores == {"validation": {"bleu": 12.3}}


def test_a_seed_gives_the_same_text_alone_and_among_many(running: Running) -> None:
    alone = running.do(running.pool.generate(generate())).continuations[0].text
    assert len(alone) == 24
    jobs = [running.pool.generate(generate(seed=seed)) for seed in range(20)]
    many = running.do(together(*jobs))
    assert many[5].continuations[0].text == alone
    assert len({answer.continuations[0].text for answer in many}) > 15


def test_samples_of_one_request_are_those_of_its_seeds(running: Running) -> None:
    answer = running.do(running.pool.generate(generate(n=3, seed=7)))
    assert [c.seed for c in answer.continuations] == [7, 8, 9]
    ninth = running.do(running.pool.generate(generate(seed=9)))
    assert answer.continuations[2].text == ninth.continuations[0].text


def test_a_drawn_seed_repeats_its_text(running: Running) -> None:
    first = running.do(running.pool.generate(generate(seed=None))).continuations[0]
    assert running.do(running.pool.generate(generate(seed=first.seed))).continuations[0] == first


def test_a_stop_string_ends_the_text_before_it(running: Running) -> None:
    whole = running.do(running.pool.generate(generate(max_new_tokens=200))).continuations[0].text
    stop = whole[30:32]
    cut = running.do(running.pool.generate(generate(max_new_tokens=200, stop=(stop, "absent")))).continuations[0]
    assert cut.text == whole[: whole.index(stop)]
    assert cut.finish_reason == "stop"
    running.until(lambda: not running.pool.switchboard._waiters, "a waiter was left")


@pytest.mark.parametrize(
    ("job", "kind", "says"),
    [
        (generate(prompt="x分y"), errors.UnknownCharacters, "has never seen x y"),
        (generate(prompt=""), errors.InvalidRequest, "prompt is empty"),
        (generate(prompt="分" * 2001), errors.TextTooLong, "has 2,001 tokens; the model takes 2,000"),
        (generate(max_new_tokens=2001), errors.InvalidRequest, "writes at most 2,000 tokens"),
        (generate(model="tiny-de-en"), errors.UnknownModel, "no lyricist called 'tiny-de-en'"),
    ],
)
def test_what_cannot_be_generated_is_said(
    running: Running, job: GenerationJob, kind: type[errors.EngineError], says: str
) -> None:
    with pytest.raises(kind, match=says):
        running.do(running.pool.generate(job))


def test_a_text_that_is_too_long_is_refused_whole(running: Running) -> None:
    jobs = [TranslationJob("ich", "de", "en"), TranslationJob("ich " * 32, "de", "en")]
    with pytest.raises(errors.TextTooLong, match=r"has 33 tokens; the model takes 32\. Send it in parts"):
        running.do(running.pool.translate(jobs))
    assert running.pool.admission.requests == 0


def test_attention_follows_the_translation_and_a_forced_target(running: Running) -> None:
    text = running.do(running.pool.translate([TranslationJob("ich möchte ein bier", "de", "en")]))[0].text
    own = running.do(running.pool.attention(AttentionJob("ich möchte ein bier", model="tiny-de-en")))
    assert (own.target_text, own.forced) == (text, False)
    forced = running.do(
        running.pool.attention(AttentionJob("ich möchte ein bier", target="i want a beer", model="tiny-de-en"))
    )
    assert [t.piece for t in forced.input_tokens] == ["<s>", "i", "want", "a", "beer"]
    assert [t.piece for t in forced.output_tokens] == ["i", "want", "a", "beer", "</s>"]
    assert [t.piece for t in forced.source_tokens] == ["ich", "möchte", "ein", "bier", "</s>"]
    for kind in ("encoder", "decoder", "cross"):
        for heads in forced.maps[kind].weights:
            for head in heads:
                assert len(head) == 5
                assert all(abs(sum(row) - 1) < 1e-6 for row in head)
    assert all(forced.maps["decoder"].weights[0][0][q][k] == 0 for q in range(5) for k in range(q + 1, 5))


@pytest.mark.parametrize(
    ("job", "says"),
    [
        (AttentionJob("ich", model="tiny-lyrics"), "is a lyricist and has no attention"),
        (AttentionJob("ich"), "name one of tiny-de-en, tiny-en-es"),
        (AttentionJob("ich", model="tiny-de-en", layers=(9,)), "There is no layer 9"),
        (AttentionJob("ich", model="tiny-de-en", target="i " * 40), "target has 40 tokens"),
    ],
)
def test_attention_that_cannot_be_shown(running: Running, job: AttentionJob, says: str) -> None:
    with pytest.raises(errors.InvalidRequest, match=says):
        running.do(running.pool.attention(job))


def test_attention_that_would_be_too_large_is_refused_before_anything_is_computed(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = spied(running, monkeypatch)
    job = AttentionJob("ich möchte ein bier", target="i want a beer", model="tiny-de-en", max_values=600)
    with pytest.raises(errors.InvalidRequest, match="would hold 600 weights and the limit is 599"):
        running.do(running.pool.attention(replace(job, max_values=599)))
    with pytest.raises(errors.InvalidRequest, match="would hold 248 weights"):  # with one target token at least
        running.do(running.pool.attention(replace(job, target=None, max_values=247)))
    for choice in ({"layers": (0, 2)}, {"heads": (-5,)}):
        with pytest.raises(errors.InvalidRequest, match=r"There is no (layer 2|head -5): this model has"):
            running.do(running.pool.attention(replace(job, target=None, **choice)))
    assert sent == []
    report = running.do(running.pool.attention(job))
    assert sum(len(each.layers) * len(each.heads) * 25 for each in report.maps.values()) == 600
    assert [type(message) for message in sent] == [m.Attend]
    assert sent[0].deadline > time.monotonic()


async def heard(opened: Any) -> tuple[dict[int, str], Any]:
    texts: dict[int, str] = {}
    async with opened as stream:
        async for delta in stream.deltas():
            texts[delta.index] = texts.get(delta.index, "") + delta.text
        return texts, stream.result


def test_streams_join_to_the_answers_without(running: Running) -> None:
    for text in ("ich möchte ein bier", "der hund schläft", "\u200b"):
        job = TranslationJob(text, "de", "en", alternatives=1)
        texts, result = running.do(heard(running.pool.stream_translation(job)))
        (whole,) = running.do(running.pool.translate([job]))
        assert texts == {0: whole.text}
        assert replace(result, usage=whole.usage) == whole
    job = generate(n=3, stop=("的街", "\n"), max_new_tokens=60)
    texts, result = running.do(heard(running.pool.stream_generation(job)))
    whole = running.do(running.pool.generate(job))
    assert [texts.get(i, "") for i in range(3)] == [each.text for each in whole.continuations]
    assert result.continuations == whole.continuations
    assert result.usage.first_token_s <= result.usage.total_s


def test_a_stream_that_is_refused_is_not_opened(running: Running) -> None:
    with pytest.raises(errors.TextTooLong, match="has 33 tokens"):
        running.do(heard(running.pool.stream_translation(TranslationJob("ich " * 32, "de", "en"))))


def test_leaving_a_stream_cancels_its_sequences(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = spied(running, monkeypatch)

    async def leave() -> None:
        async with running.pool.stream_generation(generate(max_new_tokens=2000, n=4)) as stream:
            await anext(stream.deltas())

    running.do(leave())
    asked = {message.id for message in sent if isinstance(message, m.Decode)}
    assert len(asked) == 4
    assert {message.id for message in sent if isinstance(message, m.Cancel)} == asked
    assert running.pool.admission.requests == 0


def test_a_long_text_is_tokenized_aside(running: Running) -> None:
    """While it is, the event loop serves others: it is seen to run at least once in between."""

    async def scene() -> tuple[bool, Any]:
        asked = asyncio.create_task(running.pool.translate([TranslationJob("ich " * 25_000, "de", "en")]))
        turns = 0
        while not asked.done():
            turns += 1
            await asyncio.sleep(0)
        return turns > 5, asked.exception()

    others_ran, refused = running.do(scene())
    assert others_ran
    assert "has 25,001 tokens; the model takes 32" in refused.message


def test_whoever_stops_waiting_frees_the_slots(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = spied(running, monkeypatch)

    async def leave() -> None:
        task = asyncio.create_task(running.pool.generate(generate(max_new_tokens=2000, n=8)))
        while len(sent) < 8:
            await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    running.do(leave())
    asked = {message.id for message in sent if isinstance(message, m.Decode)}
    cancelled = {message.id for message in sent if isinstance(message, m.Cancel)}
    assert len(asked) == 8
    assert cancelled == asked
    assert running.pool.admission.requests == 0
    assert len(running.do(running.pool.generate(generate())).continuations[0].text) == 24


def test_what_was_computed_for_those_who_left_counts_as_work(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    wasted: list[int] = []
    monkeypatch.setattr(running.pool.admission, "wasted", lambda model, tokens: wasted.append(tokens))

    async def leave() -> None:
        async with running.pool.stream_generation(generate(max_new_tokens=2000)):
            pass  # the first text is there

    running.do(leave())
    running.until(lambda: sum(wasted) > 2, "nothing was said of what was wasted")
    assert sum(wasted) < 1000


def test_a_killed_process_fails_what_it_had_and_another_takes_over(running: Running) -> None:
    device = running.pool.devices.all["cpu"]
    assert device.process is not None

    async def kill_in_flight() -> list[Any]:
        work = [asyncio.create_task(running.pool.generate(generate(max_new_tokens=2000))) for _ in range(4)]
        await asyncio.sleep(0.1)
        os.kill(device.process.pid, signal.SIGKILL)  # type: ignore[union-attr,arg-type]
        return await asyncio.gather(*work, return_exceptions=True)

    for outcome in running.do(kill_in_flight()):
        assert isinstance(outcome, errors.EngineUnavailable)
    status = running.pool.status()
    assert not status.ready
    assert status.problems == ("cpu is restarting.",)
    running.ready()
    assert len(running.do(running.pool.generate(generate())).continuations[0].text) == 24
    assert device.outstanding_tokens == 0


def test_deadlines_overload_and_the_end(tiny_checkpoints: Path, tmp_path: Path) -> None:
    """One pool with tight limits, one broken checkpoint beside good ones, and its end."""
    root = shutil.copytree(tiny_checkpoints, tmp_path / "c")
    shutil.copytree(root / "tiny-lyrics", root / "torn")
    (root / "torn" / checkpoints.WEIGHTS).write_bytes(b"")
    running = Running(options(root, max_inflight_requests=2, request_timeout_s=0.25))
    try:
        running.ready()
        assert running.pool.status().problems == (
            f"{root}/torn/model.safetensors does not match its checksum; the model was not loaded.",
        )
        job = generate(max_new_tokens=2000, model="tiny-lyrics")
        outcomes = running.do(together(*[running.pool.generate(job) for _ in range(3)]))
        kinds = [type(outcome) for outcome in outcomes]
        assert kinds == [errors.DeadlineExceeded, errors.DeadlineExceeded, errors.Overloaded]
        assert "within 0.25 seconds" in outcomes[0].message
        assert outcomes[2].retry_after_s >= 1
        assert running.pool.admission.requests == 0
        pid = running.pool.devices.all["cpu"].process.pid  # type: ignore[union-attr]
    finally:
        running.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)  # type: ignore[arg-type]
    assert not running.pool.status().ready


def test_before_the_checkpoints_are_read_everything_may_be_tried_again(tiny_checkpoints: Path) -> None:
    pool = Pool(options(tiny_checkpoints))  # not started
    asked: list[Coroutine[Any, Any, Any]] = [
        pool.translate([TranslationJob("ich", "de", "en")]),
        pool.generate(generate()),
        pool.attention(AttentionJob("ich")),
    ]
    for outcome in asyncio.run(together(*asked)):
        assert isinstance(outcome, errors.EngineUnavailable)


def test_an_end_while_the_checkpoints_are_read_starts_no_process(tiny_checkpoints: Path) -> None:
    async def scene() -> Pool:
        pool = Pool(options(tiny_checkpoints))
        await pool.start()
        await pool.stop()
        return pool

    assert asyncio.run(scene()).devices.all["cpu"].process is None


def test_of_a_list_only_the_first_text_must_start_in_time(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = spied(running, monkeypatch)
    running.do(running.pool.translate([TranslationJob("ich möchte ein bier", "de", "en")] * 5))
    running.do(running.pool.generate(GenerationJob(prompt="分开", max_new_tokens=3, n=3, seed=1)))
    limited = [bool(message.start_by) for message in sent if isinstance(message, m.Decode)]
    assert limited == [True, False, False, False, False, True, False, False]
