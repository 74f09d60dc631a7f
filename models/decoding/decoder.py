"""The decoding loop for any `Decodable`: greedy, sampling and beam requests in one batch, joining and leaving at step
boundaries. Evaluation in training and the serving engine share it, so both decode alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from models.backends.select import Network, decodable
from models.backends.top_k import Continuations, continuations
from models.backends.torch.cuda_graph import Graphed
from models.decoding.beam import ActiveRequest, Beams
from models.decoding.constrained_beam import BeamConstraints, constrained_continuations
from models.decoding.constraints import TermAutomaton
from models.decoding.device_step import DeviceStep, Layout, StepResults, Submitted, needs_host
from models.decoding.logits_processors import suppress_tokens
from models.decoding.options import DecodingOptions, Hypothesis, StepResult, TokenRules
from models.decoding.row_state import ChosenTokens, Floats, Ints, Mask, RowState
from models.interface import AdvancesBeams, Decodable, Likeliest, Precision, Prompt
from models.tokenizer.word_parts import WordParts

CALL_S = 0.001  # requests that wait or leave do so between calls


class Decoder:
    """A continuous batch over the slots of one network. parts: how tokens join into words; None: they do not."""

    def __init__(
        self,
        network: Decodable,
        rules: TokenRules,
        *,
        slots: int,
        source_length: int,
        target_length: int,
        parts: WordParts | None = None,
    ) -> None:
        self.network, self.rules, self.slots = network, rules, slots
        self.source_length, self.target_length, self.parts = source_length, target_length, parts
        self.state: Any = network.allocate(slots, source_length, target_length)
        self.requests: dict[int, ActiveRequest] = {}
        self.owners: list[ActiveRequest] = []  # row -> its request
        self.rows = RowState(slots, target_length + 1, rules.eos, network.device, forced_end=rules.forced_end)
        self.beams: dict[int, Beams] = {}  # by width
        self._suppressed = torch.tensor(rules.suppressed, dtype=torch.long, device=network.device)
        self._group = 1  # rows per beam if every beam is one aligned block, else 1
        self._device: DeviceStep | None = None
        # here and not at every step, where the protocol's look at all its members takes 0.1 ms
        self._likeliest = network if isinstance(network, Likeliest) else None
        self._advances_beams = network if isinstance(network, AdvancesBeams) else None
        self._alike: Beams | None = None  # the beams of all live rows, if the network may advance them itself
        if isinstance(network, Graphed):
            self._device = DeviceStep(network, self.state, rules, slots, target_length + 1)
        self._on_host = set[int]()  # requests that only the host's step can serve
        self._joined: list[ActiveRequest] = []  # beams that no step whose results are read has included
        # whether the live rows have changed, and whether requests have joined, since the last submitted step
        self._rearranged = self._grown = False

    @property
    def free(self) -> int:
        """The number of free slots."""
        return self.slots - len(self.owners)

    def warm_up(self, widths: Sequence[int] = (), *, sampling: bool = False) -> int:
        """With CUDA graphs, records those of greedy search, of these beam widths and of sampling, and the plain ones of
        the host's step, before any request. Returns the number of graphs."""
        if self._device is None:
            return 0
        widths = [width for width in widths if width > 1]
        self._device.network.warm_up(self.state, [1, *widths])
        return self._device.warm_up(("greedy", "sampled", "cut") if sampling else ("greedy",), widths)

    def join(self, requests: Sequence[tuple[int, Prompt, DecodingOptions]]) -> None:
        """Prefills requests that start with the next step. The caller makes sure that they fit: one row per hypothesis.
        ValueError if one is too long for the slots or has an empty prefix. Running requests survive any exception."""
        joining, room = list[ActiveRequest](), self.free
        for key, prompt, options in requests:
            assert key not in self.requests, "two requests under one key"
            room -= options.beam
            self._check_length(prompt, options)
            constraints = self._constraints(prompt, options) if options.constrains_beam else None
            joining.append(ActiveRequest(key, prompt, options, constraints))
        assert room >= 0, "more rows than slots"
        if not joining:
            return
        first = len(self.owners)
        for request in joining:
            request.rows = list(range(len(self.owners), len(self.owners) + request.options.beam))
            self.owners += [request] * request.options.beam
        copies = [(request.rows[0], row) for request in joining for row in request.rows[1:]]
        try:
            self.network.prefill(self.state, [r.rows[0] for r in joining], [r.prompt for r in joining])
            if copies:
                self.network.copy(self.state, *zip(*copies, strict=True))
            for request in joining:
                self.rows.feed[request.rows] = request.prompt.prefix[-1]
                if request.options.beam == 1:
                    self.rows.start(request.rows[0], request.options, request.prompt.prefix)
            if self._device is not None and self._device.active:
                self._put(self._device, joining)
        except BaseException:
            del self.owners[first:]
            raise
        for request in joining:
            self.requests[request.key] = request
            if request.options.beam > 1:
                if self._device is None or not self._device.active:
                    self._add_beam(request)
                else:
                    self._joined.append(request)
        if self._device is not None:
            self._on_host.update(request.key for request in joining if needs_host(request.options))
            self._grown = True
        self._refresh()

    def _add_joined(self) -> None:
        for request in self._joined:
            self._add_beam(request)
        self._joined.clear()

    def _add_beam(self, request: ActiveRequest) -> None:
        width = request.options.beam
        if width not in self.beams:
            room, forced_end = self.slots // width, self.rules.forced_end
            self.beams[width] = Beams(width, self.rules.eos, room, self.target_length, forced_end=forced_end)
        self.beams[width].add(request)

    def _check_length(self, prompt: Prompt, options: DecodingOptions) -> None:
        if not prompt.prefix:
            raise ValueError("A request needs a token to start from: its prefix is empty.")
        longest = len(prompt.prefix) - 1 + options.token_limit
        if len(prompt.source) > self.source_length or longest > self.target_length:
            raise ValueError(
                f"A request of {len(prompt.source)} source and up to {longest} target tokens does not fit slots"
                f" of {self.source_length} and {self.target_length}."
            )

    def _constraints(self, prompt: Prompt, options: DecodingOptions) -> BeamConstraints:
        """ValueError for a term that can never be produced."""
        never = {*self.rules.suppressed, self.rules.eos}
        terms = [[run for run in term if never.isdisjoint(run)] for term in options.required]
        if not all(terms):
            missing = ", ".join(map(str, options.required[terms.index([])][0]))
            raise ValueError(
                f"A required term ({missing}) holds an end token or one that is never chosen: leave it out."
            )
        return BeamConstraints(
            options, prompt.prefix, self.rules.eos, TermAutomaton(terms, self.parts) if terms else None
        )

    def leave(self, key: int) -> None:
        """Drops a request, finished or not. Unknown keys are ignored."""
        request = self.requests.pop(key, None)
        if request is not None:
            self._release([request])

    def step(self) -> StepResult:
        """Decodes a token for every live row; of beams that a network advances itself more, as long as that takes less
        than CALL_S. With CUDA graphs the result is that of the step before, which is read after the next one has
        begun."""
        return self._step_on_host() if self._device is None else self._step_ahead(self._device)

    @torch.inference_mode()
    def _step_on_host(self) -> StepResult:
        result = StepResult()
        if not self.owners:
            return result
        if self._alike is not None and self._follow_network(self._alike, result):
            return self._finished(result)
        feed = self.rows.fed[: len(self.owners)].to(self.network.device, non_blocking=True)
        if self._likeliest is not None and not self.beams and self.rows.argmax_suffices:
            chosen = self._likeliest.likeliest(self.state, feed, self.rules.suppressed)
            self._finish_rows(*self.rows.record_tokens(chosen.numpy(), self.owners, result), result)
            return self._finished(result)
        logits = self.network.step(self.state, feed, self._group)
        suppressed_logsumexp: Floats | None = None
        if len(self._suppressed):
            mass = suppress_tokens(logits, self._suppressed, renormalise=self.rules.renormalise)
            suppressed_logsumexp = None if mass is None else mass.cpu().numpy()
        if len(self.rows.alone):
            self._finish_rows(*self.rows.advance(logits, self.owners, result, suppressed_logsumexp), result)
        if self.beams:
            self._advance_beams(logits, result, suppressed_logsumexp)
        return self._finished(result)

    def _follow_network(self, beams: Beams, result: StepResult) -> bool:
        """Lets the network advance the beams of all rows. False if it leaves the next step to `_step_on_host`."""
        assert self._advances_beams is not None
        table = beams.table(self.rules.suppressed, self.rules.renormalise)
        steps, ended = self._advances_beams.advance_beams(
            self.state, table, beams.rows, beams.prefix_lengths, self.rows.feed, CALL_S
        )
        if steps:
            beams.follow(ended)
            self._record_beams(beams, result)
            result.steps = steps
        return steps > 0

    def _finish_rows(self, ended: Mask, done: Ints, result: StepResult) -> None:
        """Adds the hypotheses of rows without a beam that are done. ended, by row: by the end token."""
        for row in done.tolist():
            request = self.owners[row]
            hypothesis = self.rows.result(row, request.options, finished=bool(ended[row]))
            result.finished.append((request.key, [hypothesis]))

    def _finished(self, result: StepResult) -> StepResult:
        if result.finished:
            self._release([self.requests.pop(key) for key, _ in result.finished])
        return result

    def _advance_beams(self, logits: torch.Tensor, result: StepResult, suppressed_logsumexp: Floats | None) -> None:
        """Advances the beams of each width, then reorders the caches of all of them in one copy."""
        sources, destinations, since = list[int](), list[int](), list[int]()
        for beams in self.beams.values():
            rows, count, constraints = beams.rows, len(beams.requests), beams.constraints
            so_far = beams.log_probabilities[:count]
            if suppressed_logsumexp is not None:
                so_far = (so_far - suppressed_logsumexp[rows]).astype(np.float32)
            if constraints:
                beams.advance(constrained_continuations(logits, rows, so_far, constraints))
            else:
                beams.advance(continuations(logits, rows, so_far))
            self._record_beams(beams, result)
            self.rows.feed[rows] = beams.new_tokens
            places, columns = beams.moved.nonzero()
            if len(places):
                sources += rows[places, beams.origins[places, columns]].tolist()
                destinations += rows[places, columns].tolist()
                since += (beams.prefix_lengths[places] + beams.common[places, columns]).tolist()
        if sources:
            self.network.copy(self.state, sources, destinations, since)

    def _record_beams(self, beams: Beams, result: StepResult) -> None:
        if np.count_nonzero(beams.streamed[: len(beams.requests)]):
            result.tokens += beams.agreed_tokens()
        for place in beams.done.nonzero()[0].tolist():
            request = beams.requests[place]
            result.finished.append((request.key, beams.results(place, request.options.n_best)))

    def _step_ahead(self, device: DeviceStep) -> StepResult:
        """Submits a step, then handles the results of the one before. Requests that need the host first let the last
        submitted step end; when the last of them is gone, the device takes over again."""
        result, before = StepResult(late=True), device.in_flight
        if not self.owners:
            return result
        if self._on_host and before is None:
            if device.active:
                self._add_joined()
                self._leave_device(device)
            return self._step_on_host()
        if self._on_host:
            device.in_flight = None
        else:
            if not device.active:
                self._put(device, list(self.requests.values()))
                device.active = True
                self._rearranged = True
            if self._rearranged:
                layout, steps = self._layout(device)
                device.arrange(layout, steps if before is None or self._grown else steps - 1)
                self._rearranged = self._grown = False
            device.submit()
        if before is not None:
            self._record_step(device.read(before), before, result)
        self._add_joined()
        if self._on_host:
            self._leave_device(device)
        if result.finished:
            self._release([self.requests.pop(key) for key, _ in result.finished])
            if not self.owners:
                device.forget()
        return result

    def _record_step(self, results: StepResults, step: Submitted, result: StepResult) -> None:
        if len(results.rows):
            chosen = ChosenTokens(results.tokens, results.log_probabilities, None, {})
            self._finish_rows(*self.rows.record(results.rows, chosen, self.owners, result, counts=False), result)
        for width, candidates in results.candidates.items():
            if (beams := self.beams.get(width)) is None or not beams.requests:
                continue
            if step.changed:
                places = {id(request): place for place, request in enumerate(step.layout.beams[width])}
                index = [places[id(request)] for request in beams.requests]
                values, parents, tokens = candidates
                candidates = Continuations(values[index], parents[index], tokens[index])
            beams.advance_chosen(candidates)
            self._record_beams(beams, result)

    def _layout(self, device: DeviceStep) -> tuple[Layout, int]:
        """The live rows, and how many more steps it takes, as far as the host knows, until all reach their limits."""
        beams = {width: list(beams.requests) for width, beams in self.beams.items() if beams.requests}
        alone = self.rows.alone
        left = (self.rows.limits[alone] - self.rows.lengths[alone]).tolist()
        for width, requests in beams.items():
            left += (self.beams[width].limits - self.beams[width].lengths)[: len(requests)].tolist()
        for request in self._joined:
            beams.setdefault(request.options.beam, []).append(request)
            left.append(request.options.token_limit)
        offsets, total = dict[int, int](), 0
        for width, requests in beams.items():
            offsets[width] = total
            total += len(requests)
        together = {width: tuple(requests) for width, requests in beams.items()}
        variant = device.variant(self.rows, together)
        return Layout(len(self.owners), self._group, alone, together, offsets, variant), max(left)

    def _put(self, device: DeviceStep, requests: Sequence[ActiveRequest]) -> None:
        """Writes the rows of these requests to the device as the host knows them."""
        rows = [row for request in requests for row in request.rows]
        totals = np.zeros(len(self.owners), dtype=np.float32)
        for request in requests:
            totals[request.rows[1:]] = -np.inf  # see `Beams.add`
        if not device.active:  # it takes over: beams are under way
            for beams in self.beams.values():
                for place, request in enumerate(beams.requests):
                    totals[request.rows] = beams.log_probabilities[place]
        device.put(rows, self.rows, [self.owners[row] for row in rows], totals[rows])

    def _leave_device(self, device: DeviceStep) -> None:
        """Completes what only the device knew: the counts of penalties, and the next inputs of beams."""
        device.active = False
        for request in self.requests.values():
            if request.options.penalised:
                self.rows.recount(request.rows[0], request.options, request.prompt.prefix)
        self._refresh()
        for beams in self.beams.values():
            going = (beams.lengths[: len(beams.requests)] > 0).nonzero()[0]
            self.rows.feed[beams.rows[going]] = beams.tokens[going, beams.lengths[going] - 1]

    def _release(self, requests: Sequence[ActiveRequest]) -> None:
        """Frees the rows of these requests and fills the gaps with the last live rows."""
        freed = set[int]()
        for request in requests:
            freed.update(request.rows)
            self._on_host.discard(request.key)
            if request in self._joined:
                self._joined.remove(request)
            elif request.options.beam > 1:
                self.beams[request.options.beam].remove(request)
        remaining = len(self.owners) - len(freed)
        holes = sorted(freed.intersection(range(remaining)))
        movers = sorted(set(range(remaining, len(self.owners))) - freed)
        for source, hole in zip(movers, holes, strict=True):
            owner = self.owners[source]
            owner.rows[owner.rows.index(source)] = hole
            self.owners[hole] = owner
        if movers:
            self.rows.move(movers, holes)
            self.network.copy(self.state, movers, holes)
        if self._device is not None and self._device.active:
            self._device.move(sorted(freed), movers, holes)
        del self.owners[remaining:]
        self._refresh()

    def _refresh(self) -> None:
        """Rebuilds the row indices; runs when requests join or leave, not at every step."""
        self._rearranged = True
        alone = [row for row, owner in enumerate(self.owners) if owner.options.beam == 1]
        if alone or len(self.rows.alone):
            self.rows.refresh(alone)
        for width, beams in list(self.beams.items()):
            if not beams.requests:
                del self.beams[width]
                continue
            beams.rows = np.array([request.rows for request in beams.requests], dtype=np.int64)
            beams.prefix_lengths = np.array([len(request.prompt.prefix) for request in beams.requests], dtype=np.int64)
        self._alike = None
        if self._advances_beams is not None and len(self.beams) == 1 and not len(self.rows.alone):
            (beams,) = self.beams.values()
            self._alike = beams if beams.plain else None
        # if all beams have one width and aligned rows, the network reads each source once per beam
        widths = {len(request.rows) for request in self.requests.values()}
        self._group = widths.pop() if len(widths) == 1 else 1
        for request in self.requests.values():
            row = request.rows[0]
            if row % self._group or request.rows != list(range(row, row + self._group)):
                self._group = 1
                return


