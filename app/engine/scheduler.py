"""Which requests share the next step of a model. They join and leave at step boundaries, whatever they ask for,
so a long one never holds up a short one."""

from __future__ import annotations

import logging
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from app.engine import messages as m
from app.engine.runner import CannotInspect, Model, Runner
from models.checkpoint import CheckpointError

log = logging.getLogger(__name__)

PREFILL_TOKENS = 2048  # read at most so many source and prefix tokens between two steps


@dataclass(slots=True)
class Lane:
    """One model's queue and what is in its slots."""

    model: Model
    waiting: deque[m.Decode] = field(default_factory=deque)
    active: dict[int, m.Decode] = field(default_factory=dict)

    @property
    def busy(self) -> bool:
        return bool(self.waiting or self.active)


class Scheduler:
    """Takes messages, gives messages; `step` advances every model that has work by one token."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.lanes: dict[str, Lane] = {}

    @property
    def busy(self) -> bool:
        return any(lane.busy for lane in self.lanes.values())

    def handle(self, message: m.ToDevice) -> list[m.FromDevice]:
        match message:
            case m.Load():
                return [self._load(message)]
            case m.Decode():
                return self._enqueue(message)
            case m.Attend():
                return [self._attend(message)]
            case m.Cancel():
                self._cancel(message.id)
        return []

    def _load(self, message: m.Load) -> m.FromDevice:
        started = time.monotonic()
        try:
            self.runner.load(message.name, message.folder, message.files)
        except CheckpointError as error:
            return m.LoadFailed(message.name, str(error))
        except Exception as error:
            log.exception("loading %s failed", message.name)
            return m.LoadFailed(message.name, f"{message.folder} could not be loaded: {error}.")
        self.lanes[message.name] = Lane(self.runner.models[message.name])
        return m.Loaded(message.name, time.monotonic() - started)

    def _enqueue(self, message: m.Decode) -> list[m.FromDevice]:
        lane = self.lanes.get(message.model)
        if lane is None:
            return [m.Failed(message.id, "unknown_model", f"There is no model {message.model} on this device.")]
        if message.beam > lane.model.slots:
            reason = f"A beam of {message.beam} does not fit {lane.model.slots} slots."
            return [m.Failed(message.id, "invalid_request", reason)]
        lane.waiting.append(message)
        return []

    def _attend(self, message: m.Attend) -> m.FromDevice:
        lane = self.lanes.get(message.model)
        if lane is None:
            return m.Failed(message.id, "unknown_model", f"There is no model {message.model} on this device.")
        try:
            return m.Attention(message.id, lane.model.attention(message))
        except CannotInspect as error:
            return m.Failed(message.id, "invalid_request", str(error), error.field)
        except Exception as error:
            log.exception("attention of request %d failed", message.id)
            self.runner.check()
            return m.Failed(message.id, "engine_failed", f"Looking into this sentence failed: {error}.")

    def _cancel(self, request: int) -> None:
        for lane in self.lanes.values():
            if lane.active.pop(request, None):
                lane.model.leave(request)
                return
            for waiting in lane.waiting:
                if waiting.id == request:
                    lane.waiting.remove(waiting)
                    return

    def step(self) -> list[m.FromDevice]:
        replies: list[m.FromDevice] = []
        for lane in self.lanes.values():
            if lane.busy:
                replies += self._expire(lane)
                replies += self._admit(lane)
                replies += self._advance(lane)
        return replies

    def _expire(self, lane: Lane) -> list[m.FromDevice]:
        """Nothing is computed for a request whose time is over."""
        now = time.monotonic()
        late = [r.id for r in (*lane.waiting, *lane.active.values()) if r.deadline < now]
        stale = [r.id for r in lane.waiting if 0 < r.start_by < now <= r.deadline]
        for request in (*late, *stale):
            self._cancel(request)
        return [
            *(m.Failed(request, "deadline_exceeded", "The answer did not come in time.") for request in late),
            *(m.Failed(request, "overloaded", "The queue did not move in time; try again later.") for request in stale),
        ]

    def _admit(self, lane: Lane) -> list[m.FromDevice]:
        """In order of arrival, as many as there are free slots, within the token budget of one step."""
        room, budget, joining = lane.model.decoder.free, PREFILL_TOKENS, list[m.Decode]()
        while lane.waiting and lane.waiting[0].beam <= room:
            cost = len(lane.waiting[0].source) + len(lane.waiting[0].prefix)
            if joining and cost > budget:
                break
            request = lane.waiting.popleft()
            room -= request.beam
            budget -= cost
            joining.append(request)
        return self._join(lane, joining) if joining else []

    def _join(self, lane: Lane, requests: list[m.Decode]) -> list[m.FromDevice]:
        """Prefill together; if that fails, each alone, so that one bad request fails alone."""
        try:
            lane.model.join(requests)
        except Exception as error:
            if len(requests) > 1:
                return [reply for request in requests for reply in self._join(lane, [request])]
            code = "invalid_request" if isinstance(error, ValueError) else "engine_failed"
            self.runner.check()  # a lost device ends the process, and the next one starts afresh
            log.warning("request %d failed in prefill: %s", requests[0].id, error)
            return [m.Failed(requests[0].id, code, f"This request could not be started: {error}")]
        lane.active.update((request.id, request) for request in requests)
        return []

    def _advance(self, lane: Lane) -> list[m.FromDevice]:
        if not lane.active:
            return []
        try:
            progress = lane.model.step()
        except Exception as error:
            log.exception("a step failed")
            failed = [m.Failed(r, "engine_failed", f"The step failed: {error}.") for r in lane.active]
            lane.active.clear()
            lane.model.reset()
            return list(failed)
        replies: list[m.FromDevice] = []
        wanted = [(key, token) for key, token in progress.tokens if lane.active[_id(key)].wants_tokens]
        if wanted:
            replies.append(m.Tokens([(_id(key), token) for key, token in wanted]))
        for key, hypotheses in progress.finished:
            del lane.active[_id(key)]
            found = [m.Hypothesis(list(h.tokens), h.log_probability, h.finished) for h in hypotheses]
            replies.append(m.Finished(_id(key), found))
        return replies


def _id(key: Any) -> int:
    assert isinstance(key, int)
    return key
