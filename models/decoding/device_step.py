"""A decoding step that stays on the device: the network, the choice of every row's token, and the input of the next
step are one CUDA graph. The host submits a step, then reads the results of the step before it: the device never waits
for the host's bookkeeping. What the host keeps of its rows is therefore a step behind what the device holds.

The rows' parameters are on the device too. They are written when requests join, in one copy, and move with the rows.
Some requests need the host at every step (`needs_host`): bans of n-grams, required terms, top tokens. While there are
any, the decoder steps the whole batch on the host's side, and this module holds nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from models.backends.cuda.transformer_step import KernelTransformer
from models.backends.top_k import Continuations
from models.backends.torch import token_choice
from models.backends.torch.cuda_graph import Graphed, GraphedState, StepShape, round_up
from models.backends.torch.transfers import Readback, upload
from models.decoding.beam import ActiveRequest
from models.decoding.logits_processors import PENALTIES, penalised
from models.decoding.options import ROW_PARAMETERS, DecodingOptions, TokenRules
from models.decoding.row_state import RowState
from models.interface import Prompt

Ints = npt.NDArray[np.int64]
Floats32 = npt.NDArray[np.float32]
Choice = Literal["none", "greedy", "sampled", "cut", "penalised"]
"""What a step does for the rows without a beam, each with all before it: nothing, if there are none; the likeliest
token; sampling; sampling with top-k and top-p; penalties."""

IN_A_KERNEL: tuple[Choice, ...] = ("greedy", "sampled", "cut")  # choices that `KernelTransformer.choose` makes

# The rows of the parameters, int64 [COLUMNS, slots + 1]; TOTAL and options of type float64 hold float64
FED, WRITTEN, TOTAL = range(3)
OPTIONS = token_choice.OPTIONS + PENALTIES
FIRST_OPTION, COLUMNS = 3, 3 + len(OPTIONS)


class Variant(NamedTuple):
    """What the graph of a step does after the network. beams: at most so many; width: of the widest, or 0."""

    choice: Choice
    beams: int = 0
    width: int = 0


@dataclass(frozen=True, slots=True)
class Layout:
    """The live rows, unchanged between joins and releases. count: rows; group: see `Decodable.step`; alone: rows
    without a beam; beams: by width, their requests; offsets: by width, the number of beams before its first."""

    count: int
    group: int
    alone: Ints
    beams: Mapping[int, tuple[ActiveRequest, ...]]
    offsets: Mapping[int, int]
    variant: Variant


@dataclass(slots=True)
class Submitted:
    """A step whose results have not been read. rows: where the rows of layout.alone are by now; -1: released. changed:
    whether rows have been released or moved since. stride: rows of the graph."""

    layout: Layout
    rows: Ints
    stride: int
    changed: bool = False


@dataclass(frozen=True, slots=True)
class StepResults:
    """The results of a step. tokens, log_probabilities: the chosen tokens of the rows [N] that are still live. By
    width: the candidates of the beams of the step's layout, as `Beams.advance_chosen` takes them."""

    rows: Ints
    tokens: Ints
    log_probabilities: npt.NDArray[np.float64]
    candidates: Mapping[int, Continuations]


def needs_host(options: DecodingOptions) -> bool:
    """Whether a request has an option that only the host implements."""
    return options.constrains_beam or options.no_repeat_ngram_size > 0 or options.top_logprobs > 0


