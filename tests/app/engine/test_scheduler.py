"""The scheduler over real tiny networks, in this process; what it says is held against `models.decoding`."""

from __future__ import annotations

import logging
import random
import time
import weakref
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from app.engine import messages as m
from app.engine.runner import Runner
from app.engine.scheduler import Scheduler
from models import checkpoint as checkpoints
from models.decoding import DecodingOptions, TokenRules, decode
from models.interface import Prompt
from models.networks import load_network

FAR = 1e12


@pytest.fixture
def scheduler(tiny_checkpoints: Path) -> Scheduler:
    scheduler = Scheduler(Runner("cpu", 1, slots=8))
    for name in ("tiny-de-en", "tiny-lyrics"):
        reply = scheduler.handle(m.Load(name, str(tiny_checkpoints / name)))
        assert isinstance(reply[0], m.Loaded)
        scheduler.lanes[name].model.gradual = False  # or what starts when would hang on the clock
    return scheduler


def run(scheduler: Scheduler, most: int = 2000) -> list[Any]:
    replies: list[Any] = []
    for _ in range(most):
        if not scheduler.busy:
            return replies
        replies += scheduler.step()
    raise AssertionError("the scheduler is still busy")


def requests(count: int) -> list[m.Decode]:
    """Every kind of request for both kinds of model, many more than there are slots."""
    chance = random.Random(4)
    made = []
    for number in range(count):
        kind = chance.choice(["greedy", "beam", "sample"])
        options: dict[str, Any] = {"greedy": {}, "beam": {"beam": 3, "n_best": 2}, "sample": {"temperature": 0.9}}[kind]
        if kind == "sample":
            options = {**options, "top_k": chance.choice([0, 5]), "top_p": 0.9, "seed": number}
        if chance.random() < 0.5:
            source, prefix = [chance.randrange(4, 12) for _ in range(chance.randrange(1, 9))] + [3], [2]
            model = "tiny-de-en"
        else:
            source, prefix = [], [chance.randrange(1, 20) for _ in range(chance.randrange(1, 9))]
            model = "tiny-lyrics"
        made.append(m.Decode(number, model, source, prefix, FAR, chance.randrange(1, 16), **options))
    return made


def alone(folder: Path, request: m.Decode) -> list[list[int]]:
    checkpoint = checkpoints.read(folder / request.model)
    rules = TokenRules(checkpoint.config.eos, checkpoint.config.suppressed)
    options = DecodingOptions(
        max_new_tokens=request.max_new_tokens,
        beam=request.beam,
        n_best=request.n_best,
        temperature=request.temperature,
        top_k=request.top_k,
        top_p=request.top_p,
        seed=request.seed,
    )
    prompt = Prompt(tuple(request.source), tuple(request.prefix))
    return [list(h.tokens) for h in decode(load_network(checkpoint), rules, [prompt], options)[0]]


def test_sixty_mixed_requests_in_eight_slots_answer_as_each_alone(scheduler: Scheduler, tiny_checkpoints: Path) -> None:
    asked = requests(60)
    for request in asked:
        assert scheduler.handle(request) == []
    replies = run(scheduler)
    finished = {r.id: [h.tokens for h in r.hypotheses] for r in replies if isinstance(r, m.Finished)}
    assert finished.keys() == {request.id for request in asked}
    for request in asked:
        assert finished[request.id] == alone(tiny_checkpoints, request), request


def test_a_short_request_overtakes_a_long_one_that_came_before(scheduler: Scheduler) -> None:
    scheduler.handle(m.Decode(1, "tiny-lyrics", [], [1], FAR, 500))
    for _ in range(5):
        scheduler.step()
    scheduler.handle(m.Decode(2, "tiny-lyrics", [], [2], FAR, 3))
    replies = [reply for _ in range(3) for reply in scheduler.step()]
    assert [r.id for r in replies if isinstance(r, m.Finished)] == [2]


