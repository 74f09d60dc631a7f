"""The decoding loop for any `Decodable`: greedy, sampling and beam requests in one batch, joining and leaving at step
boundaries. Evaluation in training and the serving engine share it, so both decode alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from models.backends.select import Network, decodable
from models.backends.top_k import continuations
from models.decoding.active_request import ActiveRequest, StepResult
from models.decoding.beam import Beams
from models.decoding.constrained_beam import BeamConstraints, constrained_continuations
from models.decoding.constraints import TermAutomaton
from models.decoding.logits_processors import suppress_tokens
from models.decoding.options import DecodingOptions, Hypothesis, TokenRules
from models.decoding.row_state import Floats, RowState
from models.interface import Decodable, Precision, Prompt
from models.tokenizer.word_parts import WordParts


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

    @property
    def free(self) -> int:
        """The number of free slots."""
        return self.slots - len(self.owners)

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
        except BaseException:
            del self.owners[first:]
            raise
        for request in joining:
            self.requests[request.key], width = request, request.options.beam
            self.rows.feed[request.rows] = request.prompt.prefix[-1]
            if width == 1:
                self.rows.start(request.rows[0], request.options, request.prompt.prefix)
                continue
            if width not in self.beams:
                room, forced_end = self.slots // width, self.rules.forced_end
                self.beams[width] = Beams(width, self.rules.eos, room, self.target_length, forced_end=forced_end)
            self.beams[width].add(request)
        self._refresh()

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

    @torch.inference_mode()
    def step(self) -> StepResult:
        """Decodes one token for every live row."""
        result = StepResult()
        if not self.owners:
            return result
        feed = self.rows.fed[: len(self.owners)].to(self.network.device, non_blocking=True)
        logits = self.network.step(self.state, feed, self._group)
        suppressed_logsumexp: Floats | None = None
        if len(self._suppressed):
            mass = suppress_tokens(logits, self._suppressed, renormalise=self.rules.renormalise)
            suppressed_logsumexp = None if mass is None else mass.cpu().numpy()
        if len(self.rows.alone):
            ended, done = self.rows.advance(logits, self.owners, result, suppressed_logsumexp)
            for row in done.tolist():
                request = self.owners[row]
                hypothesis = self.rows.result(row, request.options, finished=bool(ended[row]))
                result.finished.append((request.key, [hypothesis]))
        if self.beams:
            self._advance_beams(logits, result, suppressed_logsumexp)
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
            if beams.streamed[:count].any():
                result.tokens += beams.agreed_tokens()
            self.rows.feed[rows] = beams.new_tokens
            for place in beams.done.nonzero()[0].tolist():
                request = beams.requests[place]
                result.finished.append((request.key, beams.results(place, request.options.n_best)))
            places, columns = beams.moved.nonzero()
            if len(places):
                sources += rows[places, beams.origins[places, columns]].tolist()
                destinations += rows[places, columns].tolist()
                since += (beams.prefix_lengths[places] + beams.common[places, columns]).tolist()
        if sources:
            self.network.copy(self.state, sources, destinations, since)

    def _release(self, requests: Sequence[ActiveRequest]) -> None:
        """Frees the rows of these requests and fills the gaps with the last live rows."""
        freed = set[int]()
        for request in requests:
            freed.update(request.rows)
            if request.options.beam > 1:
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
        del self.owners[remaining:]
        self._refresh()

    def _refresh(self) -> None:
        """Rebuilds the row indices; runs when requests join or leave, not at every step."""
        alone = [row for row, owner in enumerate(self.owners) if owner.options.beam == 1]
        if alone or len(self.rows.alone):
            self.rows.refresh(alone)
        for width, beams in list(self.beams.items()):
            if not beams.requests:
                del self.beams[width]
                continue
            beams.rows = np.array([request.rows for request in beams.requests], dtype=np.int64)
            beams.prefix_lengths = np.array([len(request.prompt.prefix) for request in beams.requests], dtype=np.int64)
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
