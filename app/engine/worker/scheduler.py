"""Which requests share the next step of a model.

Requests join and leave at step boundaries, whatever they ask for, so a long one never holds up a short one. Between two
steps there is at most one prefill budget a model, at most one inspection, and at most one step of a search without some
heads."""

from __future__ import annotations

import logging
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from app.engine.protocol import messages as m
from app.engine.worker.inspection import AblationSearch
from app.engine.worker.model_loader import LoadResult, ModelLoader, read
from app.engine.worker.model_runner import CannotInspect, ModelRunner, out_of_memory
from app.engine.worker.request_queue import ModelQueue, Ticket
from app.engine.worker.token_sender import TokenSender
from models.checkpoint import CheckpointError
from models.decoding.beam import Hypothesis

log = logging.getLogger(__name__)
T = TypeVar("T")

LATE_MESSAGE = "The answer did not come in time."
STALE_MESSAGE = "The queue did not move in time; try again later."


class Scheduler:
    """Takes messages, gives messages; `step` advances every model that has work by one token. loading: reads
    checkpoints meanwhile, and what it tells must be handled like a message; None: everything waits for them."""

    def __init__(
        self,
        runner: ModelRunner,
        prefill_tokens: int = 2048,
        stream_interval_s: float = 0.0,
        loading: ModelLoader | None = None,
    ) -> None:
        self.runner, self.prefill_tokens = runner, prefill_tokens
        self.lanes: dict[str, ModelQueue] = {}
        self._telling = TokenSender(stream_interval_s)
        self._looks: OrderedDict[int, m.Look] = OrderedDict()
        self._rewriting: AblationSearch | None = None  # the one that is in work
        self._loading, self._coming = loading, set[str]()

    @property
    def busy(self) -> bool:
        return bool(self._looks or self._rewriting) or any(lane.busy for lane in self.lanes.values())

    def statistics(self) -> list[m.ModelStatistics]:
        """What each model has done since the last call."""
        return [lane.statistics(name) for name, lane in self.lanes.items()]

    def handle(self, message: m.ToDevice | LoadResult) -> list[m.FromDevice]:
        match message:
            case m.Load():
                self._coming.add(message.name)
                if self._loading is None:
                    return [self._install(read(message, self.runner.read_as_asked))]
                self._loading.begin(message)
            case LoadResult():
                return [self._install(message)]
            case m.Unload():
                return self._unload(message.name)
            case m.Decode():
                return self._enqueue(message)
            case m.Attend() | m.Walk() | m.Trace() | m.Score() | m.Align():
                if message.model not in self.lanes:
                    return [self._unknown(message)]
                self._looks[message.id] = message
            case m.Cancel():
                self._cancel(message.id)
        return []

    def _install(self, result: LoadResult) -> m.FromDevice:
        message = result.message
        try:
            if result.error is not None:
                raise result.error
            if message.name in self._coming:  # nobody has unloaded it meanwhile
                self.runner.install(message.name, result.network)
                self.lanes[message.name] = ModelQueue(self.runner.models[message.name], self.prefill_tokens)
            model = self.runner.models.get(message.name)
            return m.Loaded(message.name, time.monotonic() - result.began, model.precision if model else "")
        except CheckpointError as error:
            return m.LoadFailed(message.name, str(error))
        except Exception as error:
            log.exception("loading %s failed", message.name)
            full, reason = out_of_memory(error), f"{message.folder} could not be loaded: {error}."
        finally:
            self._coming.discard(message.name)
        if full:
            self.runner.release_memory()
            name = m.plain_name(message.name)
            reason = f"The device lacks the memory for {name}; unload another model, or serve with fewer slots."
        else:
            self.runner.check()
        return m.LoadFailed(message.name, reason)

    def _unload(self, name: str) -> list[m.FromDevice]:
        self._coming.discard(name)
        lane = self.lanes.pop(name, None)
        looks = [look for look in self._looks.values() if look.model == name]
        for look in looks:
            del self._looks[look.id]
        if self._rewriting is not None and self._rewriting.asked.model == name:
            looks.append(self._rewriting.asked)
            self._rewriting = None
        left = [*lane.waiting, *lane.active, *(look.id for look in looks)] if lane else []
        del lane  # or it would keep what the runner frees
        self.runner.unload(name)
        reason = f"{m.plain_name(name)} was unloaded; please try again."
        return self._fail(left, "engine_unavailable", reason)

    def _fail(self, requests: Iterable[int], code: str, reason: str) -> list[m.FromDevice]:
        """What was written of them before comes first."""
        replies: list[m.FromDevice] = [*self._telling.flush()]
        for request in requests:
            self._telling.end(request)
            replies.append(m.Failed(request, code, reason))
        return replies

    def _unknown(self, message: m.Decode | m.Look) -> m.Failed:
        reason = f"There is no model {m.plain_name(message.model)} on this device."
        return m.Failed(message.id, "unknown_model", reason)

    def _enqueue(self, message: m.Decode) -> list[m.FromDevice]:
        lane = self.lanes.get(message.model)
        if lane is None:
            return [self._unknown(message)]
        if message.beam > lane.model.slots:
            reason = f"A beam of {message.beam} does not fit {lane.model.slots} slots; ask for a narrower one."
            return [m.Failed(message.id, "invalid_request", reason, "decode.beam_size")]
        lane.add(message, time.monotonic())
        if message.at_once:
            self._telling.hurry(message.id)
        return []

    def _cancel(self, request: int) -> None:
        if self._rewriting is not None and self._rewriting.asked.id == request:
            self._rewriting = None
        elif self._looks.pop(request, None) is None:
            any(lane.remove(request) for lane in self.lanes.values())
        self._telling.end(request)

    def step(self) -> list[m.FromDevice]:
        replies: list[m.FromDevice] = []
        for lane in self.lanes.values():
            if lane.busy:
                replies += self._expire(lane)
                for group in lane.take(time.monotonic()):
                    replies += self._join(lane, group)
                replies += self._advance(lane)
        replies += self._rewrite()
        replies += self._look()
        return replies

    def _expire(self, lane: ModelQueue) -> list[m.FromDevice]:
        """Nothing is computed for a request whose time is over."""
        now, replies = time.monotonic(), list[m.FromDevice]()
        for over, code, reason in (
            (lane.late, "deadline_exceeded", LATE_MESSAGE),
            (lane.stale, "overloaded", STALE_MESSAGE),
        ):
            if found := over(now):
                for request in found:
                    lane.remove(request)
                replies += self._fail(found, code, reason)
        return replies

    def _join(self, lane: ModelQueue, tickets: Sequence[Ticket]) -> list[m.FromDevice]:
        """Prefill together; if that fails, each half of them, so that in the end one bad request fails alone."""
        error = self._prefill(lane, tickets)
        if error is None:
            lane.started(tickets)
            return []
        full = out_of_memory(error)
        if full:
            self.runner.release_memory()
        else:
            self.runner.check()  # a lost device ends the process, and the next one starts afresh
        if len(tickets) > 1:
            half = len(tickets) // 2
            return [*self._join(lane, tickets[:half]), *self._join(lane, tickets[half:])]
        request = tickets[0].request
        log.warning("request %d failed in prefill: %s", request.id, error)
        reason = f"This request could not be started: {error}"
        if full:
            reason = f"The device lacks the memory to read these {tickets[0].tokens:,} tokens; send a shorter text."
        code = "invalid_request" if isinstance(error, ValueError) else "engine_failed"
        return [m.Failed(request.id, code, reason)]

    def _prefill(self, lane: ModelQueue, tickets: Sequence[Ticket]) -> Exception | None:
        try:
            lane.model.join([ticket.request for ticket in tickets])
        except Exception as error:
            return error.with_traceback(None)  # whose frames would keep the tensors that did not fit
        return None

    def _advance(self, lane: ModelQueue) -> list[m.FromDevice]:
        if not lane.active:
            return []
        rows, began = lane.rows, time.monotonic()
        try:
            progress = lane.model.step()
        except Exception as error:
            log.exception("a step failed")
            reason = f"The step failed: {error}."
        else:
            now = time.monotonic()
            lane.stepped(rows, began, now)
            return self._replies(lane, progress, now, now - began)
        self.runner.check()  # here, where the error's frames no longer keep the slots
        for request, ticket in lane.active.items():
            ticket.emitted = self._telling.has_begun(request)
        lost = lane.give_up_step()
        lane.model.reset()
        return self._fail([ticket.request.id for ticket in lost], "engine_failed", reason)

    def _replies(self, lane: ModelQueue, progress: Any, now: float, step_s: float) -> list[m.FromDevice]:
        """At most one message for the tokens of all streams, and one for each request that is done."""
        finished: list[m.FromDevice] = []
        self._telling.hold(progress.tokens, now, progress.log_probabilities, progress.likeliest)
        for key, hypotheses in progress.finished:
            ticket = lane.active.pop(_id(key))
            finished.append(
                m.Finished(_id(key), [_hypothesis_message(each) for each in hypotheses], ticket.timing(now))
            )
            self._telling.end(_id(key))
        return [*self._telling.leaving(now, step_s), *finished]

    def _look(self) -> list[m.FromDevice]:
        """One look inside a model, if one is asked for: the next step comes before the next look."""
        message = next((look for look in self._looks.values() if self._may_begin(look)), None)
        if message is None:
            return []
        del self._looks[message.id]
        found = self._seen(message, self.lanes[message.model].model.look)
        if isinstance(found, AblationSearch):
            self._rewriting = found
            return []
        return [found]

    def _may_begin(self, look: m.Look) -> bool:
        """One search without heads is in work at a time: each has slots of its own."""
        return self._rewriting is None or not (isinstance(look, m.Attend) and look.question.masked)

    def _rewrite(self) -> list[m.FromDevice]:
        """One step of the search without heads that is in work."""
        if (rewriting := self._rewriting) is None:
            return []
        found = self._seen(rewriting.asked, lambda _: rewriting.step())
        if found is None:
            return []
        self._rewriting = None
        return [found]

    def _seen(self, message: m.Look, work: Callable[[m.Look], T]) -> T | m.Failed:
        if 0 < message.deadline < time.monotonic():
            return m.Failed(message.id, "deadline_exceeded", LATE_MESSAGE)
        try:
            return work(message)
        except CannotInspect as error:
            return m.Failed(message.id, "invalid_request", str(error), error.field)
        except Exception as error:
            log.exception("the look of request %d failed", message.id)
            reason = f"Looking into this sentence failed: {str(error).rstrip('.')}."
        self.runner.check()
        return m.Failed(message.id, "engine_failed", reason)


def _hypothesis_message(found: Hypothesis) -> m.Hypothesis:
    nats = list(found.token_log_probabilities or ())
    score = None if math.isnan(found.score) else found.score
    top = [list(each) for each in found.likeliest or ()]
    return m.Hypothesis(list(found.tokens), found.log_probability, found.finished, nats, score, top)


def _id(key: Any) -> int:
    assert isinstance(key, int)
    return key
