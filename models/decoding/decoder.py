"""The loop that drives any `Decodable`: greedy, sampling and beam requests side by side, joining and leaving at step
boundaries. Training scores models through it and the engine serves through it, so both decode alike."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from models.backends.select import Network, decodable
from models.backends.top_k import continuations
from models.decoding.beam import Beams, Hypothesis
from models.decoding.constrained_beam import BeamConstraints, constrained_continuations
from models.decoding.constraints import TermAutomaton
from models.decoding.logits_processors import suppress_tokens
from models.decoding.options import DecodingOptions, TokenRules
from models.decoding.row_state import RowState, StreamedStep, TopTokens
from models.interface import Decodable, Precision, Prompt
from models.tokenizer.word_parts import WordParts

__all__ = ["Decoder", "DecodingOptions", "Hypothesis", "StepResult", "TokenRules", "decode"]

Floats = npt.NDArray[np.float64]


@dataclass(slots=True, eq=False)
class ActiveRequest:
    """One request inside the loop and the rows that it occupies; what it has is in `Rows`, or in `Beams`."""

    key: Hashable
    prompt: Prompt
    options: DecodingOptions
    rows: list[int] = field(default_factory=list)
    bound: BeamConstraints | None = None  # of a beam


@dataclass(slots=True)
class BeamGroup:
    """The beams of one width. rows [G, k]: those of each; prefixes [G]: how many tokens each was given."""

    beams: Beams
    rows: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int64))
    prefixes: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def survey(self, searches: Sequence[ActiveRequest]) -> None:
        """searches: of the beams, in their order."""
        self.rows = np.array([search.rows for search in searches], dtype=np.int64)
        self.prefixes = np.array([len(search.prompt.prefix) for search in searches], dtype=np.int64)


@dataclass(slots=True)
class StepResult:
    """What one step brought: the new tokens of streamed requests (of a beam those on which all that may still win
    have come to agree), and the requests that are done. log_probabilities: of the new token of those streamed requests
    that asked for them, in nats; likeliest: at its place the likeliest tokens, of those that asked for these."""

    tokens: list[tuple[Hashable, int]] = field(default_factory=list)
    log_probabilities: dict[Hashable, float] = field(default_factory=dict)
    likeliest: dict[Hashable, TopTokens] = field(default_factory=dict)
    finished: list[tuple[Hashable, list[Hypothesis]]] = field(default_factory=list)


class Decoder:
    """A continuous batch over the slots of one network. parts: which tokens join to words; None: none do."""

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
        self.searches: dict[Hashable, ActiveRequest] = {}
        self.owners: list[ActiveRequest] = []  # row -> the search that it serves
        self.rows = RowState(slots, target_length + 1, rules.eos, network.device, forced_end=rules.forced_end)
        self.suppressed = torch.tensor(rules.suppressed, dtype=torch.long, device=network.device)
        self.group = 1  # rows come in blocks of so many that belong to one beam
        self.beams: dict[int, BeamGroup] = {}  # by width

    @property
    def free(self) -> int:
        return self.slots - len(self.owners)

    def join(self, requests: Sequence[tuple[Hashable, Prompt, DecodingOptions]]) -> None:
        """Prefill requests that start with the next step. The caller sees to it that they fit: one row each,
        or `beam` rows. ValueError if a request is longer than the slots or starts from nothing. Whatever is
        raised, the requests that were there before go on."""
        if not requests:
            return
        searches = [self._search(*request) for request in requests]
        assert sum(s.options.beam for s in searches) <= self.free, "more rows than slots"
        keys = [*self.searches, *(s.key for s in searches)]
        assert len(set(keys)) == len(keys), "two requests under one key"
        first = row = len(self.owners)
        for search in searches:
            search.rows = list(range(row, row + search.options.beam))
            self.owners += [search] * search.options.beam
            row += search.options.beam
        try:
            self.network.prefill(self.state, [s.rows[0] for s in searches], [s.prompt for s in searches])
            self._copy([(s.rows[0], row) for s in searches for row in s.rows[1:]])
        except BaseException:
            del self.owners[first:]
            raise
        for search in searches:
            self.searches[search.key] = search
            self.rows.feed[search.rows] = search.prompt.prefix[-1]
            if search.options.beam == 1:
                self.rows.start(search.rows[0], search.options, search.prompt.prefix)
            else:
                self._group(search.options.beam).beams.add(search.key, search.options, search.bound)
        self._survey()

    def _group(self, width: int) -> BeamGroup:
        if width not in self.beams:
            room, forced_end = self.slots // width, self.rules.forced_end
            self.beams[width] = BeamGroup(Beams(width, self.rules.eos, room, self.target_length, forced_end=forced_end))
        return self.beams[width]

    def _search(self, key: Hashable, prompt: Prompt, options: DecodingOptions) -> ActiveRequest:
        if not prompt.prefix:
            raise ValueError("A request needs a token to start from: its prefix is empty.")
        longest = len(prompt.prefix) - 1 + options.token_limit
        if len(prompt.source) > self.source_length or longest > self.target_length:
            raise ValueError(
                f"A request of {len(prompt.source)} source and up to {longest} target tokens does not fit slots"
                f" of {self.source_length} and {self.target_length}."
            )
        return ActiveRequest(key, prompt, options, bound=self._bound(prompt, options))

    def _bound(self, prompt: Prompt, options: DecodingOptions) -> BeamConstraints | None:
        """What a beam may not, or must write; ValueError for a term that can never come."""
        if not options.constrains_beam:
            return None
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

    def leave(self, key: Hashable) -> None:
        """Drop a request, finished or not; unknown keys are harmless."""
        search = self.searches.pop(key, None)
        if search is not None:
            self._release([search])

    @torch.inference_mode()
    def step(self) -> StepResult:
        """One token for every live row."""
        progress = StepResult()
        if not self.owners:
            return progress
        feed = self.rows.fed[: len(self.owners)].to(self.network.device, non_blocking=True)
        logits = self.network.step(self.state, feed, self.group)
        shares = self._suppress(logits) if len(self.suppressed) else None
        self._advance_rows(logits, progress, shares)
        if self.beams:
            self._advance_beams(logits, progress, shares)
        if progress.finished:
            self._release([self.searches.pop(key) for key, _ in progress.finished])
        return progress

    def _suppress(self, logits: Tensor) -> Floats | None:
        """Written into the logits. Without renormalising: what the log-probabilities of the others then are too large
        by, [B]."""
        shares = suppress_tokens(logits, self.suppressed, renormalise=self.rules.renormalise)
        return None if shares is None else shares.cpu().numpy()

    def _advance_rows(self, logits: Tensor, progress: StepResult, shares: Floats | None) -> None:
        """Greedy and sampling requests: choose, record, and see which are done."""
        if not len(self.rows.alone):
            return
        told = StreamedStep(progress.tokens, progress.log_probabilities, progress.likeliest)
        ended, done = self.rows.advance(logits, self.owners, told, shares)
        for row in done.tolist():
            search = self.owners[row]
            result = self.rows.result(row, search.options, finished=bool(ended[row]))
            progress.finished.append((search.key, [result]))

    def _advance_beams(self, logits: Tensor, progress: StepResult, shares: Floats | None) -> None:
        """Beam requests, those of one width together; then every row takes its parent's state at once."""
        sources, destinations, since = list[int](), list[int](), list[int]()
        for group in self.beams.values():
            beams, rows = group.beams, group.rows
            so_far = beams.log_probabilities[: len(beams)]
            if shares is not None:
                so_far = (so_far - shares[rows]).astype(np.float32)
            if beams.any_bound:
                beams.advance(constrained_continuations(logits, rows, so_far, beams.bounds))
            else:
                beams.advance(continuations(logits, rows, so_far))
            progress.tokens += beams.news()
            self.rows.feed[rows] = beams.last
            for place in beams.done.nonzero()[0].tolist():
                search = self.searches[beams.keys[place]]
                progress.finished.append((search.key, beams.results(place, search.options.n_best)))
            places, columns = beams.moved.nonzero()
            if len(places):
                sources += rows[places, beams.came[places, columns]].tolist()
                destinations += rows[places, columns].tolist()
                since += (group.prefixes[places] + beams.common[places, columns]).tolist()
        if sources:
            self.network.copy(self.state, sources, destinations, since)

    def _release(self, searches: Sequence[ActiveRequest]) -> None:
        """Free the rows of these and close the gaps with the last live rows."""
        for search in searches:
            if search.options.beam > 1:
                self.beams[search.options.beam].beams.remove(search.key)
        freed = {row for search in searches for row in search.rows}
        remaining = len(self.owners) - len(freed)
        holes = sorted(row for row in freed if row < remaining)
        movers = [row for row in range(remaining, len(self.owners)) if row not in freed]
        for source, hole in zip(movers, holes, strict=True):
            owner = self.owners[source]
            owner.rows[owner.rows.index(source)] = hole
            self.owners[hole] = owner
        self.rows.move(movers, holes)
        self._copy(list(zip(movers, holes, strict=True)))
        del self.owners[remaining:]
        self._survey()

    def _survey(self) -> None:
        """Who is where, counted anew when requests have come or gone and not at every step."""
        self.rows.survey([row for row, s in enumerate(self.owners) if s.options.beam == 1])
        self.beams = {width: group for width, group in self.beams.items() if len(group.beams)}
        for group in self.beams.values():
            group.survey([self.searches[key] for key in group.beams.keys])
        widths = {s.options.beam for s in self.searches.values()}
        width = widths.pop() if len(widths) == 1 else 1
        blocks = (s.rows == list(range(s.rows[0], s.rows[0] + width)) for s in self.searches.values())
        aligned = all(s.rows[0] % width == 0 for s in self.searches.values()) and all(blocks)
        self.group = width if aligned else 1

    def _copy(self, moves: list[tuple[int, int]]) -> None:
        if moves:
            self.network.copy(self.state, [source for source, _ in moves], [destination for _, destination in moves])


def decode(
    network: Network,
    rules: TokenRules,
    prompts: Sequence[Prompt],
    options: Sequence[DecodingOptions] | DecodingOptions,
    *,
    slots: int = 64,
    precision: Precision = "fp32",
    parts: WordParts | None = None,
) -> list[list[Hypothesis]]:
    """Decode all prompts and answer in their order: the hypotheses of each, best first.

    options: one for all, or one each. Long sources start first and every freed row is filled at once.
    """
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
    results: dict[Hashable, list[Hypothesis]] = {}
    while waiting or decoder.searches:
        joining, room = [], decoder.free
        # refilling few rows at a time would prefill one sentence a step: wait for an eighth of the slots
        if waiting and (room * 8 >= decoder.slots or not decoder.searches):
            while waiting and each[waiting[-1]].beam <= room:
                index = waiting.pop()
                room -= each[index].beam
                joining.append((index, prompts[index], each[index]))
        if joining:
            decoder.join(joining)
        results.update(decoder.step().finished)
    return [results[i] for i in range(len(prompts))]