class DeviceStep:
    """Submits the steps of one decoder and reads their results. active: the device holds the rows' parameters."""

    def __init__(self, network: Graphed, state: GraphedState, rules: TokenRules, slots: int, longest: int) -> None:
        """longest: tokens of a row at most."""
        self.network, self.state, self.rules, self.slots = network, state, rules, slots
        self.active = False
        self.in_flight: Submitted | None = None
        device = self.device = network.device
        # one column more than rows: the beams that round up their number write there
        self._columns = torch.zeros(COLUMNS, slots + 1, dtype=torch.long, device=device)
        self._floats = self._columns.view(torch.float64)
        self._options = {
            name: (self._floats if ROW_PARAMETERS[name].dtype == "float64" else self._columns)[place]
            for place, name in enumerate(OPTIONS, FIRST_OPTION)
        }
        self._uniform = torch.zeros(slots + 1, longest, dtype=torch.float64, device=device)  # by row and position
        self._identity = torch.arange(slots + 1, device=device)
        self._parents = self._identity.clone()  # the row whose tokens a row continues
        self._suppressed = torch.tensor(rules.suppressed, dtype=torch.long, device=device)
        self._one = torch.ones(slots, 1, dtype=torch.int16, device=device)
        self._times: Tensor | None = None  # [slots + 1, V]: occurrences of a token in the output
        self._listed: Tensor | None = None  # [slots + 1, V]: whether it is in the prefix
        # by number of beams and width: rows to read and to write, and the candidates that are too far back to end
        self._beam_rows: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}
        self._readback = Readback(device)
        self._layout: Layout | None = None
        self._shape: StepShape | None = None
        self._steps_in_shape = self._steps_left = 0

    # ---- rows ----

    @torch.inference_mode()
    def put(self, rows: Sequence[int], state: RowState, requests: Sequence[ActiveRequest], totals: Floats32) -> None:
        """Writes the parameters of rows from the host's. totals [N]: log-probabilities of beams' hypotheses."""
        index = np.array(rows, dtype=np.int64)
        packed = np.zeros((COLUMNS + 1, len(index)), dtype=np.int64)
        floats = packed.view(np.float64)
        packed[FED], packed[WRITTEN], floats[TOTAL] = state.feed[index], state.lengths[index], totals
        alone = np.array([request.options.beam == 1 for request in requests])
        for place, name in enumerate(OPTIONS, FIRST_OPTION):
            column = state.options[name]
            packed.view(column.dtype)[place] = np.where(alone, column[index], ROW_PARAMETERS[name].neutral)
        packed[COLUMNS] = index
        sent = upload(packed, self.device)
        self._columns.index_copy_(1, sent[COLUMNS], sent[:COLUMNS])
        drawn = alone & (state.options["temperature"][index] > 0)
        if drawn.any():
            self._put_uniform(sent[COLUMNS], drawn, state, index)
        if any(request.options.penalised for request in requests):
            self._put_history(rows, requests, state)

    def _put_uniform(self, sent: Tensor, drawn: npt.NDArray[np.bool_], state: RowState, index: Ints) -> None:
        """The rows' random numbers of all positions, so that a step reads one number a row instead of computing it."""
        rows = index[drawn]
        positions = np.arange(min(int(state.limits[rows].max()), self._uniform.size(1)), dtype=np.uint64)
        numbers = token_choice.uniform(state.options["seed"][rows][:, None], positions[None])
        chosen = sent if len(rows) == len(index) else upload(rows, self.device)
        self._uniform[:, : len(positions)].index_copy_(0, chosen, upload(numbers, self.device))

    def _put_history(self, rows: Sequence[int], requests: Sequence[ActiveRequest], state: RowState) -> None:
        vocabulary = self.network.network.vocabulary
        if self._times is None or self._listed is None:
            self._times = torch.zeros(self.slots + 1, vocabulary, dtype=torch.int16, device=self.device)
            self._listed = torch.zeros(self.slots + 1, vocabulary, dtype=torch.bool, device=self.device)
        penalised = [(row, r) for row, r in zip(rows, requests, strict=True) if r.options.penalised]
        fresh = upload(np.array([row for row, _ in penalised]), self.device)
        self._times.index_fill_(0, fresh, 0)
        self._listed.index_fill_(0, fresh, False)
        prefixes = [np.array(r.prompt.prefix, dtype=np.int64) + row * vocabulary for row, r in penalised]
        self._listed.view(-1).index_fill_(0, upload(np.concatenate(prefixes), self.device), True)
        written = [state.written[row, : state.lengths[row]] + row * vocabulary for row, _ in penalised]
        places, times = np.unique(np.concatenate(written), return_counts=True)
        if len(places):
            counts = upload(times.astype(np.int16), self.device)
            self._times.view(-1).index_copy_(0, upload(places, self.device), counts)

    @torch.inference_mode()
    def move(self, freed: Sequence[int], sources: Sequence[int], destinations: Sequence[int]) -> None:
        """Rows are released, and others move into their place. Keeps the step in flight's rows up to date."""
        if sources:
            read, write = upload(np.array([sources, destinations], dtype=np.int64), self.device).unbind(0)
            self._columns.index_copy_(1, write, self._columns.index_select(1, read))
            for table in (self._uniform, self._times, self._listed):
                if table is not None:
                    table.index_copy_(0, write, table.index_select(0, read))
        if self.in_flight is not None:
            now = np.arange(self.slots + 1)
            now[self.slots] = -1  # what -1 reads
            now[list(freed)] = -1
            now[list(sources)] = destinations
            self.in_flight.rows = now[self.in_flight.rows]
            self.in_flight.changed = True

    @torch.inference_mode()
    def arrange(self, layout: Layout, steps: int) -> None:
        """Takes over the live rows of the next steps. steps: after so many all rows have reached their limits."""
        self._layout, self._shape, self._steps_left = layout, None, steps
        if layout.beams:
            self._parents.copy_(self._identity)
            rows, late = self._beam_tables(layout.variant)
            _, beams, width = layout.variant
            own = np.full((beams, width), self.slots, dtype=np.int64)
            ranks = np.full((beams, 1), width, dtype=np.int64)
            for each, requests in layout.beams.items():
                first = layout.offsets[each]
                own[first : first + len(requests), :each] = [request.rows for request in requests]
                ranks[first : first + len(requests)] = each
            both = np.stack([np.where(own == self.slots, 0, own), own]).reshape(2, -1)
            rows.copy_(upload(both, self.device))
            late.copy_(upload(np.arange(late.size(1)) >= ranks, self.device))

    def _beam_tables(self, variant: Variant) -> tuple[Tensor, Tensor]:
        """rows [2, beams * width]: the rows to read and to write. A hypothesis that rounds up reads row 0 and writes to
        the spare column, which marks it. late [beams, candidates]: those after as many as the beam has hypotheses."""
        key = variant.beams, variant.width
        if key not in self._beam_rows:
            rows = torch.zeros(2, variant.beams * variant.width, dtype=torch.long, device=self.device)
            rows[1] = self.slots
            late = torch.zeros(variant.beams, 2 * variant.width, dtype=torch.bool, device=self.device)
            self._beam_rows[key] = rows, late
        return self._beam_rows[key]

    def variant(self, rows: RowState, beams: Mapping[int, Sequence[object]]) -> Variant:
        """The variant for the live rows of `rows` and for these beams by width."""
        choice: Choice = "none"
        if len(alone := rows.alone):
            drawn = alone[rows.options["temperature"][alone] > 0]
            choice = "greedy" if not len(drawn) else "sampled"
            if token_choice.is_cut({name: rows.options[name][drawn] for name in token_choice.OPTIONS}).any():
                choice = "cut"
            if rows.repetition.active:
                choice = "penalised"
        if not beams:
            return Variant(choice)
        return Variant(choice, round_up(sum(map(len, beams.values()))), max(beams))

    # ---- steps ----

    def submit(self) -> None:
        """Begins a step of the rows of `arrange` and the copy of its results. It waits for nothing. Does nothing if
        every row reaches its limit with the step in flight."""
        layout, state, before = self._layout, self.state, self.in_flight
        assert layout is not None, "arrange comes first"
        self.in_flight = None
        if self._steps_left <= 0 and before is not None:
            return
        if self._steps_in_shape <= 0 or self._shape is None:
            exact = self.network.network.shape(state.inner, layout.count, layout.group)
            self._shape = exact.rounded(state.slots, state.target_length, state.source_length)
            self._steps_in_shape = self._shape.length - exact.length + 1
            if self._shape.length == state.target_length:
                self._steps_in_shape = self._steps_left  # no longer one follows
        shape = self._shape
        result = self._run(shape, layout.variant)
        self.network.network.stepped(state.inner, layout.count)
        self._readback.start(result)
        self._steps_left -= 1
        self._steps_in_shape -= 1
        self.in_flight = Submitted(layout, layout.alone, shape.rows)

    def read(self, step: Submitted) -> StepResults:
        """Waits for the results of a step, which must be the oldest that has not been read. RuntimeError if the device
        failed."""
        values = self._readback.wait()
        layout, rows = step.layout, step.rows
        tokens, log_probabilities, used = rows, np.zeros(0), 0
        if len(layout.alone):
            alone = layout.alone
            if step.changed:
                live = rows >= 0
                alone, rows = alone[live], rows[live]
            tokens = values[alone].astype(np.int64)
            log_probabilities = values[step.stride + alone].astype(np.float64)
            used = 2 * step.stride
        candidates = {}
        if layout.beams:
            found = values[used:].reshape(3, layout.variant.beams, -1)
            ids = found[1:].astype(np.int64)
            for width, requests in layout.beams.items():
                own = slice(layout.offsets[width], layout.offsets[width] + len(requests))
                parents = ids[0, own]
                if width < layout.variant.width:
                    parents = np.minimum(parents, width - 1)  # one of -inf may be of no hypothesis
                candidates[width] = Continuations(found[0, own], parents, ids[1, own])
        return StepResults(rows, tokens, log_probabilities, candidates)

    def forget(self) -> None:
        """Drops the step in flight: none of its rows is live."""
        if self.in_flight is not None:
            self.in_flight = None
            self._readback.drop()

    def _run(self, shape: StepShape, variant: Variant) -> Tensor:
        return self.network.run(self.state, shape, lambda: self._step(shape, variant), variant)

    @torch.inference_mode()
    def warm_up(self, choices: Sequence[Choice], widths: Sequence[int]) -> int:
        """Records the graphs of these choices for any number of rows without a beam, and those of any number of beams
        of one of these widths. Others are recorded when they are first needed. Only valid before any prefill. Returns
        the number of graphs."""
        prompt = Prompt((1,) * min(2, self.state.source_length), (1,))
        for width in (1, *widths):
            most = self.slots // width
            for number in sorted({min(1 << power, most) for power in range(most.bit_length() + 1)}, reverse=True):
                rows = number * width
                self.network.prefill(self.state, range(rows), [prompt] * rows)
                shape = self.network.shape(self.state, rows, width)
                beams = Variant("none", round_up(number), width)
                for variant in map(Variant, choices) if width == 1 else [beams]:
                    self._run(shape, variant)
        return len(self.state.recordings)

    @torch.inference_mode()
    def _step(self, shape: StepShape, variant: Variant) -> Tensor:
        """What the graph does: steps the network, chooses, and writes the next step's input. Returns float32 [N]: the
        rows' tokens and log-probabilities, then of every beam its candidates' totals, parents and tokens."""
        rows, columns = shape.rows, self._columns
        network = self.network.network
        logits = network.advance(self.state.inner, columns[FED, :rows], shape)
        totals = self._floats[TOTAL], columns[FED], self._parents
        if isinstance(network, KernelTransformer):
            renormalise = self.rules.renormalise
            if variant.choice in IN_A_KERNEL and not variant.beams:
                options = columns[FIRST_OPTION : FIRST_OPTION + len(token_choice.OPTIONS)]
                inputs = logits, self._suppressed, columns[FED, :rows], columns[WRITTEN, :rows], options, self._uniform
                draw = variant.choice != "greedy"
                return network.choose(*inputs, renormalise=renormalise, draw=draw).flatten()
            if variant.choice == "none":
                tables = logits, self._suppressed, columns[WRITTEN, :rows], *self._beam_tables(variant), totals
                found = network.continue_beams(*tables, variant.width, end=self.rules.eos, renormalise=renormalise)
                network.reorder(self.state.inner, self._parents[:rows], shape)
                return found.flatten()
        shared = token_choice.suppress(logits, self._suppressed, renormalise=self.rules.renormalise)
        results = []
        if variant.choice != "none":
            tokens = self._chosen(logits, rows, variant.choice)
            columns[FED, :rows] = tokens
            results += [tokens.float(), logits.gather(1, tokens[:, None])[:, 0] - shared]
        columns[WRITTEN, :rows] += 1
        if variant.beams:
            values, tokens = logits.topk(min(2 * variant.width, logits.size(1)), dim=-1)
            candidates = values - shared[:, None], tokens, *self._beam_tables(variant), totals
            results.append(token_choice.continue_beams(*candidates, self.rules.eos))
            network.reorder(self.state.inner, self._parents[:rows], shape)
        return torch.cat([result.flatten() for result in results])

    def _chosen(self, logits: Tensor, rows: int, choice: Choice) -> Tensor:
        """logits [B, V] -> tokens [B]."""
        if choice == "penalised":
            logits = self._penalised(logits, rows)
        tokens = logits.argmax(dim=-1)
        if choice != "greedy":
            places = self._columns[WRITTEN, :rows].clamp(max=self._uniform.size(1) - 1)
            numbers = self._uniform[:rows].gather(1, places[:, None])[:, 0]
            options = {name: self._options[name][:rows] for name in token_choice.OPTIONS}
            drawn = token_choice.draw(logits, options, numbers, cut=choice != "sampled")
            tokens = torch.where(options["temperature"] > 0, drawn, tokens)
        if choice == "penalised":
            assert self._times is not None
            self._times[:rows].scatter_add_(1, tokens[:, None], self._one[:rows])
        return tokens

    def _penalised(self, logits: Tensor, rows: int) -> Tensor:
        """See `RowLogitsProcessors`; a row without penalties has neutral ones."""
        assert self._times is not None and self._listed is not None
        times = self._times[:rows]
        options = {name: self._options[name][:rows, None].float() for name in PENALTIES}
        return torch.where((times > 0) | self._listed[:rows], penalised(logits, times, options), logits)
