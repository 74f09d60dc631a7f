"""One loop that drives any `Decodable`: greedy, sampling and beam requests side by side, joining and leaving at
step boundaries. Training scores models through it and the engine serves through it, so both say the same."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from models.beam import Beam, Candidate, Chain, Hypothesis, unchain
from models.interface import Decodable, Prompt
from models.sampling import Draw, sample, uniform


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingOptions:
    """beam 1 and temperature 0 is greedy search; a temperature draws; a beam above 1 searches."""

    max_new_tokens: int
    beam: int = 1
    n_best: int = 1  # of a beam: how many hypotheses to return
    length_penalty: float = 1.0
    temperature: float = 0.0
    top_k: int = 0  # 0: off
    top_p: float = 1.0  # 1: off
    seed: int = 0

    def __post_init__(self) -> None:
        checks = {
            f"max_new_tokens must be at least 1, not {self.max_new_tokens}": self.max_new_tokens >= 1,
            f"beam must be at least 1, not {self.beam}": self.beam >= 1,
            f"n_best must lie in 1..beam, not {self.n_best}": 1 <= self.n_best <= self.beam,
            f"length_penalty must lie in -10..10, not {self.length_penalty}": -10 <= self.length_penalty <= 10,
            f"temperature must be 0 or a positive number, not {self.temperature}": 0 <= self.temperature < 1e6,
            f"top_k must be at least 0, not {self.top_k}": self.top_k >= 0,
            f"top_p must lie in (0, 1], not {self.top_p}": 0 < self.top_p <= 1,
            "a beam does not draw: use temperature 0 with it": self.beam == 1 or self.temperature == 0,
        }
        problems = [sentence for sentence, holds in checks.items() if not holds]
        if problems:
            raise ValueError("; ".join(problems) + ".")


@dataclass(frozen=True, slots=True)
class TokenRules:
    """eos ends a sequence; suppressed tokens (padding, unknown, start) are never chosen."""

    eos: int | None
    suppressed: tuple[int, ...] = ()


@dataclass(slots=True, eq=False)
class Search:
    """One request inside the loop: the rows that it occupies and what it has so far."""

    key: Hashable
    prompt: Prompt
    options: DecodingOptions
    beam: Beam | None
    rows: list[int] = field(default_factory=list)
    next_tokens: list[int] = field(default_factory=list)  # a row each: what the next step feeds
    chain: Chain = None  # without a beam
    log_probability: float = 0.0
    length: int = 0

    def result(self, finished: bool) -> list[Hypothesis]:
        if self.beam is not None:
            return self.beam.results(self.options.n_best)
        score = self.log_probability / max(self.length, 1) ** self.options.length_penalty
        return [Hypothesis(unchain(self.chain), self.log_probability, score, finished)]


@dataclass(slots=True)
class Progress:
    """What one step brought: a token for each request without a beam, and the requests that are done."""

    tokens: list[tuple[Hashable, int]] = field(default_factory=list)
    finished: list[tuple[Hashable, list[Hypothesis]]] = field(default_factory=list)


class Decoder:
    """A continuous batch over the slots of one network."""

    def __init__(
        self, network: Decodable, rules: TokenRules, *, slots: int, source_length: int, target_length: int
    ) -> None:
        self.network, self.rules, self.slots = network, rules, slots
        self.source_length, self.target_length = source_length, target_length
        self.state: Any = network.allocate(slots, source_length, target_length)
        self.searches: dict[Hashable, Search] = {}
        self.owners: list[Search] = []  # row -> the search that it serves

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
        self.searches.update((s.key, s) for s in searches)

    def _search(self, key: Hashable, prompt: Prompt, options: DecodingOptions) -> Search:
        if not prompt.prefix:
            raise ValueError("A request needs a token to start from: its prefix is empty.")
        longest = len(prompt.prefix) - 1 + options.max_new_tokens
        if len(prompt.source) > self.source_length or longest > self.target_length:
            raise ValueError(
                f"A request of {len(prompt.source)} source and up to {longest} target tokens does not fit slots"
                f" of {self.source_length} and {self.target_length}."
            )
        beam = None
        if options.beam > 1:
            beam = Beam(options.beam, options.length_penalty, options.max_new_tokens, self.rules.eos)
        return Search(key, prompt, options, beam, next_tokens=[prompt.prefix[-1]] * options.beam)

    def leave(self, key: Hashable) -> None:
        """Drop a request, finished or not; unknown keys are harmless."""
        search = self.searches.pop(key, None)
        if search is not None:
            self._release([search])

    @torch.inference_mode()
    def step(self) -> Progress:
        """One token for every live row."""
        progress = Progress()
        if not self.owners:
            return progress
        feed = [0] * len(self.owners)
        for search in self.searches.values():
            for row, token in zip(search.rows, search.next_tokens, strict=True):
                feed[row] = token
        logits = self.network.step(self.state, torch.tensor(feed, device=self.network.device)).float()
        if self.rules.suppressed:
            logits[:, list(self.rules.suppressed)] = -torch.inf
        log_probabilities = logits.log_softmax(dim=-1)
        self._advance_rows(log_probabilities, progress)
        self._advance_beams(log_probabilities, progress)
        done = [self.searches.pop(key) for key, _ in progress.finished]
        self._release(done)
        return progress

    def _advance_rows(self, log_probabilities: Tensor, progress: Progress) -> None:
        """Greedy and sampling requests: choose, record, and see whether they are done."""
        searches = [s for s in self.searches.values() if s.beam is None]
        if not searches:
            return
        chosen_rows = log_probabilities[[s.rows[0] for s in searches]]
        chosen = chosen_rows.argmax(dim=-1)
        drawing = [i for i, s in enumerate(searches) if s.options.temperature > 0]
        if drawing:
            chosen[drawing] = sample(chosen_rows[drawing], [draw_of(searches[i]) for i in drawing])
        gains = chosen_rows.gather(1, chosen[:, None])[:, 0]
        for search, token, gain in zip(searches, chosen.tolist(), gains.tolist(), strict=True):
            search.length += 1
            search.log_probability += gain
            ended = token == self.rules.eos
            if not ended:
                search.chain = (search.chain, token)
                search.next_tokens = [token]
                progress.tokens.append((search.key, token))
            if ended or search.length >= search.options.max_new_tokens:
                progress.finished.append((search.key, search.result(ended)))

    def _advance_beams(self, log_probabilities: Tensor, progress: Progress) -> None:
        """Beam requests, those of one width together; then every row takes its parent's state at once."""
        moves: list[tuple[int, int]] = []
        by_width: dict[int, list[tuple[Search, Beam]]] = {}
        for search in self.searches.values():
            if search.beam is not None:
                by_width.setdefault(search.options.beam, []).append((search, search.beam))
        for width, group in by_width.items():
            for (search, beam), candidates in zip(group, best(log_probabilities, group, width), strict=True):
                live = beam.advance(candidates)
                if beam.done:
                    progress.finished.append((search.key, search.result(True)))
                    continue
                search.next_tokens = [c.token for c in live]
                moves += [(search.rows[c.parent], row) for c, row in zip(live, search.rows, strict=True)]
        self._copy([(source, row) for source, row in moves if source != row])

    def _release(self, searches: Sequence[Search]) -> None:
        """Free the rows of these and close the gaps with the last live rows."""
        freed = {row for search in searches for row in search.rows}
        remaining = len(self.owners) - len(freed)
        holes = sorted(row for row in freed if row < remaining)
        movers = [row for row in range(remaining, len(self.owners)) if row not in freed]
        for source, hole in zip(movers, holes, strict=True):
            owner = self.owners[source]
            owner.rows[owner.rows.index(source)] = hole
            self.owners[hole] = owner
        self._copy(list(zip(movers, holes, strict=True)))
        del self.owners[remaining:]

    def _copy(self, moves: list[tuple[int, int]]) -> None:
        if moves:
            sources, destinations = torch.tensor(moves, device=self.network.device).unbind(1)
            self.network.copy(self.state, sources, destinations)


