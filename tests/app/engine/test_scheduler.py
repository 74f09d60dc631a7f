"""The scheduler over real tiny networks, in this process; what it says is held against `models.decoding`."""

from __future__ import annotations

import random
import time
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
    streamed = [pair for r in replies if isinstance(r, m.Tokens) for pair in r.tokens]
    (answer,) = [r for r in replies if isinstance(r, m.Finished) and r.id == 1]
    assert [request for request, _ in streamed] == [1] * 12
    assert [token for _, token in streamed] == answer.hypotheses[0].tokens


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


def test_a_failed_step_fails_its_lane_only_and_the_next_request_is_served(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = scheduler.lanes["tiny-lyrics"].model.network
    scheduler.handle(m.Decode(1, "tiny-lyrics", [], [1], FAR, 50))
    scheduler.handle(m.Decode(2, "tiny-de-en", [5, 3], [2], FAR, 5))
    with monkeypatch.context() as broken:
        broken.setattr(network, "step", lambda state, tokens: (_ for _ in ()).throw(RuntimeError("out of memory")))
        replies = scheduler.step()
    assert [(r.id, r.code) for r in replies if isinstance(r, m.Failed)] == [(1, "engine_failed")]
    scheduler.handle(m.Decode(3, "tiny-lyrics", [], [1], FAR, 5))
    assert sorted(r.id for r in run(scheduler) if isinstance(r, m.Finished)) == [2, 3]


def test_attention_says_what_it_cannot_show(scheduler: Scheduler) -> None:
    def ask(**change: Any) -> Any:
        request = m.Attend(7, "tiny-de-en", [5, 6, 3], [2, 4], ["cross"], None, None, 1000)
        return scheduler.handle(msgspec.structs.replace(request, **change))[0]

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

    monkeypatch.setattr(scheduler.lanes["tiny-lyrics"].model.network, "prefill", lost)
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
    assert "has changed since the server read it: restart the server" in other.reason
