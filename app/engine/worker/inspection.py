"""Inspections on the device: attention, walkthroughs, alignment, gates and scores, each one or a few forward passes. An
inspection is computed in parts, between which other requests take their steps, and after each of which it can be
cancelled: the search with masked heads would otherwise delay all other requests by hundreds of steps.

Parts are computed between two decoding steps, or in a thread beside them. On a CPU the thread has a low priority, so
that on busy cores the steps of this and of other device processes come first, and it uses no more threads than decoding
does. torch's thread count is process-wide, and OpenMP's threads wait actively for each other: on cores that others use
too, a pass with more threads takes many times as long, and so do the steps beside it. On CUDA inspections run between
two steps, because another thread would break the recording of a graph."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import cast

import torch
from msgspec.structs import replace
from torch import Tensor

from app.engine.protocol import messages as m
from app.engine.protocol.messages import plain_name
from app.engine.worker.model_runner import LoadedModel, LoadResult
from models import scoring
from models.backends.select import decodable, teacher_forced
from models.checkpoint import CheckpointConfig
from models.decoding.decoder import Decoder
from models.decoding.options import TokenRules
from models.inspection.ablation import ablation, without_heads
from models.inspection.attention_maps import head_statistics, reduced_map, rollout
from models.inspection.forced_pass import (
    ForcedPass,
    ForcedSentence,
    NonFiniteOutput,
    forced_batch,
    forced_pass,
    forced_steps,
    require_finite,
)
from models.inspection.gate_traces import check_gate_selection, gate_trace
from models.inspection.results import Alignment, AttentionFindings, Convention, HeadStatistics
from models.inspection.selection import KINDS, AttentionKind, SelectionError, too_many_values
from models.inspection.walkthrough import walkthrough
from models.inspection.word_alignment import HeadPlace, links, mean_of_heads, pharaoh
from models.interface import Prompt, TeacherForced
from models.networks.recurrent import RecurrentLanguageModel
from models.networks.transformer import Transformer

log = logging.getLogger(__name__)

LATE_MESSAGE = "The answer did not come in time."
NICENESS = 5  # a quarter of a contended core: inspections are slow there, but do not starve
NO_TRANSLATOR = {
    m.InspectAttention: "{} has no attention to show; ask a translator instead.",
    m.InspectWalkthrough: "{} is no translator; only these can be walked through.",
    m.AlignPairs: "{} is no translator; only these align words.",
}
REQUEST_FIELDS = {"masked": "mask_heads", "row": "qk"}  # field of a selection -> field of the HTTP request


def inspect(model: LoadedModel, request: m.Inspections) -> Generator[None, None, m.Inspected]:
    """Yields between two parts of the work and returns the answer. Raises SelectionError, with what to request instead,
    for parts that the network lacks or an answer with too many values; NonFiniteOutput if the network computes NaN or
    infinity."""
    name, network = plain_name(request.model), model.network
    try:
        match request:
            case m.InspectGates():
                return trace_gates(model, request)
            case m.ScoreTokens():
                return score_tokens(model, request)
            case _ if not isinstance(network, Transformer):
                raise SelectionError(NO_TRANSLATOR[type(request)].format(name))
            case m.InspectWalkthrough():
                shown = walkthrough(network, request.source, request.inputs, request.focus, model.rules)
                return m.WalkthroughInspected(request.id, shown)
            case m.AlignPairs():
                return align_pairs(network, model, request)
            case m.InspectAttention():
                inspected = inspect_attention(network, model, request)
                if not request.selection.masked:
                    return inspected
                yield
                search, answer = AblationSearch(network, model, request, inspected), None
                while answer is None:
                    yield
                    answer = search.step()
                return answer
    except SelectionError as error:
        raise SelectionError(str(error), REQUEST_FIELDS.get(error.field or "", error.field)) from error
    except NonFiniteOutput as error:
        raise NonFiniteOutput(f"{name} {error}") from error


def trace_gates(model: LoadedModel, request: m.InspectGates) -> m.GatesInspected:
    network = model.network
    if not isinstance(network, RecurrentLanguageModel):
        raise SelectionError(f"{plain_name(request.model)} has no gates to show; ask a lyricist instead.", "model")
    names, layers, units = check_gate_selection(network.config, request.selection)
    if problem := too_many_values(len(names), len(layers), units, len(request.tokens), request.max_values):
        raise SelectionError(problem, "units")
    trace = gate_trace(network, request.tokens, request.selection)
    expected = scoring.expected(teacher_forced(network), trace.features, request.tokens[1:], model.rules, request.top_k)
    require_finite(*trace.values.values(), trace.features)
    return m.GatesInspected(
        id=request.id,
        cell=network.config.cell,
        depth=network.config.layers,
        hidden=network.config.hidden,
        layers=list(trace.layers),
        units=[list(units) for units in trace.units],
        values={name: _float_tensor(values) for name, values in trace.values.items()},
        summaries=trace.summaries,
        expected=_expected_message(expected),
    )


def score_tokens(model: LoadedModel, request: m.ScoreTokens) -> m.TokensScored:
    network, rules = teacher_forced(cast(TeacherForced, model.network)), model.rules if request.by_rules else None
    expected = scoring.score(network, request.source, request.target, rules, request.top_k)
    return m.TokensScored(request.id, _expected_message(expected))


def _expected_message(expected: scoring.Expected) -> m.ExpectedTokens:
    require_finite(expected.entropies, logits=expected.log_probabilities)
    return m.ExpectedTokens(
        _float_tensor(expected.log_probabilities),
        expected.ranks.tolist(),
        _float_tensor(expected.entropies),
        expected.tokens.tolist(),
        _float_tensor(expected.token_log_probabilities),
    )


def _float_tensor(tensor: Tensor) -> m.FloatTensor:
    return m.FloatTensor(list(tensor.shape), tensor.float().numpy().astype("<f4", copy=False).tobytes())


def inspect_attention(network: Transformer, model: LoadedModel, request: m.InspectAttention) -> m.AttentionInspected:
    selection, rules = request.selection, _without_forced_end(model.rules)
    shown = forced_pass(network, request.source, request.inputs, KINDS, row=selection.row)
    require_finite(*(weights for kind in KINDS for weights in shown.maps[kind]), logits=shown.logits)
    maps = {kind: reduced_map(shown.maps[kind], selection) for kind in selection.kinds}
    given = len(request.inputs) - len(request.outputs)  # tokens of the start after the first
    steps = forced_steps(shown.logits[given:], request.outputs, rules, selection.top_k)
    wanted, heads = set(selection.include), list(selection.masked)
    findings = AttentionFindings(
        logprob_sum=sum(step.logprob for step in steps),
        stats={kind: _statistics(kind, shown, request) for kind in selection.kinds} if "stats" in wanted else None,
        rollout=rollout(*(shown.maps[kind] for kind in KINDS)) if "rollout" in wanted else None,
        alignment=_alignment(shown, model.config, request) if "alignment" in wanted else None,
        steps=steps if "steps" in wanted else None,
        ablation=ablation(network, request.source, request.inputs, request.outputs, heads, rules) if heads else None,
        qk=shown.worked,
    )
    return m.AttentionInspected(request.id, maps, findings)


def align_pairs(network: Transformer, model: LoadedModel, request: m.AlignPairs) -> m.PairsAligned:
    """The links that an attention inspection of each pair would give, and each token's log-probability."""
    heads, convention, _ = alignment_heads(model.config, len(network.decoder), network.config.heads)
    sentences = [ForcedSentence(pair.source, pair.target, pair.given) for pair in request.pairs]
    rules = _without_forced_end(model.rules) if request.nats else None
    batch = forced_batch(network, sentences, heads if request.links else [], rules)
    for nats in batch.nats:
        require_finite(logits=nats)
    require_finite(*batch.maps)
    linked = [
        links(weights[pair.given - 1 :], pair.source_units, pair.target_units, convention)
        for weights, pair in zip(batch.maps, request.pairs, strict=bool(request.links))
    ]
    return m.PairsAligned(request.id, [[*pair] for pair in linked], [nats.tolist() for nats in batch.nats])


