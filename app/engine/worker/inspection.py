"""Inspections on the device: attention, walkthroughs, alignment, gates and scores of one pass over given texts.

What a translator writes without some heads is searched for one step at a time, between the steps of other requests:
hundreds of steps in one go would hold up every other request, and might pass for a device that hangs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import torch
from msgspec.structs import replace
from torch import Tensor

from app.engine.protocol import inspection_messages
from app.engine.protocol import messages as m
from app.engine.protocol.inspection_messages import Align, Aligned, Attend, Walk
from app.engine.protocol.messages import Attention, Slice, Walked, plain_name
from app.engine.worker.model_runner import LoadedModel
from models import scoring
from models.backends.select import decodable, teacher_forced
from models.checkpoint import CheckpointConfig
from models.decoding.decoder import Decoder
from models.decoding.options import TokenRules
from models.inspection import ablation as ablations
from models.inspection import attention_maps as rollouts
from models.inspection import gate_conventions
from models.inspection.ablation import without_heads
from models.inspection.attention_maps import Attentive, chosen_slice, head_statistics
from models.inspection.forced_batch import ForcedSentence, forced_batch
from models.inspection.forced_pass import ForcedPass, ForcedStep, WorkedRow, forced_pass, forced_steps
from models.inspection.gate_traces import Gated, GateSelection, GateTrace, check_gate_selection, gate_trace
from models.inspection.head_selection import KINDS, Head, Row, SelectionError
from models.inspection.results import HeadStatistics
from models.inspection.walkthrough import Side, WalkedStep, walkthrough
from models.inspection.word_alignment import Convention, HeadPlace, links, mean_of_heads, pharaoh
from models.interface import Prompt
from models.networks.transformer import Transformer

NO_TRANSLATOR = {
    Attend: "{} has no attention to show; ask a translator instead.",
    Walk: "{} is no translator; only these can be walked through.",
    Align: "{} is no translator; only these align words.",
}
REQUEST_FIELDS = {"masked": "mask_heads", "row": "qk"}  # fields of a request, by those of a choice


class CannotInspect(ValueError):
    """The network has nothing of the kind to show, or too much; the message says what to ask for instead, and
    `field` which choice of the request was wrong, if one was."""

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


def inspect(model: LoadedModel, request: m.Look) -> m.Seen | AblationSearch:
    """CannotInspect if the network does not have what the request names, or the answer would hold too many values."""
    try:
        with torch_threads(model.inspection_threads):
            if isinstance(request, m.Trace | m.Score):
                return trace_or_score(model.network, model.rules, request)
            if not isinstance(model.network, Attentive):
                raise CannotInspect(NO_TRANSLATOR[type(request)].format(plain_name(request.model)))
            network = cast(Transformer, model.network)
            if isinstance(request, Walk):
                return inspect_walkthrough(network, model.rules, request)
            if isinstance(request, Align):
                return align_pairs(network, model.config, model.rules, request)
            slices, findings = inspect_attention(network, model.config, model.rules, request)
            values = sum(math.prod(part.shape) for part in slices)
            if values > request.max_values:
                raise CannotInspect(
                    f"This answer would hold {values:,} weights and the limit is {request.max_values:,};"
                    " select fewer kinds, layers or heads, or send a shorter text."
                )
            attention = Attention(request.id, slices, findings)
            if not request.question.masked:
                return attention
            return AblationSearch(network, model.config, model.rules, request, attention)
    except SelectionError as error:
        raise CannotInspect(str(error), REQUEST_FIELDS.get(error.field, error.field)) from error


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """0: as it is."""
    before = torch.get_num_threads()
    if count:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class NonFiniteOutput(ArithmeticError):
    """A network gave NaN or infinity where a number was to be shown."""


def require_finite(model: str, *shown: Tensor, logits: Tensor | None = None) -> None:
    """NoNumbers unless all that is `shown` is finite; a logit or a log-probability may be minus infinity."""
    sound = all(bool(torch.isfinite(each).all()) for each in shown)
    if not sound or (logits is not None and not bool((logits < torch.inf).all())):  # false of NaN too
        raise NonFiniteOutput(
            f"{plain_name(model)} gives NaN or infinity, so its weights are broken; load a sound checkpoint of it"
        )


def trace_or_score(network: Any, rules: TokenRules, request: m.Trace | m.Score) -> m.Traced | m.Scored:
    """SelectionError if the network does not have what is asked for, or the answer would hold too many values;
    NoNumbers where it computes none."""
    if isinstance(request, m.Trace):
        found = _gate_trace(network, request)
        expected = scoring.expected(teacher_forced(network), found.features, request.tokens[1:], rules, request.top_k)
        require_finite(request.model, *found.values.values(), found.features)
        return _traced_message(request.id, found, _checked_expectation(request, expected))
    asked = rules if request.by_rules else None
    scored = scoring.score(teacher_forced(network), request.source, request.target, asked, request.top_k)
    return m.Scored(request.id, _checked_expectation(request, scored))


def _checked_expectation(request: m.Trace | m.Score, expected: scoring.Expected) -> m.Expected:
    require_finite(request.model, expected.entropies, logits=expected.log_probabilities)
    return _expected_message(expected)


def _gate_trace(network: Any, request: m.Trace) -> GateTrace:
    if not isinstance(network, Gated):
        name = m.plain_name(request.model)
        raise SelectionError(f"{name} has no gates to show; ask a lyricist instead.", "model")
    selection = GateSelection(
        None if request.gates is None else tuple(request.gates),
        None if request.layers is None else tuple(request.layers),
        request.most_varied if request.units is None else tuple(request.units),
    )
    names, layers, units = check_gate_selection(network.gate_shape, selection)
    sizes = len(names), len(layers), units, len(request.tokens)
    if problem := gate_conventions.too_many_values(*sizes, request.max_values):
        raise SelectionError(problem, "units")
    return gate_trace(network, request.tokens, selection)


def _traced_message(request: int, found: GateTrace, expected: m.Expected) -> m.Traced:
    return m.Traced(
        id=request,
        cell=found.shape.cell,
        depth=found.shape.layers,
        hidden=found.shape.hidden,
        layers=list(found.layers),
        units=[list(each) for each in found.units],
        values={name: _float_tensor(each) for name, each in found.values.items()},
        mean=_stacked_by_layer([each.mean for each in found.summaries]),
        low=_stacked_by_layer([each.low for each in found.summaries]),
        high=_stacked_by_layer([each.high for each in found.summaries]),
        hidden_change=_float_tensor(torch.stack([each.hidden_change for each in found.summaries])),
        expected=expected,
    )


def _stacked_by_layer(layers: Iterable[Mapping[str, Tensor]]) -> dict[str, m.Values]:
    """name -> [layers, T]."""
    each = list(layers)
    return {name: _float_tensor(torch.stack([layer[name] for layer in each])) for name in each[0]}


def _expected_message(found: scoring.Expected) -> m.Expected:
    return m.Expected(
        _float_tensor(found.log_probabilities),
        found.ranks.tolist(),
        _float_tensor(found.entropies),
        found.tokens.tolist(),
        _float_tensor(found.token_log_probabilities),
    )


def _float_tensor(tensor: Tensor) -> m.Values:
    return m.Values(list(tensor.shape), tensor.float().numpy().astype("<f4", copy=False).tobytes())


STEPS_WITH_MINUS_INFINITY = ("masked scores", "logits")  # steps of a walk whose numbers may be so


def inspect_attention(
    network: Transformer, config: CheckpointConfig, rules: TokenRules, asked: Attend
) -> tuple[list[Slice], inspection_messages.AttentionFindings]:
    """SelectionError for what the network does not have; NoNumbers where it computes none."""
    question = asked.question
    found = forced_pass(network, asked.source, asked.inputs, KINDS, row=_selected_row(question.row))
    require_finite(asked.model, *(weights for kind in KINDS for weights in found.maps[kind]), logits=found.logits)
    slices = [_slice(kind, found, asked) for kind in asked.kinds]
    given = len(asked.inputs) - len(asked.outputs)  # of a start of several tokens
    told = forced_steps(found.logits[given:], asked.outputs, _without_forced_end(rules), question.top_k)
    wanted = set(question.include)
    return slices, inspection_messages.AttentionFindings(
        logprob_sum=sum(step.log_probability for step in told),
        stats={kind: _statistics(kind, found, question) for kind in asked.kinds} if "stats" in wanted else None,
        rollout=_rollout(found) if "rollout" in wanted else None,
        alignment=_alignment(found, config, question) if "alignment" in wanted else None,
        steps=[_output_step(each) for each in told] if "steps" in wanted else None,
        ablation=_ablation(network, rules, asked) if question.masked else None,
        qk=None if found.worked is None else _worked_row(found.worked),
    )


def inspect_walkthrough(network: Transformer, rules: TokenRules, asked: Walk) -> Walked:
    """SelectionError for what the network does not have; NoNumbers where it computes none."""
    steps = walkthrough(
        network,
        asked.source,
        asked.inputs,
        side=cast(Side, asked.side),
        layer=asked.layer,
        head=asked.head,
        position=asked.position,
        rules=rules,
        most=asked.most,
        most_keys=asked.most_keys,
    )
    for step in steps:
        told = torch.tensor(step.values, dtype=torch.float64)
        if step.name in STEPS_WITH_MINUS_INFINITY:
            require_finite(asked.model, logits=told)
        else:
            require_finite(asked.model, told)
    depth = len(network.encoder if asked.side == "encoder" else network.decoder)
    length = len(asked.source if asked.side == "encoder" else asked.inputs)
    place = asked.layer % depth, asked.head % network.config.heads, asked.position % length
    return Walked(asked.id, *place, [_walkthrough_step(step) for step in steps])


def align_pairs(network: Transformer, config: CheckpointConfig, rules: TokenRules, asked: Align) -> Aligned:
    """The links that a look at each pair by itself has, and what it says of each token. NoNumbers where it computes
    none."""
    heads, convention, _ = alignment_heads(config, len(network.decoder), network.config.heads)
    sentences = [ForcedSentence(pair.source, pair.target, pair.given) for pair in asked.pairs]
    rules_or_none = _without_forced_end(rules) if asked.nats else None
    found = forced_batch(network, sentences, heads if asked.links else [], rules_or_none)
    for nats in found.nats:
        require_finite(asked.model, logits=nats)
    require_finite(asked.model, *found.maps)
    linked = [
        links(weights[pair.given - 1 :], pair.source_units, pair.target_units, convention)
        for weights, pair in zip(found.maps, asked.pairs, strict=bool(asked.links))
    ]
    each = [[(link.source, link.target, link.weight) for link in pair] for pair in linked]
    return Aligned(asked.id, each, [nats.tolist() for nats in found.nats])


def _walkthrough_step(step: WalkedStep) -> inspection_messages.WalkthroughStep:
    values = [
        [_finite_or_none(value) for value in each] if isinstance(each, tuple) else _finite_or_none(each)
        for each in step.values
    ]
    indices = None if step.indices is None else list(step.indices)
    return inspection_messages.WalkthroughStep(
        step.part, step.name, step.formula, list(step.shape), cast(Any, values), indices
    )


def _finite_or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _selected_row(choice: inspection_messages.RowChoice | None) -> Row | None:
    return None if choice is None else Row(choice.kind, choice.layer, choice.head, choice.row)


def _without_forced_end(rules: TokenRules) -> TokenRules:
    """An end that decoding forces costs nothing there; a look shows what the network gave it."""
    return TokenRules(rules.eos, rules.suppressed, rules.renormalise)


def _slice(kind: str, found: ForcedPass, asked: Attend) -> Slice:
    """The chosen layers and heads; of those that are reduced, a dimension of one is left."""
    chosen = chosen_slice(found.maps[kind], asked.layers, asked.heads)
    weights = chosen.weights
    if asked.question.reduce_heads == "mean":
        weights = weights.double().mean(dim=1, keepdim=True)
    elif asked.question.reduce_heads == "max":
        weights = weights.amax(dim=1, keepdim=True)
    if asked.question.reduce_layers == "mean":
        weights = weights.double().mean(dim=0, keepdim=True)
    numbers = weights.float().contiguous().numpy()
    return Slice(kind, list(chosen.layers), list(chosen.heads), list(numbers.shape), numbers.tobytes())


def _statistics(
    kind: str, found: ForcedPass, question: inspection_messages.AttentionOptions
) -> list[list[HeadStatistics]]:
    starts, ends = [0], list[int]()  # a target starts with one token, and its end is never read
    if kind != "decoder":
        count = len(found.source)
        starts, ends = list(range(question.starts)), list(range(count - question.ends, count))
    valid = found.valid(kind)
    cross = kind == "cross"
    return [head_statistics(weights, valid, cross=cross, starts=starts, ends=ends) for weights in found.maps[kind]]


def _rollout(found: ForcedPass) -> inspection_messages.Rollout:
    made = rollouts.rollout(*(found.maps[kind] for kind in KINDS))
    return inspection_messages.Rollout(
        made.encoder.tolist(),
        made.cross.tolist(),
        made.source_share.tolist(),
        rollouts.ROLLOUT_METHOD,
        rollouts.ROLLOUT_CAVEAT,
    )


def _alignment(
    found: ForcedPass, config: CheckpointConfig, question: inspection_messages.AttentionOptions
) -> inspection_messages.Alignment:
    maps = found.maps["cross"]
    heads, convention, error = alignment_heads(config, len(maps), len(maps[0]))
    mean = mean_of_heads(maps, heads)
    linked = links(
        mean[len(mean) - len(question.target_units) :], question.source_units, question.target_units, convention
    )
    each = [(link.source, link.target, link.weight) for link in linked]
    return inspection_messages.Alignment(each, pharaoh(linked), question.unit, heads, convention, error)


def alignment_heads(
    config: CheckpointConfig, depth: int, width: int
) -> tuple[list[HeadPlace], Convention, float | None]:
    """The heads and the convention that the checkpoint was found to align best with, and their error; where nobody has
    measured that, all `width` heads of the last but one of `depth` layers, by the row that predicts."""
    chosen = config.alignment
    if chosen is not None:
        return [(layer, head) for layer, head in chosen["heads"]], chosen["convention"], chosen["error"]
    return [(max(0, depth - 2), head) for head in range(width)], "predicting", None


def _output_step(step: ForcedStep) -> inspection_messages.OutputStep:
    top = [inspection_messages.Candidate(token, logprob) for token, logprob in step.likeliest]
    return inspection_messages.OutputStep(step.log_probability, step.rank + 1, step.entropy, top)


def _ablation(network: Transformer, rules: TokenRules, asked: Attend) -> inspection_messages.Ablation:
    """Without what would be written instead: `app.engine.worker.inspection` finds that."""
    question = asked.question
    masked = [Head(each.kind, each.layer, each.head) for each in question.masked]
    found = ablations.ablation(network, asked.source, asked.inputs, asked.outputs, masked, _without_forced_end(rules))
    return inspection_messages.Ablation(question.masked, found.before, found.after, list(found.deltas))


def _worked_row(row: WorkedRow) -> inspection_messages.WorkedRow:
    numbers = row.scores.tolist(), row.readable.tolist(), row.weights.tolist()
    return inspection_messages.WorkedRow(
        cast(inspection_messages.AttentionMapKind, row.row.kind), *row.row[1:], row.scale, *numbers
    )


class AblationSearch:
    """A look at attention that lacks only this. SelectionError for a head that is not there."""

    def __init__(
        self, network: Transformer, config: CheckpointConfig, rules: TokenRules, asked: Attend, seen: Attention
    ) -> None:
        self.asked, self._seen, question = asked, seen, asked.question
        prompt = Prompt(tuple(asked.source), (*config.target_prefix, *question.prefix))
        changed = without_heads(network, [Head(each.kind, each.layer, each.head) for each in question.masked])
        self._decoder = Decoder[int](
            decodable(changed, "fp32"),
            rules,
            slots=question.decoding.beam,
            source_length=len(prompt.source),
            target_length=len(prompt.prefix) - 1 + question.decoding.token_limit,
        )
        with torch.inference_mode():
            self._decoder.join([(asked.id, prompt, question.decoding)])

    def step(self) -> Attention | None:
        """The whole answer, once the search is at its end."""
        finished = self._decoder.step().finished
        if not finished:
            return None
        ((_, (best, *_)),) = finished
        ablation = self._seen.findings.ablation
        assert ablation is not None, "a look without heads tells what they are worth"
        told = replace(ablation, tokens=[*self.asked.question.prefix, *best.tokens])
        return replace(self._seen, findings=replace(self._seen.findings, ablation=told))
