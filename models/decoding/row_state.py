"""The state of every row of a continuous batch without a beam: arrays over all rows, so that a step costs the same few
operations whether one row is live or a thousand."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from models.backends.native import build
from models.backends.native.logit_kernels import Chooser
from models.backends.top_k import argmax, logsumexp, row_maxima, top_k
from models.decoding.beam import Hypothesis
from models.decoding.logits_processors import LogitEdits, RepetitionProcessors
from models.decoding.sampling import SamplingParameters, sample, uniform

if TYPE_CHECKING:
    from models.decoding.options import DecodingOptions

SEED_MASK = (1 << 64) - 1
INT64_MAX = (1 << 63) - 1


class RowOwner(Protocol):
    """Whose row it is."""

    @property
    def key(self) -> Hashable: ...


TopTokens = tuple[tuple[int, float], ...]  # tokens and their log-probabilities in nats, the likeliest first


class StreamedStep(NamedTuple):
    """Where a step tells of streamed requests: their new tokens, and of these what was asked for."""

    tokens: list[tuple[Hashable, int]]
    log_probabilities: dict[Hashable, float]
    likeliest: dict[Hashable, TopTokens]


class ChosenTokens(NamedTuple):
    """Of N rows, arrays [N]: the tokens; their log-probabilities if any row wants them, 0 for the others; which had
    none to choose from. likeliest: of the rows that want them, by their places."""

    tokens: npt.NDArray[np.int64]
    gains: npt.NDArray[np.float64] | None
    stuck: npt.NDArray[np.bool_] | None
    likeliest: dict[int, TopTokens]


class RowState:
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
        self.tops = np.zeros(slots, dtype=np.int64)  # how many of the likeliest are wanted at each place
        self.listing = np.zeros(0, dtype=np.int64)  # of which rows, counted among those alone
        self.likeliest: dict[int, list[TopTokens]] = {}  # by row, of those
        self.restraints = RepetitionProcessors()
        self._arrays: tuple[npt.NDArray[Any], ...] = (
            *(self.feed, self.written, self.lengths, self.limits, self.log_probability, self.temperature),
            *(self.top_k, self.top_p, self.seed, self.scored, self.itemised, self.streamed, self.tops),
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
        self.listing = self.tops[rows].nonzero()[0]
        self.restraints.survey(rows)

    def start(self, row: int, options: DecodingOptions, prefix: Sequence[int] = ()) -> None:
        """A new request in this row."""
        self.lengths[row], self.limits[row], self.log_probability[row] = 0, options.token_limit, 0.0
        self.temperature[row], self.top_p[row] = options.temperature, options.top_p
        self.top_k[row] = min(options.top_k, INT64_MAX)  # any number is allowed, and as many tokens there are not
        self.seed[row] = (options.seed or 0) & SEED_MASK
        self.scored[row], self.streamed[row] = options.scores or options.logprobs, options.streamed
        self.itemised[row], self.tops[row], self.likeliest[row] = options.logprobs, options.top_logprobs, []
        self.restraints.start(row, options, prefix)
        if options.logprobs and self.gains is None:
            self.gains = np.zeros(self.written.shape)
            self._arrays += (self.gains,)

    def move(self, sources: list[int], destinations: list[int]) -> None:
        """Rows take the places of others."""
        if sources:
            for array in self._arrays:
                array[destinations] = array[sources]
            self.restraints.move(sources, destinations)
            found = [self.likeliest.pop(row, []) for row in sources]
            self.likeliest.update(zip(destinations, found, strict=True))

    def advance(
        self,
        logits: Tensor,
        owners: Sequence[RowOwner],
        told: StreamedStep,
        shares: npt.NDArray[np.float64] | None = None,
    ) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
        """logits [B, V] of all live rows: choose and record a token for each row without a beam, and tell of those of
        streamed rows. shares [B]: what the log-probabilities are too large by. Returns, by row, whether it ended, and
        the rows that are done."""
        rows = self.alone
        if len(rows) < len(logits):
            logits = logits[torch.from_numpy(rows).to(self.device)]
        chosen, gains, stuck, likeliest = self._choose(logits, rows, None if shares is None else shares[rows])
        ends, places = chosen == self.eos, self.lengths[rows]
        self.lengths[rows] = lengths = places + 1
        done = lengths >= self.limits[rows]
        if gains is not None:
            gains = gains if stuck is None else np.where(stuck, 0.0, gains)
            self.log_probability[rows] += np.where(done, 0.0, gains) if self.forced_end else gains
        ended = np.zeros(len(owners), dtype=bool)
        going, written = rows, chosen
        ended[rows] = ends
        if stuck is not None:
            ended[rows[stuck]], ends = False, ends | stuck
            self.lengths[rows[stuck]] -= not self.forced_end
        if self.forced_end:
            ends |= done
        if ends.any():
            done, going, written, places = done | ends, rows[~ends], chosen[~ends], places[~ends]
        self.written[going, places] = self.feed[going] = written
        if self.restraints.live:
            self.restraints.add(going, written)
        if gains is not None and self.gains is not None and self.any_itemised:
            self.gains[going, places] = gains = gains[~ends]
            self._tell_scores(owners, told, going, gains)
        for place, each in likeliest.items():
            if not ends[place]:
                self.likeliest[int(rows[place])].append(each)
                if self.streamed[rows[place]]:
                    told.likeliest[owners[rows[place]].key] = each
        if self.any_streamed:
            shown = self.streamed[going]
            pairs = zip(going[shown].tolist(), written[shown].tolist(), strict=True)
            told.tokens.extend((owners[row].key, token) for row, token in pairs)
        return ended, rows[done]

    def _tell_scores(
        self,
        owners: Sequence[RowOwner],
        told: StreamedStep,
        going: npt.NDArray[np.int64],
        gains: npt.NDArray[np.float64],
    ) -> None:
        shown = self.itemised[going] & self.streamed[going]
        nats = zip(going[shown].tolist(), gains[shown].tolist(), strict=True)
        told.log_probabilities.update((owners[row].key, each) for row, each in nats)

    def _choose(
        self, logits: Tensor, rows: npt.NDArray[np.int64], shares: npt.NDArray[np.float64] | None
    ) -> ChosenTokens:
        """logits [N, V] of `rows`; shares [N], as in `advance`. The one place where the host waits for the device."""
        changed = stuck = None
        if self.restraints.live:
            changed = self.restraints.write(logits, rows, self.written, self.lengths)
        if not len(self.drawing):
            chosen = argmax(logits)
        elif self.native is not None and logits.dtype == torch.float32:
            chosen = self.native(logits, torch.from_numpy(rows))
        else:
            chosen = self._one_by_one(logits, rows)
        if changed is not None:
            stuck = self._stuck(logits, chosen, changed)
        if not len(self.scoring):
            return ChosenTokens(chosen.cpu().numpy(), None, stuck, {})
        if changed is not None:
            changed.undo(logits)
        likeliest = self._likeliest(logits, rows, shares) if len(self.listing) else {}
        of = chosen
        if len(self.scoring) < len(rows):
            index = torch.from_numpy(self.scoring).to(self.device)
            logits, of = logits[index], chosen[index]
        found = logits.gather(1, of[:, None])[:, 0].double()
        found -= logsumexp(logits, row_maxima(logits)).double()
        both, gains = torch.cat([chosen.double(), found]).cpu().numpy(), np.zeros(len(rows))
        gains[self.scoring] = both[len(rows) :]
        return ChosenTokens(
            both[: len(rows)].astype(np.int64), gains if shares is None else gains - shares, stuck, likeliest
        )

    def _stuck(self, logits: Tensor, chosen: Tensor, changed: LogitEdits) -> npt.NDArray[np.bool_] | None:
        """Which rows were left nothing by their bans; None if there are none."""
        if not len(changed.banned):
            return None
        index = torch.from_numpy(changed.banned).to(self.device)
        nothing = (logits[index, chosen[index]] == -torch.inf).cpu().numpy()
        stuck = np.zeros(len(chosen), dtype=bool)
        stuck[changed.banned] = nothing
        return stuck if nothing.any() else None

    def _likeliest(
        self, logits: Tensor, rows: npt.NDArray[np.int64], shares: npt.NDArray[np.float64] | None
    ) -> dict[int, TopTokens]:
        """By place among the rows; tokens that can never come are left out."""
        counts = self.tops[rows[self.listing]].tolist()
        of = logits[torch.from_numpy(self.listing).to(self.device)]
        values, tokens = top_k(of, min(max(counts), of.size(1)))
        nats = values.double() - logsumexp(of, values[:, :1])[:, None].double()
        both = torch.cat([nats, tokens.double()], dim=1).cpu().numpy()
        nats_of, tokens_of = both[:, : both.shape[1] // 2], both[:, both.shape[1] // 2 :].astype(np.int64)
        if shares is not None:
            nats_of = nats_of - shares[self.listing][:, None]
        found = {}
        for at, (place, count) in enumerate(zip(self.listing.tolist(), counts, strict=True)):
            pairs = zip(tokens_of[at, :count].tolist(), nats_of[at, :count].tolist(), strict=True)
            found[place] = tuple((token, each) for token, each in pairs if each > -np.inf)
        return found

    def _one_by_one(self, logits: Tensor, rows: npt.NDArray[np.int64]) -> Tensor:
        """As `_choose`, greedy rows and sampling ones apart."""
        drawing = self.drawing
        if len(drawing) == len(rows):
            return sample(logits, self._draws(rows))
        chosen = argmax(logits)
        index = torch.from_numpy(drawing).to(self.device)
        chosen[index] = sample(logits[index], self._draws(rows[drawing]))
        return chosen

    def _draws(self, rows: npt.NDArray[np.int64]) -> SamplingParameters:
        numbers = uniform(self.seed[rows], self.lengths[rows].astype(np.uint64))
        return SamplingParameters(self.temperature[rows], self.top_k[rows], self.top_p[rows], numbers)

    def result(self, row: int, options: DecodingOptions, *, finished: bool) -> Hypothesis:
        """What a row has written; an end token that it ended with is counted in its length and not among its tokens."""
        length = int(self.lengths[row])
        tokens = tuple(self.written[row, : length - (finished or self.forced_end)].tolist())
        log_probability = float(self.log_probability[row]) if options.scores else float("nan")
        gains = None
        if self.gains is not None and options.logprobs:
            gains = tuple(self.gains[row, : len(tokens)].tolist())
        score = log_probability / max(length, 1) ** options.length_exponent
        likeliest = tuple(self.likeliest[row]) if options.top_logprobs else None
        return Hypothesis(tokens, log_probability, score, finished, gains, likeliest)
