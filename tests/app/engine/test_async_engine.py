"""The pool over a real device process with tiny networks. All fast tests of such a pool stand here: for another file,
another process of pytest would start its own."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from app import errors
from app.engine.interface import GenerationRequest
from app.engine.metrics import CURRENT_WORK, RequestWork
from app.engine.protocol import messages as m
from models import checkpoint as checkpoints
from models.decoding.decoder import decode
from models.decoding.options import DecodingOptions, TokenRules
from models.interface import Prompt
from models.networks.loading import load_network
from tests.app.engine.engine_thread import Running, generate, options, spied, together
from tests.request_builders import generation_request, translation_request


def test_a_translation_is_what_offline_beam_search_finds(running: Running, tiny_checkpoints: Path) -> None:
    requests = [
        translation_request(text, "de", "en", alternatives=1) for text in ("ich möchte ein bier", "der hund schläft")
    ]
    answers = running.do(running.pool.translate(requests))
    checkpoint = checkpoints.read(tiny_checkpoints / "tiny-de-en")
    rules = TokenRules(checkpoint.config.eos, checkpoint.config.suppressed)
    for request, answer in zip(requests, answers, strict=True):
        source = checkpoint.source_ids(request.text)
        expected = decode(
            load_network(checkpoint),
            rules,
            [Prompt(source, checkpoint.config.target_prefix)],
            DecodingOptions(max_new_tokens=min(32, 2 * len(source) + 20), beam_size=4, n_best=4),
        )[0]
        texts = list(dict.fromkeys(checkpoint.decode(h.tokens) for h in expected))
        assert answer.text == texts[0]
        assert answer.alternatives == tuple(text for text in texts[1:] if text)[:1]
        assert answer.text.split()[-12:] == ["dog"] * 12
        assert answer.finish_reason == "repetition"
        assert answer.model == "tiny-de-en"


def test_long_texts_can_be_measured_before_they_are_sent(running: Running) -> None:
    pool = running.pool
    rooms = [running.do(pool.source_room(*pair)) for pair in ((None, "de", "en"), ("tiny-en-es", "en", "es"))]
    assert rooms == [31, 31]
    counts = running.do(pool.source_tokens(None, "de", "en", ["ich möchte", "", "ich " * 31, "ich " * 3000]))
    assert counts == [2, 0, 31, 3000]
    assert running.do(pool.translate([translation_request("ich " * 31, "de", "en")]))[0].text
    with pytest.raises(errors.TextTooLong):
        running.do(pool.translate([translation_request("ich " * 32, "de", "en")]))
    with pytest.raises(errors.UnknownPair):
        running.do(pool.source_room(None, "de", "es"))
    with pytest.raises(errors.UnknownModel):
        running.do(pool.source_tokens("tiny-en-es", "de", "en", []))


def test_a_pair_is_aligned_on_its_device(running: Running) -> None:
    pair = ("ich möchte ein bier", "i want a beer")
    (words,) = running.do(running.pool.align("tiny-de-en", "de", "en", [pair]))
    assert [pair[1][word.target_start : word.target_end] for word in words] == pair[1].split()
    assert all(pair[0][word.source_start : word.source_end] in pair[0].split() for word in words)
    assert all(0 < word.weight <= 1 for word in words)


def test_models_report_their_devices(running: Running) -> None:
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
    requests = [running.pool.generate(generate(seed=seed)) for seed in range(20)]
    many = running.do(together(*requests))
    assert many[5].continuations[0].text == alone
    assert len({answer.continuations[0].text for answer in many}) > 15


def test_samples_of_one_request_follow_its_seeds(running: Running) -> None:
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
    running.until(lambda: not running.pool.dispatcher.pending, "a waiter was left")


@pytest.mark.parametrize(
    ("query", "kind", "says"),
    [
        (generate(prompt="x分y"), errors.UnknownCharacters, "has never seen x y"),
        (generate(prompt=""), errors.InvalidRequest, "prompt is empty"),
        (generate(prompt="分" * 2001), errors.TextTooLong, "has 2,001 tokens; the model takes 2,000"),
        (generate(max_new_tokens=2001), errors.InvalidRequest, "writes at most 2,000 tokens"),
        (generate(model="tiny-de-en"), errors.UnknownModel, "no lyricist called 'tiny-de-en'"),
    ],
)
def test_impossible_generation_is_refused(
    running: Running, query: GenerationRequest, kind: type[errors.EngineError], says: str
) -> None:
    with pytest.raises(kind, match=says):
        running.do(running.pool.generate(query))


def test_text_that_is_too_long_is_refused(running: Running) -> None:
    requests = [translation_request("ich", "de", "en"), translation_request("ich " * 32, "de", "en")]
    with pytest.raises(errors.TextTooLong, match=r"has 33 tokens; the model takes 32\. Send it in parts"):
        running.do(running.pool.translate(requests))
    assert running.pool.admission.all.requests == 0


def test_long_text_is_tokenized_in_a_thread(running: Running) -> None:
    """The event loop must run at least once during the tokenization."""

    async def scene() -> tuple[bool, Any]:
        task = asyncio.create_task(running.pool.translate([translation_request("ich " * 25_000, "de", "en")]))
        turns = 0
        while not task.done():
            turns += 1
            await asyncio.sleep(0)
        return turns > 5, task.exception()

    others_ran, refused = running.do(scene())
    assert others_ran
    assert "has 25,001 tokens; the model takes 32" in refused.message


def test_tokens_of_cancelled_requests_are_counted(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    wasted: list[int] = []
    monkeypatch.setattr(running.pool.admission, "wasted", lambda model, tokens: wasted.append(tokens))

    async def leave() -> None:
        async with running.pool.stream_generation(generate(max_new_tokens=2000)):
            pass  # the first text has started

    running.do(leave())
    running.until(lambda: sum(wasted) > 2, "nothing was said of what was wasted")
    assert sum(wasted) < 1000


def test_of_a_list_only_the_first_text_must_start_in_time(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = spied(running, monkeypatch)
    running.do(running.pool.translate([translation_request("ich möchte ein bier", "de", "en")] * 5))
    running.do(running.pool.generate(generation_request(prompt="分开", max_new_tokens=3, n=3, seed=1)))
    limited = [bool(message.start_by) for message in sent if isinstance(message, m.Decode)]
    assert limited == [True, False, False, False, False, True, False, False]


@pytest.mark.slow  # a pool of its own
def test_server_is_not_ready_without_a_model_that_it_was_told_to_serve(tiny_checkpoints: Path, tmp_path: Path) -> None:
    root = shutil.copytree(tiny_checkpoints, tmp_path / "c")
    running = Running(options(root, models="tiny-lyrics,de-en"))
    try:
        running.until(lambda: running.pool.models(), "nothing was loaded")
        assert running.do(running.pool.generate(generate()))
        status = running.pool.status()
        assert not status.ready
        assert status.problems == (f"de-en is not in {root}: fetch it with `parlance import de-en --into {root}`.",)
        shutil.copytree(root / "tiny-de-en", root / "opus-mt-de-en")
        running.do(running.pool.load_model("opus-mt-de-en"))
        running.ready()
        [problem] = running.pool.status().problems
        assert problem.startswith(f"{root}/opus-mt-de-en is served for de-en, and it was trained, not imported")
    finally:
        running.close()


def test_server_without_any_model_says_that_it_serves_none(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    running = Running(options(tmp_path, models="nonexist"))
    try:
        running.until(lambda: len(caplog.messages) > 1, "nothing was logged")
        assert caplog.messages == [
            f"nonexist is not in {tmp_path}, and no name on the hub.",
            "Parlance serves no model at all until one is imported or loaded; /health/ready stays 503.",
        ]
        assert not running.pool.status().ready
    finally:
        running.close()


def test_tasks_record_their_work(running: Running) -> None:
    """In the record of an HTTP request."""

    async def recorded() -> RequestWork:
        work = RequestWork()
        CURRENT_WORK.set(work)
        await running.pool.translate([translation_request("ich", "de", "en"), translation_request("ein", "de", "en")])
        assert (work.model, work.sequences, work.failed) == ("tiny-de-en", 2, "")
        assert work.read_tokens > 0 and work.new_tokens > 0
        await running.pool.generate(generate(n=3, max_new_tokens=2))
        return work

    work = running.do(recorded())
    assert (work.model, work.sequences) == ("tiny-lyrics", 5)
