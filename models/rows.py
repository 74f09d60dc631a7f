"""What each row of a continuous batch has written, for requests without a beam: arrays over all rows, so that a step
costs the same few operations whether one row is live or a thousand."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from models.beam import Hypothesis
from models.likeliest import argmax, largest, log_total
from models.native import build
from models.native.draws import Chooser
from models.sampling import Draws, sample, uniform

if TYPE_CHECKING:
    from models.decoding import DecodingOptions

SEED_BITS = (1 << 64) - 1
LARGEST = (1 << 63) - 1


class Owner(Protocol):
    """Whose row it is."""

    @property
    def key(self) -> Hashable: ...


class Rows:
    """feed [slots]: the token that the next step feeds to each row, those of beams too. alone: the live rows that
    belong to no beam; the arrays below are about those. drawing, scoring: which of them draw, and whose tokens' log-
    probabilities are wanted, counted among them."""

    def __init__(
        self, slots: int, longest: int, eos: int | None, device: torch.device, *, forced_end: bool = False
    ) -> None:
        self.eos, self.device, self.forced_end = eos, device, forced_end
        self.fed = torch.zeros(slots, dtype=torch.long, pin_memory=device.type == "cuda")  # the same memory as feed
        self.feed: npt.NDArray[np.int64] = self.fed.numpy()
        self.alone = self.drawing = self.scoring = np.zeros(0, dtype=np.int64)
        self.written = np.zeros((slots, longest), dtype=np.int64)
        self.lengths = np.zeros(slots, dtype=np.int64)
        self.limits = np.zeros(slots, dtype=np.int64)
        self.log_probability = np.zeros(slots)
        self.temperature = np.zeros(slots)
        self.top_k = np.zeros(slots, dtype=np.int64)
        self.top_p = np.ones(slots)
        self.seed = np.zeros(slots, dtype=np.uint64)
        self.gains: npt.NDArray[np.float64] | None = None  # of the tokens written; there once somebody wants them
        self.scored = np.zeros(slots, dtype=bool)
        self.itemised = np.zeros(slots, dtype=bool)
        self.streamed = np.zeros(slots, dtype=bool)
        self.any_itemised = self.any_streamed = False
        self._arrays: tuple[npt.NDArray[Any], ...] = (
            *(self.feed, self.written, self.lengths, self.limits, self.log_probability, self.temperature),
            *(self.top_k, self.top_p, self.seed, self.scored, self.itemised, self.streamed),
        )
        library = build.fp32_library() if device.type == "cpu" else None
        columns = (self.temperature, self.top_p, self.top_k, self.lengths, self.seed)
        self.native = None if library is None else Chooser(library, *columns)

    def survey(self, alone: Sequence[int]) -> None:
        """Requests have come or gone: what they ask for is looked up now and not at every step."""
        self.alone = rows = np.array(alone, dtype=np.int64)
        self.drawing = (self.temperature[rows] > 0).nonzero()[0]
        self.scoring = self.scored[rows].nonzero()[0]
        self.any_itemised, self.any_streamed = bool(self.itemised[rows].any()), bool(self.streamed[rows].any())

    def start(self, row: int, options: DecodingOptions) -> None:
        """A new request in this row."""
        self.lengths[row], self.limits[row], self.log_probability[row] = 0, options.max_new_tokens, 0.0
        self.temperature[row], self.top_p[row] = options.temperature, options.top_p
        self.top_k[row] = min(options.top_k, LARGEST)  # any number is allowed, and as many tokens there are not
        self.seed[row] = options.seed & SEED_BITS
        self.scored[row], self.streamed[row] = options.scores or options.token_scores, options.streamed
        self.itemised[row] = options.token_scores
        if options.token_scores and self.gains is None:
            self.gains = np.zeros(self.written.shape)
            self._arrays += (self.gains,)

    def move(self, sources: list[int], destinations: list[int]) -> None:
        """Rows take the places of others."""
        if sources:
            for array in self._arrays:
                array[destinations] = array[sources]

    def advance(
        self,
        logits: Tensor,
        owners: Sequence[Owner],
        tokens: list[tuple[Hashable, int]],
        shares: npt.NDArray[np.float64] | None = None,
        log_probabilities: dict[Hashable, float] | None = None,
    ) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
        """logits [B, V] of all live rows: choose and record a token for each row without a beam, and add those of
        streamed rows to `tokens`, and to `log_probabilities` theirs where they are wanted. shares [B]: what the
        log-probabilities are too large by. Returns, by row, whether it ended, and the rows that are done."""
        rows = self.alone
        if len(rows) < len(logits):
            logits = logits[torch.from_numpy(rows).to(self.device)]
        chosen, gains = self._choose(logits, rows)
        ends, places = chosen == self.eos, self.lengths[rows]
        self.lengths[rows] = lengths = places + 1
        done = lengths >= self.limits[rows]
        if gains is not None:
            gains = gains if shares is None else gains - shares[rows]
            self.log_probability[rows] += np.where(done, 0.0, gains) if self.forced_end else gains
        ended = np.zeros(len(owners), dtype=bool)
        going, written = rows, chosen
        ended[rows] = ends
        if self.forced_end:
            ends |= done
        if ends.any():
            done, going, written, places = done | ends, rows[~ends], chosen[~ends], places[~ends]
        self.written[going, places] = self.feed[going] = written
        if gains is not None and self.gains is not None and self.any_itemised:
            self.gains[going, places] = gains = gains[~ends]
            told = self.itemised[going] & self.streamed[going]
            nats = zip(going[told].tolist(), gains[told].tolist(), strict=True)
            if log_probabilities is not None:
                log_probabilities.update((owners[row].key, each) for row, each in nats)
        if self.any_streamed:
            told = self.streamed[going]
            pairs = zip(going[told].tolist(), written[told].tolist(), strict=True)
            tokens += [(owners[row].key, token) for row, token in pairs]
        return ended, rows[done]

    def _choose(
        self, logits: Tensor, rows: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64] | None]:
        """logits [N, V] of `rows` -> the tokens, and their log-probabilities if any row wants them, 0 for the others.
        The one place where the host waits for the device."""
        if not len(self.drawing):
            chosen = argmax(logits)
        elif self.native is not None and logits.dtype == torch.float32:
            chosen = self.native(logits, torch.from_numpy(rows))
        else:
            chosen = self._one_by_one(logits, rows)
        if not len(self.scoring):
            return chosen.cpu().numpy(), None
        of = chosen
        if len(self.scoring) < len(rows):
            index = torch.from_numpy(self.scoring).to(self.device)
            logits, of = logits[index], chosen[index]
        found = logits.gather(1, of[:, None])[:, 0].double()
        found -= log_total(logits, largest(logits)).double()
        both, gains = torch.cat([chosen.double(), found]).cpu().numpy(), np.zeros(len(rows))
        gains[self.scoring] = both[len(rows) :]
        return both[: len(rows)].astype(np.int64), gains

    def _one_by_one(self, logits: Tensor, rows: npt.NDArray[np.int64]) -> Tensor:
        """As `_choose`, greedy rows and sampling ones apart."""
        drawing = self.drawing
        if len(drawing) == len(rows):
            return sample(logits, self._draws(rows))
        chosen = argmax(logits)
        index = torch.from_numpy(drawing).to(self.device)
        chosen[index] = sample(logits[index], self._draws(rows[drawing]))
        return chosen

    def _draws(self, rows: npt.NDArray[np.int64]) -> Draws:
        numbers = uniform(self.seed[rows], self.lengths[rows].astype(np.uint64))
        return Draws(self.temperature[rows], self.top_k[rows], self.top_p[rows], numbers)

    def result(self, row: int, options: DecodingOptions, *, finished: bool) -> Hypothesis:
        """What a row has written; an end token that it ended with is counted in its length and not among its tokens."""
        length = int(self.lengths[row])
        tokens = tuple(self.written[row, : length - (finished or self.forced_end)].tolist())
        log_probability = float(self.log_probability[row]) if options.scores else float("nan")
        gains = None
        if self.gains is not None and options.token_scores:
            gains = tuple(self.gains[row, : len(tokens)].tolist())
        return Hypothesis(tokens, log_probability, log_probability / length**options.length_penalty, finished, gains)
