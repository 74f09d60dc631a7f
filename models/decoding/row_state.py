"""The batch rows without a beam, as arrays: a step costs the same few operations for one live row as for a thousand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from models.backends.native import build
from models.backends.native.logit_kernels import Chooser
from models.backends.top_k import argmax, logsumexp, row_maxima, top_k
from models.backends.torch.token_choice import OPTIONS, draw, is_cut, uniform
from models.decoding.beam import ActiveRequest
from models.decoding.logits_processors import RowLogitsProcessors
from models.decoding.options import ROW_PARAMETERS, DecodingOptions, Hypothesis, StepResult, TopTokens

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
COLUMNS = {name: np.dtype(row.dtype) for name, row in ROW_PARAMETERS.items() if row.dtype is not None}


class ChosenTokens(NamedTuple):
    """The choices for N rows, arrays [N]. log_probabilities: 0 for rows that do not want them, None if no row does.
    stuck: rows without any allowed token. top: row index -> top tokens."""

    tokens: Ints
    log_probabilities: Floats | None
    stuck: Mask | None
    top: dict[int, TopTokens]


class RowState:
    """feed [slots]: the next input token of every row, including rows of beams. alone: the live rows without a beam.
    options: the columns of `ROW_PARAMETERS` by name, [slots] each. They and the other arrays have a row per slot too,
    of which those in `alone` are valid."""

    def __init__(
        self, slots: int, longest: int, eos: int | None, device: torch.device, *, forced_end: bool = False
    ) -> None:
        self.eos, self.device, self.forced_end = eos, device, forced_end
        self.fed = torch.zeros(slots, dtype=torch.long, pin_memory=device.type == "cuda")  # the same memory as feed
        self.feed: Ints = self.fed.numpy()
        self.written = np.zeros((slots, longest), dtype=np.int64)
        self.lengths = np.zeros(slots, dtype=np.int64)
        self.log_probability = np.zeros(slots)
        self.token_log_probabilities = np.zeros((slots, longest))
        self.options: dict[str, npt.NDArray[Any]] = {name: np.zeros(slots, kind) for name, kind in COLUMNS.items()}
        self.limits: Ints = self.options["max_new_tokens"]
        self.streamed: Mask = self.options["streamed"]
        self.wants_logprobs: Mask = self.options["logprobs"]
        self.top_count: Ints = self.options["top_logprobs"]  # number of top tokens wanted per position
        self.top: dict[int, list[TopTokens]] = {}  # by row
        self.repetition = RowLogitsProcessors()
        self.alone = np.zeros(0, dtype=np.int64)
        # indices into `alone` of the rows that sample, want log-probabilities, and want top tokens
        self._drawing = self._scoring = self._listing = self.alone
        self._any_logprobs = self._any_streamed = False
        self._arrays: tuple[npt.NDArray[Any], ...] = (
            *(self.feed, self.written, self.lengths, self.log_probability, self.token_log_probabilities),
            *self.options.values(),
        )
        library = build.fp32_library() if device.type == "cpu" else None
        columns = {**self.options, "lengths": self.lengths}
        self._chooser = None if library is None else Chooser(library, columns)

    def refresh(self, alone: Sequence[int]) -> None:
        """Caches the options of the live rows; runs when requests join or leave, not at every step."""
        self.alone = rows = np.array(alone, dtype=np.int64)
        self._drawing = (self.options["temperature"][rows] > 0).nonzero()[0]
        self._scoring = (self.options["scores"][rows] | self.wants_logprobs[rows]).nonzero()[0]
        self._any_logprobs = bool(self.wants_logprobs[rows].any())
        self._any_streamed = bool(self.streamed[rows].any())
        self._listing = self.top_count[rows].nonzero()[0]
        self.repetition.refresh(rows)

    def start(self, row: int, options: DecodingOptions, prefix: Sequence[int] = ()) -> None:
        """Resets a row for a new request."""
        self.lengths[row], self.log_probability[row], self.top[row] = 0, 0.0, []
        for name, column in self.options.items():
            column[row] = ROW_PARAMETERS[name].stored(getattr(options, name))
        self.repetition.start(row, options, prefix)

    def recount(self, row: int, options: DecodingOptions, prefix: Sequence[int]) -> None:
        """Counts the written tokens of a row for its penalties."""
        self.repetition.start(row, options, prefix)
        written = self.written[row, : self.lengths[row]]
        self.repetition.add(np.full(len(written), row), written)

    def move(self, sources: list[int], destinations: list[int]) -> None:
        """Moves rows to other slots."""
        for array in self._arrays:
            array[destinations] = array[sources]
        self.repetition.move(sources, destinations)
        tops = [self.top.pop(row, []) for row in sources]
        self.top.update(zip(destinations, tops, strict=True))

    def advance(
        self,
        logits: Tensor,
        owners: Sequence[ActiveRequest],
        result: StepResult,
        suppressed_logsumexp: Floats | None = None,
    ) -> tuple[Mask, Ints]:
        """Chooses and records a token for each row without a beam, from logits [B, V] of all live rows; adds tokens of
        streamed rows to the result. suppressed_logsumexp [B]: log-mass of suppressed tokens, subtracted from each
        log-probability. Returns, by row, whether it ended, and the rows that are done."""
        rows = self.alone
        if len(rows) < len(logits):
            logits = logits[torch.from_numpy(rows).to(self.device)]
            suppressed_logsumexp = None if suppressed_logsumexp is None else suppressed_logsumexp[rows]
        return self.record(rows, self._choose(logits, rows, suppressed_logsumexp), owners, result)

    @property
    def argmax_suffices(self) -> bool:
        """Whether all that the next step needs is the likeliest token of each row."""
        return not (len(self._drawing) or len(self._scoring) or self.repetition.active)

    def record_tokens(self, tokens: Ints, owners: Sequence[ActiveRequest], result: StepResult) -> tuple[Mask, Ints]:
        """As `advance`, with the tokens of all rows, for which `argmax_suffices`."""
        return self.record(self.alone, ChosenTokens(tokens, None, None, {}), owners, result)

    def record(
        self,
        rows: Ints,
        chosen: ChosenTokens,
        owners: Sequence[ActiveRequest],
        result: StepResult,
        *,
        counts: bool = True,
    ) -> tuple[Mask, Ints]:
        """Records the chosen tokens of rows [N] without a beam; see `advance`. counts: for the penalties too; a device
        that applies them counts for itself, until `recount`."""
        tokens, log_probabilities, stuck, top = chosen
        ends, places = tokens == self.eos, self.lengths[rows]
        self.lengths[rows] = lengths = places + 1
        done = lengths >= self.limits[rows]
        if log_probabilities is not None:
            if stuck is not None:
                log_probabilities = np.where(stuck, 0.0, log_probabilities)
            gains = np.where(done, 0.0, log_probabilities) if self.forced_end else log_probabilities
            self.log_probability[rows] += gains
        ended = np.zeros(len(owners), dtype=bool)
        going = rows
        ended[rows] = ends
        if stuck is not None:
            ended[rows[stuck]], ends = False, ends | stuck
            self.lengths[rows[stuck]] -= not self.forced_end
        if self.forced_end:
            ends |= done
        if np.count_nonzero(ends):  # a quarter of the time of `any`
            done, going, tokens, places = done | ends, rows[~ends], tokens[~ends], places[~ends]
        self.written[going, places] = self.feed[going] = tokens
        if counts and self.repetition.active:
            self.repetition.add(going, tokens)
        if log_probabilities is not None and self._any_logprobs:
            self.token_log_probabilities[going, places] = log_probabilities = log_probabilities[~ends]
            shown = self.wants_logprobs[going] & self.streamed[going]
            for row, log_probability in zip(going[shown].tolist(), log_probabilities[shown].tolist(), strict=True):
                result.log_probabilities[owners[row].key] = log_probability
        for place, likeliest in top.items():
            if not ends[place]:
                self.top[int(rows[place])].append(likeliest)
                if self.streamed[rows[place]]:
                    result.top[owners[rows[place]].key] = likeliest
        if self._any_streamed:
            shown = self.streamed[going]
            for row, token in zip(going[shown].tolist(), tokens[shown].tolist(), strict=True):
                result.tokens.append((owners[row].key, token))
        return ended, rows[done]

    def _choose(self, logits: Tensor, rows: Ints, suppressed_logsumexp: Floats | None) -> ChosenTokens:
        """logits [N, V] of `rows`; suppressed_logsumexp [N]. The host waits here until the device has computed them."""
        own, stuck, banned = logits, None, None  # own: before penalties and bans
        if self.repetition.active:
            logits = logits.clone() if len(self._scoring) else logits
            banned = self.repetition.apply(logits, rows, self.written, self.lengths)
        if not len(self._drawing):
            tokens = argmax(logits)
        elif self._chooser is not None and logits.dtype == torch.float32:
            tokens = self._chooser(logits, torch.from_numpy(rows))
        elif len(self._drawing) == len(rows):
            tokens = self._sampled(logits, rows)
        else:
            tokens = argmax(logits)
            index = torch.from_numpy(self._drawing).to(self.device)
            tokens[index] = self._sampled(logits[index], rows[self._drawing])
        if banned is not None and len(banned):
            stuck = self._stuck(logits, tokens, banned)
        if not len(self._scoring):
            return ChosenTokens(tokens.cpu().numpy(), None, stuck, {})
        top = self._top_tokens(own, rows, suppressed_logsumexp) if len(self._listing) else {}
        scored = tokens
        if len(self._scoring) < len(rows):
            index = torch.from_numpy(self._scoring).to(self.device)
            own, scored = own[index], tokens[index]
        nats = own.gather(1, scored[:, None])[:, 0].double()
        nats -= logsumexp(own, row_maxima(own)).double()
        both, log_probabilities = torch.cat([tokens.double(), nats]).cpu().numpy(), np.zeros(len(rows))
        log_probabilities[self._scoring] = both[len(rows) :]
        if suppressed_logsumexp is not None:
            log_probabilities = log_probabilities - suppressed_logsumexp
        return ChosenTokens(both[: len(rows)].astype(np.int64), log_probabilities, stuck, top)

    def _sampled(self, logits: Tensor, rows: Ints) -> Tensor:
        """logits [N, V] of these rows -> tokens [N], where no C kernel draws."""
        numbers = torch.from_numpy(uniform(self.options["seed"][rows], self.lengths[rows].astype(np.uint64)))
        options = {name: self.options[name][rows] for name in OPTIONS}
        columns = {name: torch.from_numpy(column).to(logits.device) for name, column in options.items()}
        return draw(logits, columns, numbers.to(logits.device), cut=bool(is_cut(options).any()))

    def _stuck(self, logits: Tensor, tokens: Tensor, banned: Ints) -> Mask | None:
        """Rows in which the bans left no token, by index; None if there are none. banned: indices of rows with bans."""
        index = torch.from_numpy(banned).to(self.device)
        nothing = (logits[index, tokens[index]] == -torch.inf).cpu().numpy()
        stuck = np.zeros(len(tokens), dtype=bool)
        stuck[banned] = nothing
        return stuck if nothing.any() else None

    def _top_tokens(self, logits: Tensor, rows: Ints, suppressed_logsumexp: Floats | None) -> dict[int, TopTokens]:
        """Row index -> top tokens, without suppressed ones."""
        counts = self.top_count[rows[self._listing]].tolist()
        logits = logits[torch.from_numpy(self._listing).to(self.device)]
        values, tokens = top_k(logits, min(max(counts), logits.size(1)))
        found = values.double() - logsumexp(logits, values[:, :1])[:, None].double()
        both = torch.cat([found, tokens.double()], dim=1).cpu().numpy()
        width = both.shape[1] // 2
        nats_of, tokens_of = both[:, :width], both[:, width:].astype(np.int64)
        if suppressed_logsumexp is not None:
            nats_of = nats_of - suppressed_logsumexp[self._listing][:, None]
        top = {}
        for at, (place, count) in enumerate(zip(self._listing.tolist(), counts, strict=True)):
            pairs = zip(tokens_of[at, :count].tolist(), nats_of[at, :count].tolist(), strict=True)
            top[place] = tuple((token, nats) for token, nats in pairs if nats > -np.inf)
        return top

    def result(self, row: int, options: DecodingOptions, *, finished: bool) -> Hypothesis:
        """The hypothesis of a row. A final end token counts in its length but is not among its tokens."""
        length = int(self.lengths[row])
        tokens = tuple(self.written[row, : length - (finished or self.forced_end)].tolist())
        log_probability = float(self.log_probability[row]) if options.scores else float("nan")
        each = tuple(self.token_log_probabilities[row, : len(tokens)].tolist()) if options.logprobs else None
        score = log_probability / max(length, 1) ** options.length_exponent
        top = tuple(self.top[row]) if options.top_logprobs else None
        return Hypothesis(tokens, log_probability, score, finished, each, top)
