"""Edits of logits before a token is chosen: suppressed tokens, penalties, and bans of repeated n-grams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from models.backends.top_k import logsumexp, row_maxima
from models.decoding.options import ROW_PARAMETERS, DecodingOptions, TokenRules

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
PENALTIES = tuple(name for name, row in ROW_PARAMETERS.items() if row.kind == "penalty")
MAX_SUPPRESSED_MASS = 1 - 2**-24  # float32 cannot represent a smaller remainder for the other tokens


def suppress_tokens(logits: Tensor, suppressed: Tensor, *, renormalise: bool) -> Tensor | None:
    """Sets the suppressed tokens in logits [B, V] to -inf. If not renormalise, returns the log-mass [B] (float64) to
    subtract from log-probabilities computed over the other tokens."""
    if renormalise:
        logits.index_fill_(1, suppressed, -torch.inf)
        return None
    whole = logsumexp(logits, row_maxima(logits), keep=True)
    mass = logits[:, suppressed].sub_(whole[:, None]).double().exp_().sum(dim=-1)
    logits.index_fill_(1, suppressed, -torch.inf)
    return -mass.clamp_(max=MAX_SUPPRESSED_MASS).neg_().log1p_()


def log_probabilities(logits: Tensor, rules: TokenRules) -> Tensor:
    """logits [N, V] -> log-probabilities [N, V], float32, as in decoding: -inf for suppressed tokens. The end token has
    the network's probability, also with `rules.forced_end`, where decoding counts it as free."""
    kept, suppressed_logsumexp = logits.float().clone(), None
    if rules.suppressed:
        suppressed = torch.tensor(rules.suppressed, dtype=torch.long, device=logits.device)
        suppressed_logsumexp = suppress_tokens(kept, suppressed, renormalise=rules.renormalise)
    kept -= logsumexp(kept, row_maxima(kept), keep=True)[:, None]
    return kept if suppressed_logsumexp is None else (kept - suppressed_logsumexp[:, None]).float()


class LogitPositions(NamedTuple):
    """Indices into logits [B, V]: rows [n] and tokens [n]."""

    rows: Ints
    tokens: Ints

    def on(self, device: torch.device) -> tuple[Tensor, Tensor]:
        return torch.from_numpy(self.rows).to(device), torch.from_numpy(self.tokens).to(device)


def concatenate_positions(parts: Sequence[LogitPositions]) -> LogitPositions:
    return LogitPositions(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def repeated_ngram_tokens(written: Ints, size: int) -> LogitPositions:
    """written [R, T] -> per row the tokens that would complete an n-gram of `size` tokens already in the row."""
    start = written.shape[1] - size + 1
    if start < 1:
        return LogitPositions(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    runs = np.lib.stride_tricks.sliding_window_view(written, size, axis=1)
    rows, places = (runs[:, :, :-1] == written[:, None, start:]).all(axis=2).nonzero()
    return LogitPositions(rows, runs[rows, places, -1])


def penalised(logits: Tensor, times: Tensor, options: Mapping[str, Tensor]) -> Tensor:
    """Logits of tokens that are in the prefix or have been written, `times` times, under the rows' penalties. All
    tensors have one shape, or are broadcast to it."""
    repetition = options["repetition_penalty"]
    scores = torch.where(logits < 0, logits * repetition, logits / repetition)
    return scores - options["frequency_penalty"] * times - options["presence_penalty"] * (times > 0)


class TokenCounts:
    """Token counts of one request. tokens [n]: distinct, the prefix's first; counts [n]: occurrences in the output."""

    def __init__(self, options: DecodingOptions, prefix: Sequence[int]) -> None:
        self.options = options
        self.places = {token: place for place, token in enumerate(dict.fromkeys(prefix))}  # indices in the arrays
        room = len(self.places) + options.token_limit
        self.tokens: Ints = np.zeros(room, dtype=np.int64)
        self.tokens[: len(self.places)] = list(self.places)
        self.counts: Floats = np.zeros(room, dtype=np.float32)

    def add(self, token: int) -> None:
        place = self.places.setdefault(token, len(self.places))
        self.tokens[place] = token
        self.counts[place] += 1


class RowLogitsProcessors:
    """Penalties and n-gram bans of the rows without a beam. active: whether a row of the next step has any."""

    def __init__(self) -> None:
        self.active = False
        self._counts: dict[int, TokenCounts] = {}  # by row
        self._penalised = list[tuple[int, TokenCounts]]()  # by index among the rows of the next step
        self._ngram_sizes = dict[int, int]()  # likewise

    def start(self, row: int, options: DecodingOptions, prefix: Sequence[int]) -> None:
        self._counts.pop(row, None)
        if options.penalised or options.no_repeat_ngram_size:
            self._counts[row] = TokenCounts(options, prefix if options.penalised else ())

    def move(self, sources: Sequence[int], destinations: Sequence[int]) -> None:
        moved = [self._counts.pop(row, None) for row in sources]
        for row, counts in zip(destinations, moved, strict=True):
            self._counts.pop(row, None)
            if counts is not None:
                self._counts[row] = counts

    def refresh(self, rows: Ints) -> None:
        """rows [N]: the rows of the next steps."""
        self._penalised, self._ngram_sizes = [], {}
        if self._counts:
            for place, row in enumerate(rows.tolist()):
                if (counts := self._counts.get(row)) is not None:
                    if counts.options.penalised:
                        self._penalised.append((place, counts))
                    if size := counts.options.no_repeat_ngram_size:
                        self._ngram_sizes[place] = size
        self.active = bool(self._penalised or self._ngram_sizes)

    def apply(self, logits: Tensor, rows: Ints, written: Ints, lengths: Ints) -> Ints:
        """Applies penalties and bans to logits [N, V]. Returns the rows with bans, which may have no token left."""
        if self._penalised:
            self._penalise(logits)
        banned = []
        for place, size in self._ngram_sizes.items():
            row = rows[place]
            tokens = repeated_ngram_tokens(written[row : row + 1, : lengths[row]], size).tokens
            banned.append(LogitPositions(np.full(len(tokens), place), tokens))
        if not banned:
            return np.zeros(0, dtype=np.int64)
        positions = concatenate_positions(banned)
        logits[positions.on(logits.device)] = -torch.inf
        return np.unique(positions.rows)

    def _penalise(self, logits: Tensor) -> None:
        rows = np.array([place for place, _ in self._penalised], dtype=np.int64)
        each = [counts for _, counts in self._penalised]
        sizes = [len(counts.places) for counts in each]
        tokens = np.concatenate([counts.tokens[:size] for counts, size in zip(each, sizes, strict=True)])
        written = np.concatenate([counts.counts[:size] for counts, size in zip(each, sizes, strict=True)])
        penalties = [np.array([getattr(one.options, name) for one in each], dtype=np.float32) for name in PENALTIES]
        stacked = np.stack([written, *(np.repeat(column, sizes) for column in penalties)])
        times, *columns = torch.from_numpy(stacked).to(logits.device)
        where = LogitPositions(np.repeat(rows, sizes), tokens).on(logits.device)
        logits[where] = penalised(logits[where], times, dict(zip(PENALTIES, columns, strict=True)))

    def add(self, rows: Ints, tokens: Ints) -> None:
        """Counts the tokens that these rows have just written."""
        for row, token in zip(rows.tolist(), tokens.tolist(), strict=True):
            counts = self._counts.get(row)
            if counts is not None and counts.options.penalised:
                counts.add(token)
