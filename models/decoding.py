"""One loop that drives any `Decodable`: greedy, sampling and beam requests side by side, joining and leaving at
step boundaries. Training scores models through it and the engine serves through it, so both say the same."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from models.beam import Beam, Hypothesis
from models.interface import Decodable, Network, Precision, Prompt
from models.likeliest import log_total, top
from models.rows import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingOptions:
    """beam 1 and temperature 0 is greedy search; a temperature draws; a beam above 1 searches.

    scores: whether log-probabilities are wanted; without a beam, leaving them out saves a pass over the vocabulary.
    streamed: whether `Progress.tokens` is to tell of this request.
    """

    max_new_tokens: int
    beam: int = 1
    n_best: int = 1  # of a beam: how many hypotheses to return
    length_penalty: float = 1.0
    temperature: float = 0.0
    top_k: int = 0  # 0: off
    top_p: float = 1.0  # 1: off
    seed: int = 0
    scores: bool = True
    streamed: bool = True

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
    """One request inside the loop and the rows that it occupies; without a beam, what it has is in `Rows`."""

    key: Hashable
    prompt: Prompt
    options: DecodingOptions
    beam: Beam | None
    rows: list[int] = field(default_factory=list)
    told: int = 0  # of a beam: tokens that `Progress` has told of


@dataclass(slots=True)
class Progress:
    """What one step brought: the new tokens of streamed requests (of a beam those on which all that may still win
    have come to agree), and the requests that are done."""

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
        self.rows = Rows(slots, target_length + 1, rules.eos, network.device)
        self.suppressed = torch.tensor(rules.suppressed, dtype=torch.long, device=network.device)
        self.group = 1  # rows come in blocks of so many that belong to one beam
        self.beams: dict[int, list[tuple[Search, Beam]]] = {}  # by width

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
            if search.beam is None:
                self.rows.start(search.rows[0], search.options)
        self._survey()

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
        return Search(key, prompt, options, beam)

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
        feed = self.rows.fed[: len(self.owners)].to(self.network.device, non_blocking=True)
        logits = self.network.step(self.state, feed, self.group)
        if len(self.suppressed):
            logits.index_fill_(1, self.suppressed, -torch.inf)
        self._advance_rows(logits, progress)
        if self.beams:
            self._advance_beams(logits, progress)
        if progress.finished:
            self._release([self.searches.pop(key) for key, _ in progress.finished])
        return progress

    def _advance_rows(self, logits: Tensor, progress: Progress) -> None:
        """Greedy and sampling requests: choose, record, and see which are done."""
        if not len(self.rows.alone):
            return
        ended, done = self.rows.advance(logits, self.owners, progress.tokens)
        for row in done.tolist():
            search = self.owners[row]
            result = self.rows.result(row, search.options, finished=bool(ended[row]))
            progress.finished.append((search.key, [result]))

    def _advance_beams(self, logits: Tensor, progress: Progress) -> None:
        """Beam requests, those of one width together; then every row takes its parent's state at once."""
        sources, destinations, since = list[int](), list[int](), list[int]()
        for width, group in self.beams.items():
            for (search, beam), candidates in zip(group, candidates_of(logits, group, width), strict=True):
                beam.advance(*candidates)
                self._tell(search, beam, progress)
                if beam.done:
                    progress.finished.append((search.key, beam.results(search.options.n_best)))
                    continue
                self.rows.feed[search.rows] = beam.tokens
                same = len(search.prompt.prefix) + beam.kept
                for parent, row in zip(beam.parents, search.rows, strict=True):
                    if search.rows[parent] != row:
                        sources.append(search.rows[parent])
                        destinations.append(row)
                        since.append(same)
        if sources:
            self.network.copy(self.state, sources, destinations, since)

    def _tell(self, search: Search, beam: Beam, progress: Progress) -> None:
        if search.options.streamed and beam.agreed > search.told:
            progress.tokens += [(search.key, token) for token in beam.agreed_since(search.told)]
            search.told = beam.agreed

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
        self.rows.move(movers, holes)
        self._copy(list(zip(movers, holes, strict=True)))
        del self.owners[remaining:]
        self._survey()

    def _survey(self) -> None:
        """Who is where, counted anew when requests have come or gone and not at every step."""
        self.rows.alone = self.rows.index([row for row, s in enumerate(self.owners) if s.beam is None])
        self.beams = {}
        for search in self.searches.values():
            if search.beam is not None:
                self.beams.setdefault(search.options.beam, []).append((search, search.beam))
        widths = {s.options.beam for s in self.searches.values()}
        width = widths.pop() if len(widths) == 1 else 1
        blocks = (s.rows == list(range(s.rows[0], s.rows[0] + width)) for s in self.searches.values())
        aligned = all(s.rows[0] % width == 0 for s in self.searches.values()) and all(blocks)
        self.group = width if aligned else 1

    def _copy(self, moves: list[tuple[int, int]]) -> None:
        if moves:
            self.network.copy(self.state, [source for source, _ in moves], [destination for _, destination in moves])


def candidates_of(
    logits: Tensor, group: Sequence[tuple[Search, Beam]], width: int
) -> list[tuple[list[float], list[int], list[int]]]:
    """The 2k likeliest continuations of each beam, likeliest first: their log-probabilities, which hypothesis each
    continues, and with what token. They are among the 2k likeliest of each row. Logits of beams are used up."""
    rows = [row for search, _ in group for row in search.rows]
    if rows != list(range(len(logits))):
        logits = logits[rows]
    count = min(2 * width, logits.size(1))
    values, tokens = top(logits, count)
    so_far = torch.tensor([beam.log_probabilities for _, beam in group], device=logits.device).view(-1, 1)
    totals = (values - log_total(logits, values[:, :1])[:, None] + so_far).view(len(group), -1)
    best, places = totals.topk(min(2 * width, totals.size(1)), dim=-1)
    chosen = tokens.view(len(group), -1).gather(1, places)
    # one look at the device for all three; float64 holds ids exactly
    found = torch.stack([best.double(), (places // count).double(), chosen.double()]).cpu().numpy()
    return list(zip(found[0].tolist(), found[1].astype(int).tolist(), found[2].astype(int).tolist(), strict=True))


def decode(
    network: Network,
    rules: TokenRules,
    prompts: Sequence[Prompt],
    options: Sequence[DecodingOptions] | DecodingOptions,
    *,
    slots: int = 64,
    precision: Precision = "fp32",
) -> list[list[Hypothesis]]:
    """Decode all prompts and answer in their order: the hypotheses of each, best first.

    options: one for all, or one each. Long sources start first and every freed row is filled at once.
    """
    each = [options] * len(prompts) if isinstance(options, DecodingOptions) else list(options)
    if not prompts:
        return []
    slots = max(slots, *(o.beam for o in each))
    decoder = Decoder(
        network.decodable(precision),
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