def _without_forced_end(rules: TokenRules) -> TokenRules:
    """A forced end token has log-probability 0 in decoding; an inspection shows the network's own value."""
    return TokenRules(rules.eos, rules.suppressed, rules.renormalise)


def _statistics(kind: AttentionKind, shown: ForcedPass, request: m.InspectAttention) -> list[list[HeadStatistics]]:
    starts, ends = [0], list[int]()  # a target has one start token, and its end is never an input
    if kind != "decoder":
        count = len(shown.source)
        starts, ends = list(range(request.starts)), list(range(count - request.ends, count))
    valid, cross = shown.valid(kind), kind == "cross"
    return [head_statistics(weights, valid, cross=cross, starts=starts, ends=ends) for weights in shown.maps[kind]]


def _alignment(shown: ForcedPass, config: CheckpointConfig, request: m.InspectAttention) -> Alignment:
    maps = shown.maps["cross"]
    heads, convention, error = alignment_heads(config, len(maps), len(maps[0]))
    mean = mean_of_heads(maps, heads)
    weights = mean[len(mean) - len(request.target_units) :]
    linked = links(weights, request.source_units, request.target_units, convention)
    return Alignment([*linked], pharaoh(linked), "word", heads, convention, error)


def alignment_heads(
    config: CheckpointConfig, depth: int, width: int
) -> tuple[list[HeadPlace], Convention, float | None]:
    """The checkpoint's measured alignment heads, convention and error; without a measurement, all `width` heads of the
    second to last of `depth` layers, in the row that predicts the word."""
    chosen = config.alignment
    if chosen is not None:
        return [(layer, head) for layer, head in chosen["heads"]], chosen["convention"], chosen["error"]
    return [(max(0, depth - 2), head) for head in range(width)], "predicting", None