def decode(
    network: Network,
    rules: TokenRules,
    prompts: Sequence[Prompt],
    options: Sequence[DecodingOptions] | DecodingOptions,
    *,
    slots: int = 64,
    precision: Precision = "fp32",
    parts: WordParts | None = None,
    progress: Callable[[int], object] | None = None,
) -> list[list[Hypothesis]]:
    """Decodes all prompts; returns the hypotheses of each prompt in order, best first. options: one for all, or one per
    prompt. Long sources start first, and freed rows are refilled. progress: called with the number of prompts that a
    step has finished."""
    each = [options] * len(prompts) if isinstance(options, DecodingOptions) else list(options)
    each = [replace(one, streamed=False) if one.streamed else one for one in each]  # callers see final hypotheses alone
    if not prompts:
        return []
    slots = max(slots, *(o.beam for o in each))
    decoder = Decoder(
        decodable(network, precision),
        rules,
        slots=min(slots, sum(o.beam for o in each)),
        source_length=max(len(p.source) for p in prompts),
        target_length=max(len(p.prefix) - 1 + o.token_limit for p, o in zip(prompts, each, strict=True)),
        parts=parts,
    )
    waiting = sorted(range(len(prompts)), key=lambda i: len(prompts[i].source))
    results: dict[int, list[Hypothesis]] = {}
    while waiting or decoder.requests:
        joining, room = [], decoder.free
        # refilling row by row would prefill one sentence per step: wait for an eighth of the slots
        if waiting and (room * 8 >= decoder.slots or not decoder.requests):
            while waiting and each[waiting[-1]].beam <= room:
                index = waiting.pop()
                room -= each[index].beam
                joining.append((index, prompts[index], each[index]))
        if joining:
            decoder.join(joining)
        finished = decoder.step().finished
        results.update(finished)
        if progress is not None and finished:
            progress(len(finished))
    return [results[i] for i in range(len(prompts))]
