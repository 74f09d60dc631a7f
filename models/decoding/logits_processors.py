"""Edits of logits before a token is chosen: suppressed tokens, penalties, and bans of repeated n-grams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from models.backends.top_k import logsumexp, row_maxima
from models.decoding.options import DecodingOptions, TokenRules

MAX_SUPPRESSED_MASS = 1 - 2**-24  # of the probability, by suppressed tokens: float32 leaves the others no less


def suppress_tokens(logits: Tensor, suppressed: Tensor, *, renormalise: bool) -> Tensor | None:
    """Written into logits [B, V]. Without renormalising: what the log-probabilities of the others, taken among
    themselves, are too large by, [B], float64."""
    if renormalise:
        logits.index_fill_(1, suppressed, -torch.inf)
        return None
    whole = logsumexp(logits, row_maxima(logits), keep=True)
    taken = logits[:, suppressed].sub_(whole[:, None]).double().exp_().sum(dim=-1)
    logits.index_fill_(1, suppressed, -torch.inf)
    return -taken.clamp_(max=MAX_SUPPRESSED_MASS).neg_().log1p_()


def log_probabilities(logits: Tensor, rules: TokenRules) -> Tensor:
    """logits [N, V] -> nats [N, V], float32, as `models.decoding.decoder` counts them: -inf for suppressed tokens.
    An end that
    is forced (`rules.forced_end`) costs nothing there; here it has the probability that the network gives it."""
    kept, shares = logits.float().clone(), None
    if rules.suppressed:
        suppressed = torch.tensor(rules.suppressed, dtype=torch.long, device=logits.device)
        shares = suppress_tokens(kept, suppressed, renormalise=rules.renormalise)
    kept -= logsumexp(kept, row_maxima(kept), keep=True)[:, None]
    return kept if shares is None else (kept - shares[:, None]).float()


Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]


class LogitPositions(NamedTuple):
    """Of logits [B, V]: rows [n] and tokens [n]."""

    rows: Ints
    tokens: Ints

    def on(self, device: torch.device) -> tuple[Tensor, Tensor]:
        return torch.from_numpy(self.rows).to(device), torch.from_numpy(self.tokens).to(device)


def repeated_ngram_tokens(written: Ints, size: int) -> LogitPositions:
    """written [R, T] -> the tokens that would complete a run of `size` tokens that is in its row already."""
    start = written.shape[1] - size + 1
    if start < 1:
        return LogitPositions(*(np.zeros(0, dtype=np.int64) for _ in range(2)))
    runs = np.lib.stride_tricks.sliding_window_view(written, size, axis=1)
    last = written[:, start:]
    rows, places = (runs[:, :, :-1] == last[:, None]).all(axis=2).nonzero()
    return LogitPositions(rows, runs[rows, places, -1])


def concatenate_positions(each: Sequence[LogitPositions]) -> LogitPositions:
    return LogitPositions(*(np.concatenate(column) for column in zip(*each, strict=True)))


@dataclass(slots=True, eq=False)
class TokenCounts:
    """Of one request: how often each token was written, and which ones the prefix has.

    tokens [n]: each once, those of the prefix first; counts [n]: how often they were written."""

    options: DecodingOptions
    tokens: Ints
    counts: Floats
    known: dict[int, int]  # token -> its place in these

    @classmethod
    def begin(cls, options: DecodingOptions, prefix: Sequence[int]) -> TokenCounts:
        known = {token: place for place, token in enumerate(dict.fromkeys(prefix))}
        tokens = np.array(list(known), dtype=np.int64)
        return cls(options, tokens, np.zeros(len(tokens), dtype=np.float32), known)

    def add(self, token: int) -> None:
        place = self.known.get(token)
        if place is None:
            place = self.known[token] = len(self.known)
            if place == len(self.tokens):
                self.tokens = np.concatenate([self.tokens, np.zeros(place + 8, dtype=np.int64)])
                self.counts = np.concatenate([self.counts, np.zeros(place + 8, dtype=np.float32)])
            self.tokens[place] = token
        self.counts[place] += 1


def apply_penalties(
    logits: Tensor, rows: Sequence[int], repeats: Sequence[TokenCounts]
) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """Written into the logits [B, V] of these rows. Where, and what was there before: [n] each."""
    sizes = [len(each.known) for each in repeats]
    places = LogitPositions(
        np.repeat(np.array(rows, dtype=np.int64), sizes),
        np.concatenate([each.tokens[:size] for each, size in zip(repeats, sizes, strict=True)]),
    )
    counts = np.concatenate([each.counts[:size] for each, size in zip(repeats, sizes, strict=True)])
    names = ("repetition_penalty", "frequency_penalty", "presence_penalty")
    columns = [np.array([getattr(each.options, name) for each in repeats], dtype=np.float32) for name in names]
    of_all = np.stack([counts, *(np.repeat(column, sizes) for column in columns)])
    many, repetition, frequency, presence = torch.from_numpy(of_all).to(logits.device)
    where = places.on(logits.device)
    before = logits[where]
    scores = torch.where(before < 0, before * repetition, before / repetition)
    logits[where] = scores - frequency * many - presence * (many > 0)
    return where, before


class LogitEdits(NamedTuple):
    """What was written into logits, in this order: where, and what was there before. banned: the rows
    that have bans, of which these may have left nothing."""

    writes: list[tuple[tuple[Tensor, Tensor], Tensor]]
    banned: Ints

    def undo(self, logits: Tensor) -> None:
        for where, before in reversed(self.writes):
            logits[where] = before


class RepetitionProcessors:
    """Those of all rows without a beam that have any. live: whether a row of the next step has."""

    def __init__(self) -> None:
        self.repeats: dict[int, TokenCounts] = {}
        self.live = False
        self._penalised, self._sizes = list[tuple[int, TokenCounts]](), dict[int, int]()

    def start(self, row: int, options: DecodingOptions, prefix: Sequence[int]) -> None:
        self.repeats.pop(row, None)
        if options.penalised or options.no_repeat_ngram_size:
            self.repeats[row] = TokenCounts.begin(options, prefix if options.penalised else ())

    def move(self, sources: Sequence[int], destinations: Sequence[int]) -> None:
        found = [self.repeats.pop(row, None) for row in sources]
        for row, repeats in zip(destinations, found, strict=True):
            self.repeats.pop(row, None)
            if repeats is not None:
                self.repeats[row] = repeats

    def survey(self, rows: Ints) -> None:
        """rows [N]: those of the next steps; in places among these everything else is counted."""
        held = [(place, self.repeats[row]) for place, row in enumerate(rows.tolist()) if row in self.repeats]
        self.live = bool(held)
        self._penalised = [(place, each) for place, each in held if each.options.penalised]
        sizes = {place: each.options.no_repeat_ngram_size for place, each in held}
        self._sizes = {place: size for place, size in sizes.items() if size}

    def write(self, logits: Tensor, rows: Ints, written: Ints, lengths: Ints) -> LogitEdits:
        """Penalties and bans, into logits [N, V] of these rows."""
        writes = []
        if self._penalised:
            places, repeats = zip(*self._penalised, strict=True)
            writes.append(apply_penalties(logits, places, repeats))
        found = []
        for place, size in self._sizes.items():
            row = rows[place]
            tokens = np.unique(
                repeated_ngram_tokens(written[row : row + 1, : lengths[row]], size).tokens
            )  # each once: it is undone
            if len(tokens):
                found.append(LogitPositions(np.full(len(tokens), place), tokens))
        banned = concatenate_positions(found) if found else None
        if banned is not None:
            where = banned.on(logits.device)
            writes.append((where, logits[where]))
            logits[where] = -torch.inf
        return LogitEdits(writes, np.zeros(0, dtype=np.int64) if banned is None else np.unique(banned.rows))

    def add(self, rows: Ints, tokens: Ints) -> None:
        """What these rows have written now."""
        for row, token in zip(rows.tolist(), tokens.tolist(), strict=True):
            repeats = self.repeats.get(row)
            if repeats is not None and repeats.options.penalised:
                repeats.add(token)