def test_tokens_come_step_by_step_to_those_who_want_them_and_join_to_the_answer(scheduler: Scheduler) -> None:
    scheduler.handle(m.Decode(1, "tiny-lyrics", [], [1, 2], FAR, 12, wants_tokens=True))
    scheduler.handle(m.Decode(2, "tiny-lyrics", [], [3], FAR, 12))
    replies = run(scheduler)
    streamed = [r.tokens for r in replies if isinstance(r, m.Tokens)]
    (answer,) = [r for r in replies if isinstance(r, m.Finished) and r.id == 1]
    assert streamed == [{1: [token]} for token in answer.hypotheses[0].tokens[:-1]]  # the last is in the answer


@pytest.mark.parametrize("n_best", [1, 4])
def test_what_all_hypotheses_of_a_beam_agree_on_comes_before_its_answer(scheduler: Scheduler, n_best: int) -> None:
    asked = m.Decode(1, "tiny-de-en", [4, 5, 6, 7, 3], [2], FAR, 30, beam=4, n_best=n_best, wants_tokens=True)
    scheduler.handle(asked)
    scheduler.handle(m.Decode(2, "tiny-de-en", [5, 3], [2], FAR, 30, beam=4))
    by_step = []
    while scheduler.busy:
        by_step.append(scheduler.step())
    replies = [(i, reply) for i, step in enumerate(by_step) for reply in step]
    told = [(i, reply.tokens) for i, reply in replies if isinstance(reply, m.Tokens)]
    streamed = [(i, request, token) for i, new in told for request, tokens in new.items() for token in tokens]
    ((end, answer),) = [(i, r) for i, r in replies if isinstance(r, m.Finished) and r.id == 1]
    tokens = [token for _, request, token in streamed if request == 1]
    assert len(tokens) == len(streamed)  # the other did not ask for any
    assert len({i for i, *_ in streamed if i < end}) > 2
    assert tokens == answer.hypotheses[0].tokens[: len(tokens)]
    assert len(answer.hypotheses) == n_best


def test_a_cancelled_request_frees_its_rows_at_once_waiting_or_running(scheduler: Scheduler) -> None:
    for number in range(12):  # eight run, four wait
        scheduler.handle(m.Decode(number, "tiny-lyrics", [], [1], FAR, 1000))
    scheduler.step()
    decoder = scheduler.lanes["tiny-lyrics"].model.decoder
    assert decoder.free == 0
    for number in (3, 11):
        scheduler.handle(m.Cancel(number))
    assert decoder.free == 1
    scheduler.handle(m.Cancel(99))  # nobody
    for number in range(12):
        scheduler.handle(m.Cancel(number))
    assert decoder.free == 8
    assert not scheduler.busy