class AblationSearch:
    """The search with masked heads that completes an attention answer. Raises SelectionError for an unknown head."""

    def __init__(
        self, network: Transformer, model: LoadedModel, request: m.InspectAttention, inspected: m.AttentionInspected
    ) -> None:
        self.request, self._inspected, decoding = request, inspected, request.decoding
        prompt = Prompt(tuple(request.source), (*model.config.target_prefix, *request.prefix))
        self._decoder = Decoder(
            decodable(without_heads(network, request.selection.masked), "fp32"),
            model.rules,
            slots=decoding.beam,
            source_length=len(prompt.source),
            target_length=len(prompt.prefix) - 1 + decoding.token_limit,
        )
        with torch.inference_mode():
            self._decoder.join([(request.id, prompt, decoding)])

    def step(self) -> m.AttentionInspected | None:
        """Advances the search by one step; the completed answer at its end."""
        finished = self._decoder.step().finished
        if not finished:
            return None
        ((_, (best, *_)),) = finished
        findings = self._inspected.findings
        assert findings.ablation is not None, "an inspection without heads states what they are worth"
        ablated = replace(findings.ablation, tokens=[*self.request.prefix, *best.tokens])
        return replace(self._inspected, findings=replace(findings, ablation=ablated))


# When and in which thread the parts are computed ------------------------------------------------------------------


class InspectionRun:
    """One inspection. in_thread: computed by `InspectionThread`. cancelled_at: CLOCK_MONOTONIC seconds; 0: never."""

    def __init__(self, model: LoadedModel, message: m.Inspections) -> None:
        self.message, self.in_thread, self.cancelled_at = message, False, 0.0
        self._parts = inspect(model, message)

    def advance(self) -> m.Inspected | m.Failed | None:
        """Computes the next part of the work; the answer after the last one, or after an error."""
        message = self.message
        if 0 < message.deadline < time.monotonic():
            return m.Failed(message.id, "deadline_exceeded", LATE_MESSAGE)
        try:
            with torch_threads(message.threads):
                next(self._parts)
        except StopIteration as end:
            answer: m.Inspected = end.value
            return answer
        except SelectionError as error:
            return m.Failed(message.id, "invalid_request", str(error), error.field)
        except Exception as error:
            log.exception("the inspection of request %d failed", message.id)
            reason = f"Looking into this sentence failed: {str(error).rstrip('.')}."
            return m.Failed(message.id, "engine_failed", reason)
        return None


@dataclass(frozen=True, slots=True)
class InspectionResult:
    """The end of a run in the thread. answer: None if it was cancelled."""

    run: InspectionRun
    answer: m.Inspected | m.Failed | None


BackgroundResult = LoadResult | InspectionResult  # what other threads pass to the main loop


class InspectionThread:
    """A thread that computes one inspection at a time. on_result: called in it."""

    def __init__(self, on_result: Callable[[InspectionResult], None]) -> None:
        self._on_result = on_result
        self._executor = ThreadPoolExecutor(1, "inspection", initializer=lower_priority)
        self.runs: list[InspectionRun] = []  # begun and not ended, the running one first

    @property
    def busy(self) -> bool:
        return bool(self.runs)

    def begin(self, run: InspectionRun) -> None:
        run.in_thread = True
        self.runs.append(run)
        self._executor.submit(self._compute, run)

    def ended(self, run: InspectionRun) -> None:
        """Called by the main loop with the run of each result."""
        self.runs.remove(run)

    def check(self, limit_s: float) -> None:
        """Raises RuntimeError if a cancelled run has gone on for longer: nothing can end a thread but its process."""
        for run in self.runs[:1]:
            if run.cancelled_at and time.monotonic() - run.cancelled_at > limit_s:
                raise RuntimeError(f"an inspection went on for {limit_s:g} seconds after it was cancelled")

    def _compute(self, run: InspectionRun) -> None:
        answer = None
        while answer is None and not run.cancelled_at:
            answer = run.advance()
        self._on_result(InspectionResult(run, answer))


@contextlib.contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Sets torch's thread count within the context; 0: unchanged."""
    if not count:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def lower_priority() -> None:
    """Lowers the priority of the calling thread, and of OpenMP's threads that it starts. Linux only: elsewhere a
    priority belongs to the whole process."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, thread, min(19, os.getpriority(os.PRIO_PROCESS, thread) + NICENESS))
