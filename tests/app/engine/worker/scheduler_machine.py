"""A scheduler under everything that can happen to it, in any order: Hypothesis makes the order up, and shortens an
order that fails. The networks are scripted, and the time stands still between two rules.

Each request has exactly one end, which is one that its fate allows; an answer is that of the request decoded alone; no
row of a step belongs to a request that has ended; and after the last one nothing of any is left."""

from __future__ import annotations

import math
import sys
from collections.abc import Generator
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from app.engine.protocol import messages as m
from app.engine.worker import inspection, scheduler
from models.decoding.decoder import decode
from models.decoding.options import DecodingOptions, TopTokens
from models.interface import Prompt
from tests.app.engine.worker.scripted_models import (
    EOS,
    POISON,
    SOURCE_TOKENS,
    SUPPRESSED,
    TARGET_TOKENS,
    FaultyNetwork,
    InjectedError,
    ScriptedLoader,
    ScriptedRunner,
    injected,
    rules_of,
    source_of,
)
from tests.models.decoding.decoders import same
from tests.models.decoding.test_decoder_batches import check_rows

SLOTS = 8
FAR = 1e12
MOST_STEPS = 2000  # for whatever is left at the end
tokens = st.integers(3, 8)
runs = st.lists(st.lists(st.integers(2, 8), min_size=1, max_size=2).map(tuple), min_size=1, max_size=2).map(tuple)
limits = st.sampled_from([1, 2, 3, 4, 5, 6, 8, 8, 9, 9])
whole = st.fixed_dictionaries(
    {"max_new_tokens": limits, "scores": st.booleans(), "streamed": st.booleans()},
    optional={"no_repeat_ngram_size": st.integers(1, 2)},
)
scored = st.sampled_from([{}, {"logprobs": True}, {"logprobs": True, "top_logprobs": 2}])
penalties = st.fixed_dictionaries(
    {},
    optional={
        "repetition_penalty": st.sampled_from([0.7, 1.6]),
        "presence_penalty": st.sampled_from([-0.5, 0.8]),
        "frequency_penalty": st.sampled_from([0.4]),
    },
)
drawn = st.fixed_dictionaries(
    {"temperature": st.sampled_from([0.3, 1.0, 2.0]), "seed": st.integers(0, 99)},
    optional={"top_k": st.integers(1, 4), "top_p": st.sampled_from([0.5, 0.9])},
)
beams = st.integers(2, 5).flatmap(
    lambda width: st.fixed_dictionaries(
        {"beam_size": st.just(width), "n_best": st.integers(1, width)},
        optional={
            "length_penalty": st.sampled_from([0.0, 0.6, 2.0]),
            "required": st.lists(runs, max_size=2).map(tuple),
        },
    )
)
kinds = st.one_of(st.tuples(scored, penalties), st.tuples(scored, penalties, drawn), st.tuples(beams))
options = st.builds(
    lambda base, parts: DecodingOptions(**{k: v for d in (base, *parts) for k, v in d.items()}), whole, kinds
)
delays = st.sampled_from((FAR,) * 17 + (0.0, 0.004, 0.1))


@dataclass
class Arrival:
    """A request that a rule makes up. model: a place in the list of loaded models."""

    model: int
    source: list[int]
    prefix: list[int]
    options: DecodingOptions
    deadline: float
    start_by: float
    at_once: bool


arrivals = st.builds(
    Arrival,
    model=st.integers(0, 7),
    source=st.lists(tokens, max_size=SOURCE_TOKENS - 1),
    prefix=st.lists(tokens, min_size=1, max_size=4),
    options=options,
    deadline=delays,
    start_by=delays,
    at_once=st.booleans(),
)