def test_the_expired_get_no_compute(scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler.handle(m.Decode(1, "tiny-lyrics", [], [1], time.monotonic() - 1, 5))
    model = scheduler.lanes["tiny-lyrics"].model
    monkeypatch.setattr(model, "join", lambda requests: pytest.fail("prefilled an expired request"))
    (reply,) = scheduler.step()
    assert isinstance(reply, m.Failed)
    assert (reply.id, reply.code) == (1, "deadline_exceeded")


def test_who_waited_too_long_for_a_slot_gets_no_compute_and_who_has_one_goes_on(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.monotonic()
    for number in range(9):  # one more than there are slots
        scheduler.handle(m.Decode(number, "tiny-lyrics", [], [1], FAR, 5, start_by=now + 100))
    scheduler.step()
    monkeypatch.setattr(time, "monotonic", lambda: now + 101)
    monkeypatch.setattr(scheduler.lanes["tiny-lyrics"].model, "join", lambda requests: pytest.fail("prefilled"))
    replies = run(scheduler)
    assert [(r.id, r.code) for r in replies if isinstance(r, m.Failed)] == [(8, "overloaded")]
    assert sorted(r.id for r in replies if isinstance(r, m.Finished)) == list(range(8))


def test_a_request_that_does_not_fit_fails_alone(scheduler: Scheduler) -> None:
    scheduler.handle(m.Decode(1, "tiny-de-en", [5] * 33, [2], FAR, 5))  # the slots take 32
    scheduler.handle(m.Decode(2, "tiny-de-en", [5, 3], [2], FAR, 5))
    scheduler.handle(m.Decode(3, "tiny-de-en", [5, 3], [2], FAR, 5, beam=9, n_best=1))
    scheduler.handle(m.Decode(4, "nobody", [5, 3], [2], FAR, 5))
    replies = run(scheduler)
    assert [(r.id, r.code) for r in replies if isinstance(r, m.Failed)] == [(1, "invalid_request")]
    assert [r.id for r in replies if isinstance(r, m.Finished)] == [2]


def test_refusals_of_what_no_lane_takes(scheduler: Scheduler) -> None:
    (wide,) = scheduler.handle(m.Decode(3, "tiny-de-en", [5, 3], [2], FAR, 5, beam=9))
    (unknown,) = scheduler.handle(m.Decode(4, "nobody", [5, 3], [2], FAR, 5))
    assert (wide.code, unknown.code) == ("invalid_request", "unknown_model")  # type: ignore[union-attr]


def fails(monkeypatch: pytest.MonkeyPatch, target: Any, name: str, times: int, error: Exception) -> None:
    """The first calls raise; then it works as before."""
    work, left = getattr(target, name), [error] * times

    def broken(*given: Any) -> Any:
        if left:
            raise left.pop()
        return work(*given)

    monkeypatch.setattr(target, name, broken)


def test_a_failed_step_starts_its_lane_afresh_and_nobody_notices(
    scheduler: Scheduler, tiny_checkpoints: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [r for r in requests(20) if r.model == "tiny-lyrics"]
    for request in asked:
        scheduler.handle(request)
    replies = scheduler.step() + scheduler.step()
    fails(monkeypatch, scheduler.lanes["tiny-lyrics"].model.decodable, "step", 1, RuntimeError("a hiccup"))
    replies += run(scheduler)
    finished = {r.id: [h.tokens for h in r.hypotheses] for r in replies if isinstance(r, m.Finished)}
    assert finished == {request.id: alone(tiny_checkpoints, request) for request in asked}


def test_a_step_that_fails_again_or_has_told_tokens_fails_its_lane_only(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = scheduler.lanes["tiny-lyrics"].model.decodable
    scheduler.handle(m.Decode(1, "tiny-lyrics", [], [1], FAR, 50))
    scheduler.handle(m.Decode(2, "tiny-de-en", [5, 3], [2], FAR, 5))
    scheduler.handle(m.Decode(4, "tiny-lyrics", [], [1], FAR, 50, wants_tokens=True))
    scheduler.step()
    fails(monkeypatch, network, "step", 2, RuntimeError("no luck"))
    for unlucky in (4, 1):
        replies = scheduler.step()
        assert [(r.id, r.code) for r in replies if isinstance(r, m.Failed)] == [(unlucky, "engine_failed")]
    scheduler.handle(m.Decode(3, "tiny-lyrics", [], [1], FAR, 5))
    assert sorted(r.id for r in run(scheduler) if isinstance(r, m.Finished)) == [2, 3]


def test_a_step_on_a_lost_device_ends_the_process(scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = RuntimeError("CUDA error: device-side assert triggered")
    scheduler.handle(m.Decode(1, "tiny-lyrics", [], [1], FAR, 50))
    fails(monkeypatch, scheduler.lanes["tiny-lyrics"].model.decodable, "step", 1, lost)
    fails(monkeypatch, scheduler.runner, "check", 1, lost)
    with pytest.raises(RuntimeError, match="device-side assert"):
        scheduler.step()


def test_new_slots_are_made_after_the_old_ones_are_gone(scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    model = scheduler.lanes["tiny-lyrics"].model
    old, allocate, alive = weakref.ref(model.decoder), model.decodable.allocate, []

    def watched(*given: Any) -> Any:
        alive.append(old())
        return allocate(*given)

    monkeypatch.setattr(model.decodable, "allocate", watched)
    # the tests' own log keeps every traceback, and with it the frames that hold the slots
    monkeypatch.setattr("app.engine.scheduler.log", logging.Logger("nobody listens"))
    scheduler.handle(m.Decode(1, "tiny-lyrics", [], [1], FAR, 3))
    fails(monkeypatch, model.decodable, "step", 1, RuntimeError("a hiccup"))
    run(scheduler)
    assert alive == [None]


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"),
    ],
)
def test_a_prefill_without_memory_is_halved_until_it_fits(
    error: Exception, scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    lane = scheduler.lanes["tiny-lyrics"]
    prefill, sizes = lane.model.decodable.prefill, list[int]()

    def small(state: Any, rows: Any, prompts: Any) -> None:
        sizes.append(len(prompts))
        if len(prompts) > 2 or len(prompts[0].prefix) > 100:
            raise error
        prefill(state, rows, prompts)

    monkeypatch.setattr(lane.model.decodable, "prefill", small)
    # the check of a lost device allocates too: where memory is short it would end the process for nothing
    monkeypatch.setattr(scheduler.runner, "check", lambda: pytest.fail("took a full device for a lost one"))
    for number in range(8):
        scheduler.handle(m.Decode(number, "tiny-lyrics", [], [1, 2], FAR, 3))
    assert [type(r) for r in run(scheduler)] == [m.Finished] * 8
    assert sizes == [8, 4, 2, 2, 4, 2, 2]
    scheduler.handle(m.Decode(9, "tiny-lyrics", [], [1] * 101, FAR, 3))
    scheduler.handle(m.Decode(10, "tiny-lyrics", [], [1], FAR, 3))
    failed, finished = run(scheduler)
    assert (failed.id, failed.code, finished.id) == (9, "engine_failed", 10)
    assert "lacks the memory to read these 101 tokens; send a shorter text" in failed.reason


def test_a_load_without_memory_is_refused_and_the_process_goes_on(
    scheduler: Scheduler, tiny_checkpoints: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails(monkeypatch, scheduler.runner, "load", 1, torch.OutOfMemoryError("CUDA out of memory."))
    monkeypatch.setattr(scheduler.runner, "check", lambda: pytest.fail("took a full device for a lost one"))
    load = m.Load("more@2", str(tiny_checkpoints / "tiny-lyrics"))
    (refused,) = scheduler.handle(load)
    assert isinstance(refused, m.LoadFailed)
    assert "lacks the memory for more; unload another model" in refused.reason
    assert isinstance(scheduler.handle(load)[0], m.Loaded)


def test_one_look_at_attention_between_two_steps_and_none_for_who_left(scheduler: Scheduler) -> None:
    scheduler.handle(m.Decode(1, "tiny-lyrics", [], [1], FAR, 50, wants_tokens=True))
    look = m.Attend(10, "tiny-de-en", [5, 6, 3], [2, 4], ["cross"], None, None, 1000)
    for number in range(10, 15):
        assert scheduler.handle(msgspec.structs.replace(look, id=number)) == []
    scheduler.handle(msgspec.structs.replace(look, id=20, deadline=time.monotonic() - 1))
    scheduler.handle(m.Cancel(11))
    seen = [[(type(r), getattr(r, "id", 1)) for r in scheduler.step()] for _ in range(6)]
    step = (m.Tokens, 1)
    assert seen == [
        *([step, (m.Attention, number)] for number in (10, 12, 13, 14)),
        [step, (m.Failed, 20)],
        [step],
    ]


def test_unloading_frees_a_model_and_tells_who_is_on_it(scheduler: Scheduler) -> None:
    network = weakref.ref(scheduler.lanes["tiny-de-en"].model.network)
    for number in range(10):  # eight run, two wait
        scheduler.handle(m.Decode(number, "tiny-de-en", [5, 3], [2], FAR, 30))
    scheduler.handle(m.Decode(10, "tiny-lyrics", [], [1], FAR, 3))
    scheduler.step()
    scheduler.handle(m.Attend(11, "tiny-de-en", [5, 3], [2], ["cross"], None, None, 1000))
    replies = scheduler.handle(m.Unload("tiny-de-en"))
    assert {(r.id, r.code) for r in replies} == {  # type: ignore[union-attr]
        (number, "engine_unavailable") for number in (*range(10), 11)
    }
    assert network() is None
    assert scheduler.handle(m.Unload("tiny-de-en")) == []
    assert [r.id for r in run(scheduler)] == [10]


def test_timing_and_statistics_add_up(scheduler: Scheduler) -> None:
    started = time.monotonic()
    for number in range(9):
        scheduler.handle(m.Decode(number, "tiny-lyrics", [], [1, 2], FAR, 4 if number else 50))
    replies = [reply for _ in range(6) for reply in scheduler.step()]
    scheduler.handle(m.Cancel(0))
    for reply in replies:
        times = [0, reply.timing.queued_s, reply.timing.first_token_s, reply.timing.total_s, time.monotonic() - started]
        assert times == sorted(times)
    assert replies[-1].timing.queued_s <= replies[-1].timing.first_token_s
    by_name = {lane.model: lane for lane in scheduler.statistics()}
    assert len(by_name["tiny-de-en"].step_seconds) == 0
    lane = by_name["tiny-lyrics"]
    assert (lane.slots, lane.rows, lane.active, lane.waiting) == (8, 1, 1, 0)
    assert (len(lane.step_seconds), lane.step_rows) == (6, 4 * 8 + 2 * 2)
    assert (lane.read_tokens, lane.padded_tokens) == (9 * 2, 0)
    assert lane.cancelled_tokens == 2 + 6
    (again,) = [each for each in scheduler.statistics() if each.model == "tiny-lyrics"]
    assert (again.step_seconds, again.read_tokens, again.cancelled_tokens, again.rows) == ([], 0, 0, 1)


def test_attention_says_what_it_cannot_show(scheduler: Scheduler) -> None:
    def ask(**change: Any) -> Any:
        request = m.Attend(7, "tiny-de-en", [5, 6, 3], [2, 4], ["cross"], None, None, 1000)
        return (scheduler.handle(msgspec.structs.replace(request, **change)) or scheduler.step())[0]

    answer = ask()
    assert isinstance(answer, m.Attention)
    assert answer.slices[0].shape == [2, 4, 2, 3]
    weights = torch.frombuffer(bytearray(answer.slices[0].data), dtype=torch.float32).view(2, 4, 2, 3)
    assert torch.allclose(weights.sum(-1), torch.ones(2, 4, 2), atol=1e-6)
    assert ask(layers=[-1]).slices[0].layers == [1]
    assert "There is no layer 2: this model has 2" in ask(layers=[2]).reason
    assert "There is no head -5" in ask(heads=[-5]).reason
    assert (ask(layers=[2]).field, ask(heads=[-5]).field) == ("layers", "heads")
    assert "would hold 48 weights and the limit is 47" in ask(max_values=47).reason
    assert "no attention to show" in ask(model="tiny-lyrics").reason
    assert ask(model="nobody").code == "unknown_model"


def test_a_bad_checkpoint_is_reported_and_the_others_stay(scheduler: Scheduler, tmp_path: Path) -> None:
    (reply,) = scheduler.handle(m.Load("broken", str(tmp_path)))
    assert isinstance(reply, m.LoadFailed)
    assert "is not a checkpoint" in reply.reason
    scheduler.handle(m.Decode(1, "tiny-lyrics", [], [1], FAR, 2))
    assert [type(r) for r in run(scheduler)] == [m.Finished]


def test_a_lost_device_ends_the_process_instead_of_failing_every_request(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: Any) -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(scheduler.lanes["tiny-lyrics"].model.decodable, "prefill", lost)
    scheduler.handle(m.Decode(1, "tiny-lyrics", [], [1], FAR, 5))
    (reply,) = scheduler.step()  # the device itself still answers
    assert isinstance(reply, m.Failed)
    assert reply.code == "engine_failed"
    monkeypatch.setattr(scheduler.runner, "check", lost)
    scheduler.handle(m.Decode(2, "tiny-lyrics", [], [1], FAR, 5))
    with pytest.raises(RuntimeError, match="illegal memory access"):
        scheduler.step()


def test_a_folder_that_changed_since_the_front_end_read_it_is_refused(
    scheduler: Scheduler, tiny_checkpoints: Path
) -> None:
    """After a retraining, the tokens of the old tokenizer would mean something else to the new network."""
    folder = tiny_checkpoints / "tiny-lyrics"
    files = dict(checkpoints.read(folder).config.files)
    (same,) = scheduler.handle(m.Load("again", str(folder), files))
    (other,) = scheduler.handle(m.Load("other", str(folder), {**files, checkpoints.WEIGHTS: "0" * 64}))
    assert isinstance(same, m.Loaded)
    assert isinstance(other, m.LoadFailed)
    assert "has changed since the server read it: reload the model" in other.reason