def draw_of(search: Search) -> Draw:
    options = search.options
    number = uniform(options.seed, search.length)
    return Draw(options.temperature, options.top_k, options.top_p, number)


def best(log_probabilities: Tensor, group: Sequence[tuple[Search, Beam]], width: int) -> list[list[Candidate]]:
    """The 2k likeliest continuations of each beam in the group, likeliest first."""
    device, size = log_probabilities.device, log_probabilities.size(1)
    rows = torch.tensor([search.rows for search, _ in group], device=device)
    so_far = torch.tensor([beam.log_probabilities for _, beam in group], device=device)
    total = (so_far[:, :, None] + log_probabilities[rows]).flatten(1)
    values, places = total.topk(min(2 * width, total.size(1)), dim=-1)
    return [
        [Candidate(v, p // size, p % size) for v, p in zip(line_v, line_p, strict=True)]
        for line_v, line_p in zip(values.tolist(), places.tolist(), strict=True)
    ]


def decode(
    network: Decodable,
    rules: TokenRules,
    prompts: Sequence[Prompt],
    options: Sequence[DecodingOptions] | DecodingOptions,
    *,
    slots: int = 64,
) -> list[list[Hypothesis]]:
    """Decode all prompts and answer in their order: the hypotheses of each, best first.

    options: one for all, or one each. Long sources start first and every freed row is filled at once.
    """
    each = [options] * len(prompts) if isinstance(options, DecodingOptions) else list(options)
    if not prompts:
        return []
    slots = max(slots, *(o.beam for o in each))
    decoder = Decoder(
        network,
        rules,
        slots=min(slots, sum(o.beam for o in each)),
        source_length=max(len(p.source) for p in prompts),
        target_length=max(len(p.prefix) - 1 + o.max_new_tokens for p, o in zip(prompts, each, strict=True)),
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