@dataclass
class Live:
    """A request without an end so far, with what it has streamed. folder: of its model. restarted: by a failed step."""

    message: m.Decode
    folder: int
    tokens: list[int] = field(default_factory=list)
    nats: list[float] = field(default_factory=list)
    top: list[TopTokens] = field(default_factory=list)
    restarted: bool = False

    @property
    def valid(self) -> bool:
        """Whether it fits the slots, and its terms can be written."""
        message, chosen = self.message, self.message.options
        never = {*SUPPRESSED, rules_of(self.folder).eos}
        longest = len(message.prefix) - 1 + chosen.token_limit
        room = 1 if self.folder % 2 else SOURCE_TOKENS
        possible = all(any(never.isdisjoint(run) for run in term) for term in chosen.required)
        return len(message.source) <= room and longest <= TARGET_TOKENS and possible

    def check_answer(self, answer: m.Finished) -> None:
        prompt = Prompt(tuple(self.message.source), tuple(self.message.prefix))
        alone = decode(FaultyNetwork(self.folder), rules_of(self.folder), [prompt], self.message.options)[0]
        if self.message.options.scores:
            same(answer.hypotheses, alone)
        assert [h[:1] + h[3:4] + h[6:] for h in answer.hypotheses] == [h[:1] + h[3:4] + h[6:] for h in alone]
        best = answer.hypotheses[0]
        assert tuple(self.tokens) == best.tokens[: len(self.tokens)], "it has streamed other tokens than it answers"
        if self.message.options.logprobs:
            assert best.token_log_probabilities is not None
            nearly(best.token_log_probabilities, alone[0].token_log_probabilities or ())
            nearly(self.nats, best.token_log_probabilities[: len(self.nats)])
        if self.message.options.top_logprobs:
            assert [[token for token, _ in top] for top in best.top or ()] == [
                [token for token, _ in top] for top in alone[0].top or ()
            ]
            assert self.top == list(best.top or ())[: len(self.top)]


def nearly(values: Any, expected: Any) -> None:
    assert len(values) == len(expected)
    assert all(math.isclose(a, b, abs_tol=1e-5) for a, b in zip(values, expected, strict=True)), (values, expected)


class Inspections:
    """In place of the networks' inspections: as many parts as a message has pairs, and an error at its end if the
    message wants no links. computed: requests, since the last `clear`."""

    def __init__(self) -> None:
        self.computed: list[int] = []

    def inspect(self, model: Any, message: m.AlignPairs) -> Generator[None, None, m.PairsAligned]:
        for _ in message.pairs:
            self.computed.append(message.id)
            yield
        if not message.links:
            raise InjectedError("a hiccup")
        return self.answer(message, model.decodable.seed)

    @staticmethod
    def answer(message: m.AlignPairs, folder: int) -> m.PairsAligned:
        return m.PairsAligned(message.id, [], [[float(message.id)], [float(folder)]])


class SchedulerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now, self.errors = 1000.0, list[Any]()
        self.inspections = Inspections()
        self.patches = ExitStack()
        clock = SimpleNamespace(monotonic=lambda: self.now)
        log = SimpleNamespace(exception=lambda *said: self.errors.append(said), warning=lambda *said: None)
        for module, name, value in (
            (scheduler, "time", clock),
            (inspection, "time", clock),
            (inspection, "inspect", self.inspections.inspect),
            (scheduler, "log", log),
            (inspection, "log", log),
        ):
            self.patches.enter_context(mock.patch.object(module, name, value))
        self.number, self.version = 0, 0
        self.ended: list[int] = []

    @initialize(interval=st.sampled_from([0.0, 0.02]), prefill_tokens=st.sampled_from([1, 30, 2048, 2048]))
    def begin(self, interval: float, prefill_tokens: int) -> None:
        self.configured = interval, prefill_tokens
        self.new_process()

    def new_process(self) -> None:
        """Of two models. Requests of the process before have had their end at the front end."""
        interval, prefill_tokens = self.configured
        self.runner = ScriptedRunner(SLOTS)
        self.loader = ScriptedLoader(self.runner)
        self.scheduler = scheduler.Scheduler(self.runner, prefill_tokens, interval, self.loader)
        self.live: dict[int, Live] = {}
        self.looking: dict[int, m.AlignPairs] = {}  # inspections without an end
        self.unloaded_in_flight: set[str] = set()
        for _ in range(2):
            self.load()
            self.finish_loading()

    # What arrives ---------------------------------------------------------------------------------------------

    @property
    def models(self) -> list[str]:
        return list(self.scheduler.queues)

    @rule(requests=st.lists(arrivals, min_size=6, max_size=9))
    def burst(self, requests: list[Arrival]) -> None:
        self.decode(requests, False, len(requests))

    @rule(requests=st.lists(arrivals, min_size=1, max_size=5), siblings=st.booleans(), poisoned=st.integers(0, 12))
    def decode(self, requests: list[Arrival], siblings: bool, poisoned: int) -> None:
        group = self.number + 1 if siblings else 0
        for place, arrival in enumerate(requests):
            self.number += 1
            here = self.models and arrival.model < 7
            name = self.models[arrival.model % len(self.models)] if here else "demo@0"
            folder = self.folder(name)
            rest = arrival.source if folder % 2 == 0 else []  # a language model has no source
            source = source_of(self.number, *rest)
            if place == poisoned and len(source) > 1:
                source[1] = POISON
            message = m.Decode(
                self.number,
                name,
                source,
                arrival.prefix,
                self.now + arrival.deadline,
                arrival.options,
                0.0 if arrival.start_by == FAR else self.now + arrival.start_by,
                group,
                arrival.at_once,
            )
            replies = self.scheduler.handle(message)
            if name not in self.scheduler.queues:
                assert [(reply.id, reply.code) for reply in cast(Any, replies)] == [(self.number, "unknown_model")]
            else:
                assert replies == []
                self.live[self.number] = Live(message, folder)

    @rule(width=st.integers(SLOTS + 1, SLOTS + 3))
    @precondition(lambda self: self.models)
    def decode_too_wide(self, width: int) -> None:
        self.number += 1
        wide = DecodingOptions(max_new_tokens=3, beam_size=width)
        message = m.Decode(self.number, self.models[0], source_of(self.number), [3], FAR, wide)
        (reply,) = self.scheduler.handle(message)
        assert isinstance(reply, m.Failed)
        assert (reply.id, reply.code, reply.field) == (self.number, "invalid_request", "decode.beam_size")

    @rule(parts=st.integers(0, 4), fails=st.booleans(), deadline=delays)
    def look(self, parts: int, fails: bool, deadline: float) -> None:
        self.number += 1
        name = self.models[self.number % len(self.models)] if self.models else "demo@0"
        pair = m.TokenPair([3], [3], 1, [None], [])
        message = m.AlignPairs(self.number, name, [pair] * parts, links=not fails, deadline=self.now + deadline)
        replies = self.scheduler.handle(message)
        if name in self.scheduler.queues:
            assert replies == []
            self.looking[self.number] = message
        else:
            assert [(reply.id, reply.code) for reply in cast(Any, replies)] == [(self.number, "unknown_model")]

    @rule(which=st.integers(0, 99))
    @precondition(lambda self: self.live)
    def cancel(self, which: int) -> None:
        request = sorted(self.live)[which % len(self.live)]
        assert self.scheduler.handle(m.Cancel(request)) == []
        del self.live[request]
        self.ended.append(request)
        self.check_load()

    @rule(which=st.integers(0, 99))
    @precondition(lambda self: self.ended)
    def cancel_again(self, which: int) -> None:
        """A cancellation and an answer cross."""
        assert self.scheduler.handle(m.Cancel(self.ended[which % len(self.ended)])) == []
        self.check_load()

    @rule(which=st.integers(0, 99))
    @precondition(lambda self: self.looking)
    def cancel_look(self, which: int) -> None:
        request = sorted(self.looking)[which % len(self.looking)]
        self.end(self.scheduler.handle(m.Cancel(request)), {request: "cancelled"})

    # Models ---------------------------------------------------------------------------------------------------

    def _name(self, which: int) -> str:
        """Of a model; more often than not, of that which most requests wait for."""
        busiest = max(self.scheduler.statistics(), key=lambda load: load.active + load.waiting).model
        return self.models[which % len(self.models)] if which < 4 else busiest

    @staticmethod
    def folder(name: str) -> int:
        return int(name.partition("@")[2])

    @rule()
    @precondition(lambda self: len(self.models) + len(self.loader.waiting) < 4)
    def load(self) -> None:
        """A new model, or new weights of one: to a device both are another version."""
        self.version += 1
        assert self.scheduler.handle(m.Load(f"demo@{self.version}", str(self.version))) == []

    @rule(fault=st.sampled_from(["none", "none", "none", "broken", "memory", "error"]))
    @precondition(lambda self: self.loader.waiting)
    def finish_loading(self, fault: str = "none") -> None:
        load, errors = self.loader.waiting[0], len(self.errors)
        dropped = load.name in self.unloaded_in_flight
        self.unloaded_in_flight.discard(load.name)
        if fault == "broken":
            self.runner.broken.add(load.folder)
        elif fault != "none":
            self.runner.install_fault = injected(fault)
        (reply,) = self.scheduler.handle(self.loader.next_result())
        self.runner.install_fault = None
        fails = fault == "broken" or (fault != "none" and not dropped)
        assert isinstance(reply, m.LoadFailed if fails else m.Loaded)
        assert reply.name == load.name
        assert (load.name in self.scheduler.queues) == (load.name in self.runner.models) == (not fails and not dropped)
        assert len(self.errors) - errors == (fails and fault != "broken")
        self.errors.clear()

    @rule(which=st.integers(0, 9))
    @precondition(lambda self: len(self.models) > 2)
    def unload(self, which: int) -> None:
        name = self._name(which)
        messages = [*(live.message for live in self.live.values()), *self.looking.values()]
        lost = {message.id for message in messages if message.model == name}
        self.end(self.scheduler.handle(m.Unload(name)), dict.fromkeys(lost, "engine_unavailable"))
        assert name not in self.runner.models

    @rule()
    @precondition(lambda self: self.loader.waiting)
    def unload_what_is_read(self) -> None:
        self.unloaded_in_flight.add(self.loader.waiting[-1].name)
        self.end(self.scheduler.handle(m.Unload(self.loader.waiting[-1].name)), {})

    # Faults ---------------------------------------------------------------------------------------------------

    @rule(which=st.integers(0, 9), kind=st.sampled_from(["error", "memory"]), read=st.integers(0, SLOTS))
    @precondition(lambda self: self.models)
    def order_step_fault(self, which: int, kind: str, read: int) -> None:
        self.runner.network(self._name(which)).step_fault = injected(kind), read

    @rule(which=st.integers(0, 9), kind=st.sampled_from(["error", "memory"]), count=st.integers(1, 4))
    @precondition(lambda self: self.models)
    def order_prefill_faults(self, which: int, kind: str, count: int) -> None:
        self.runner.network(self._name(which)).prefill_faults = [injected(kind)] * count

    @rule()
    @precondition(lambda self: len(self.live) > 9)
    def lose_the_device(self) -> None:
        """The next failed step or prefill ends the process, and the front end asks another one."""
        self.runner.lost = True
        for name in self.models:
            network = self.runner.network(name)
            network.step_fault, network.prefill_faults = (InjectedError("the device is lost"), 1), []
        for _ in range(20):
            self.now += 0.05
            try:
                self.step_once()
            except RuntimeError as error:
                assert str(error) == "the device is lost"
                break
            if not self.live:
                break
        else:
            raise AssertionError("a request waits, and no step is made")
        self.errors.clear()
        self.new_process()

    # Steps ----------------------------------------------------------------------------------------------------

    @rule(count=st.integers(1, 4), seconds=st.sampled_from([0.0, 0.001, 0.02]))
    def step(self, count: int, seconds: float) -> None:
        for _ in range(count):
            self.now += seconds
            self.step_once()

    @rule(count=st.integers(1, 3))
    def step_on(self, count: int) -> None:
        """So much time between two steps that a burst of requests runs at once."""
        self.step(count, 0.05)

    @rule(seconds=st.sampled_from([0.01, 1.0]))
    def step_after_a_while(self, seconds: float) -> None:
        self.step(1, seconds)

    def step_once(self) -> None:
        networks = [self.runner.network(name) for name in self.models]
        for network in networks:
            network.forget()
        self.inspections.computed.clear()
        ends = dict[int, str]()
        prefilled = set[int]().union(*(network.prefilled for network in networks))
        for request, live in self.live.items():
            if live.message.deadline < self.now:
                ends[request] = "deadline_exceeded"
            elif 0 < live.message.start_by < self.now and request not in prefilled:
                ends[request] = "overloaded"
        may_compute, looking = self.live.keys() - ends.keys(), dict(self.looking)
        replies = self.scheduler.step()
        computed = set[int]().union(*(network.computed for network in networks))
        assert computed <= may_compute, f"computed for requests that have ended: {computed - may_compute}"
        assert not [each for network in networks for each in network.violations]
        for request, count in ((r, c) for network in networks for rows in network.rows for r, c in rows.items()):
            assert count == self.live[request].message.options.beam, f"request {request} has {count} rows"
        self._expect_faults(networks, ends)
        for request in may_compute:
            if not self.live[request].valid and any(getattr(reply, "id", None) == request for reply in replies):
                ends[request] = "invalid_request"
        self._expect_looks(looking, replies, ends)
        self.end(replies, ends)

    def _expect_faults(self, networks: list[FaultyNetwork], ends: dict[int, str]) -> None:
        """A failed step is repeated once, unless a part of the answer has been sent."""
        failed_steps = 0
        for network in networks:
            ends.update(dict.fromkeys(network.refused, "engine_failed"))
            for request in (request for lost in network.lost for request in lost):
                live = self.live[request]
                if live.restarted or live.tokens:
                    ends[request] = "engine_failed"
                live.restarted = True
            failed_steps += len(network.lost)
        steps = [said for said in self.errors if said == ("a step failed",)]
        assert len(steps) == failed_steps, "a step failed for no fault that was ordered"
        self.errors = [said for said in self.errors if said not in steps]

    def _expect_looks(
        self, looking: dict[int, m.AlignPairs], replies: list[m.FromDevice], ends: dict[int, str]
    ) -> None:
        """One inspection at a time, and one part of it in a step."""
        assert len(self.inspections.computed) <= 1
        assert {*self.inspections.computed} <= {*list(looking)[:1]}
        for request, message in list(looking.items())[:1]:
            if message.deadline < self.now:
                ends[request] = "deadline_exceeded"
            elif request not in self.inspections.computed:  # it has reached its end
                if not message.links:
                    ends[request] = "engine_failed"
                    assert [said[1] for said in self.errors] == [request]
                    self.errors.clear()
                else:
                    assert Inspections.answer(message, self.folder(message.model)) in replies
        assert not self.errors

    def end(self, replies: list[m.FromDevice], failures: dict[int, str]) -> None:
        """Checks the replies and takes the requests that end by them off the books. failures: those that must fail, and
        with which code."""
        for reply in replies:
            match reply:
                case m.Tokens():
                    self._receive(reply)
                case m.Finished():
                    assert reply.id not in failures
                    live = self.live.pop(reply.id)  # KeyError: it has had its end
                    assert live.valid
                    live.check_answer(reply)
                case m.Failed():
                    assert failures.pop(reply.id, None) == reply.code, reply
                    assert self.live.pop(reply.id, None) or self.looking.pop(reply.id)
                case m.PairsAligned():
                    assert reply.id not in failures
                    del self.looking[reply.id]
                case _:
                    raise AssertionError(f"an unexpected reply: {reply}")
            if not isinstance(reply, m.Tokens):
                self.ended.append(cast(Any, reply).id)
        assert not failures, "requests without the end that they should have had"
        self.check_load()

    def _receive(self, message: m.Tokens) -> None:
        assert {*message.log_probabilities} | {*message.top} <= {*message.tokens}
        for request, new in message.tokens.items():
            live = self.live[request]  # KeyError: it has had its end
            chosen = live.message.options
            nats, top = message.log_probabilities.get(request, []), message.top.get(request, [])
            assert new
            assert chosen.streamed
            assert len(nats) == len(new) * chosen.logprobs
            assert len(top) == len(new) * bool(chosen.top_logprobs)
            live.tokens += new
            live.nats += nats
            live.top += top

    def check_load(self) -> None:
        """The slots that are taken are those of the live requests."""
        for load in self.scheduler.statistics():
            decoder = self.scheduler.queues[load.model].model.decoder
            check_rows(decoder)
            here = {request for request, live in self.live.items() if live.message.model == load.model}
            assert load.active + load.waiting == len(here)
            assert load.active == len(decoder.requests)
            assert decoder.requests.keys() <= here
            assert load.rows == sum(self.live[request].message.options.beam for request in decoder.requests)

    # The end --------------------------------------------------------------------------------------------------

    def teardown(self) -> None:
        try:
            if sys.exc_info()[0] is None:  # of a life that has failed the end says nothing
                self.finish()
        finally:
            self.patches.close()

    def finish(self) -> None:
        """Without faults all that is left is answered, and all slots are free again: the widest beam finds room."""
        if not hasattr(self, "scheduler"):
            return
        for name in self.models:
            network = self.runner.network(name)
            network.step_fault, network.prefill_faults = None, []
            self.number += 1
            widest = DecodingOptions(max_new_tokens=2, beam_size=SLOTS)
            message = m.Decode(self.number, name, source_of(self.number), [3], FAR, widest)
            assert self.scheduler.handle(message) == []
            self.live[self.number] = Live(message, self.folder(name))
        for _ in range(MOST_STEPS):
            if not self.scheduler.busy:
                break
            self.now += 0.01
            self.step_once()
        assert (self.live, self.looking) == ({}, {}), "requests without an end"
        for queue in self.scheduler.queues.values():
            assert (queue.rows, queue.model.decoder.beams) == (0, {})
        sender = self.scheduler._sender  # whose sets would grow for ever
        assert (dict(sender.held), sender.begun, sender.immediate) == ({}, set(), set())


assert EOS == 2  # among the tokens of `runs`
