"""Inspections on the device: attention, walkthroughs, alignment, gates and scores of one pass over given texts.

What a translator writes without some heads is searched for one step at a time, between the steps of other requests:
hundreds of steps in one go would hold up every other request, and might pass for a device that hangs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from msgspec.structs import replace
from torch import Tensor

from app.engine.protocol import messages as m
from app.engine.protocol.messages import plain_name
from app.engine.worker.model_runner import LoadedModel
from models import scoring
from models.backends.select import decodable, teacher_forced
from models.checkpoint import CheckpointConfig
from models.decoding.decoder import Decoder
from models.decoding.options import TokenRules
from models.inspection.ablation import ablation, without_heads
from models.inspection.attention_maps import head_statistics, reduced_map, rollout
from models.inspection.forced_batch import ForcedSentence, forced_batch
from models.inspection.forced_pass import ForcedPass, NonFiniteOutput, forced_pass, forced_steps, require_finite
from models.inspection.gate_traces import GateTrace, check_gate_selection, gate_trace
from models.inspection.results import Alignment, AttentionFindings, Convention, HeadStatistics
from models.inspection.selection import KINDS, AttentionKind, SelectionError, too_many_values
from models.inspection.walkthrough import walkthrough
from models.inspection.word_alignment import HeadPlace, links, mean_of_heads, pharaoh
from models.interface import Gated, Prompt
from models.networks.transformer import Transformer

NO_TRANSLATOR = {
    m.InspectAttention: "{} has no attention to show; ask a translator instead.",
    m.InspectWalkthrough: "{} is no translator; only these can be walked through.",
    m.AlignPairs: "{} is no translator; only these align words.",
}
REQUEST_FIELDS = {"masked": "mask_heads", "row": "qk"}  # fields of a request, by those of a choice


class CannotInspect(ValueError):
    """The network has nothing of the kind to show, or too much; the message says what to ask for instead, and
    `field` which choice of the request was wrong, if one was."""

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


def inspect(model: LoadedModel, request: m.Inspections) -> m.Inspected | AblationSearch:
    """CannotInspect if the network does not have what the request names, or the answer would hold too many values;
    NonFiniteOutput where it computes no numbers."""
    name = plain_name(request.model)
    try:
        with torch_threads(model.inspection_threads):
            if isinstance(request, m.InspectGates | m.ScoreTokens):
                return trace_or_score(model.network, model.rules, request)
            if not isinstance(model.network, Transformer):
                raise CannotInspect(NO_TRANSLATOR[type(request)].format(name))
            network = model.network
            if isinstance(request, m.InspectWalkthrough):
                shown = walkthrough(network, request.source, request.inputs, request.focus, model.rules)
                return m.WalkthroughInspected(request.id, shown)
            if isinstance(request, m.AlignPairs):
                return align_pairs(network, model.config, model.rules, request)
            inspected = inspect_attention(network, model.config, model.rules, request)
            values = sum(math.prod(part.shape) for part in inspected.maps.values())
            if values > request.max_values:
                raise CannotInspect(
                    f"This answer would hold {values:,} weights and the limit is {request.max_values:,};"
                    " select fewer kinds, layers or heads, or send a shorter text."
                )
            if not request.selection.masked:
                return inspected
            return AblationSearch(network, model.config, model.rules, request, inspected)
    except SelectionError as error:
        raise CannotInspect(str(error), REQUEST_FIELDS.get(error.field, error.field)) from error
    except NonFiniteOutput as error:
        raise NonFiniteOutput(f"{name} {error}") from error


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


def trace_or_score(
    network: Any, rules: TokenRules, request: m.InspectGates | m.ScoreTokens
) -> m.GatesInspected | m.TokensScored:
    """SelectionError if the network does not have what the request names, or the answer would hold too many values;
    NonFiniteOutput."""
    if isinstance(request, m.InspectGates):
        found = _gate_trace(network, request)
        expected = scoring.expected(teacher_forced(network), found.features, request.tokens[1:], rules, request.top_k)
        require_finite(*found.values.values(), found.features)
        return _traced_message(request.id, found, _expected_message(expected))
    asked = rules if request.by_rules else None
    scored = scoring.score(teacher_forced(network), request.source, request.target, asked, request.top_k)
    return m.TokensScored(request.id, _expected_message(scored))


def _gate_trace(network: object, request: m.InspectGates) -> GateTrace:
    if not isinstance(network, Gated):
        name = plain_name(request.model)
        raise SelectionError(f"{name} has no gates to show; ask a lyricist instead.", "model")
    names, layers, units = check_gate_selection(network.gate_shape, request.selection)
    sizes = len(names), len(layers), units, len(request.tokens)
    if problem := too_many_values(*sizes, request.max_values):
        raise SelectionError(problem, "units")
    return gate_trace(network, request.tokens, request.selection)


def _traced_message(request: int, found: GateTrace, expected: m.ExpectedTokens) -> m.GatesInspected:
    return m.GatesInspected(
        id=request,
        cell=found.shape.cell,
        depth=found.shape.layers,
        hidden=found.shape.hidden,
        layers=list(found.layers),
        units=[list(each) for each in found.units],
        values={name: _float_tensor(each) for name, each in found.values.items()},
        summaries=found.summaries,
        expected=expected,
    )


def _expected_message(found: scoring.Expected) -> m.ExpectedTokens:
    require_finite(found.entropies, logits=found.log_probabilities)
    return m.ExpectedTokens(
        _float_tensor(found.log_probabilities),
        found.ranks.tolist(),
        _float_tensor(found.entropies),
        found.tokens.tolist(),
        _float_tensor(found.token_log_probabilities),
    )


def _float_tensor(tensor: Tensor) -> m.FloatTensor:
    return m.FloatTensor(list(tensor.shape), tensor.float().numpy().astype("<f4", copy=False).tobytes())


def inspect_attention(
    network: Transformer, config: CheckpointConfig, rules: TokenRules, request: m.InspectAttention
) -> m.AttentionInspected:
    """SelectionError for what the network does not have; NonFiniteOutput."""
    selection, shown = request.selection, _without_forced_end(rules)
    found = forced_pass(network, request.source, request.inputs, KINDS, row=selection.row)
    require_finite(*(weights for kind in KINDS for weights in found.maps[kind]), logits=found.logits)
    maps = {kind: reduced_map(found.maps[kind], selection) for kind in selection.kinds}
    given = len(request.inputs) - len(request.outputs)  # of a start of several tokens
    steps = forced_steps(found.logits[given:], request.outputs, shown, selection.top_k)
    wanted, heads = set(selection.include), list(selection.masked)
    findings = AttentionFindings(
        logprob_sum=sum(step.logprob for step in steps),
        stats={kind: _statistics(kind, found, request) for kind in selection.kinds} if "stats" in wanted else None,
        rollout=rollout(*(found.maps[kind] for kind in KINDS)) if "rollout" in wanted else None,
        alignment=_alignment(found, config, request) if "alignment" in wanted else None,
        steps=steps if "steps" in wanted else None,
        ablation=ablation(network, request.source, request.inputs, request.outputs, heads, shown) if heads else None,
        qk=found.worked,
    )
    return m.AttentionInspected(request.id, maps, findings)


def align_pairs(
    network: Transformer, config: CheckpointConfig, rules: TokenRules, request: m.AlignPairs
) -> m.PairsAligned:
    """The links that an inspection of each pair alone has, and the log-probability of each token. NonFiniteOutput."""
    heads, convention, _ = alignment_heads(config, len(network.decoder), network.config.heads)
    sentences = [ForcedSentence(pair.source, pair.target, pair.given) for pair in request.pairs]
    rules_or_none = _without_forced_end(rules) if request.nats else None
    found = forced_batch(network, sentences, heads if request.links else [], rules_or_none)
    for nats in found.nats:
        require_finite(logits=nats)
    require_finite(*found.maps)
    linked = [
        links(weights[pair.given - 1 :], pair.source_units, pair.target_units, convention)
        for weights, pair in zip(found.maps, request.pairs, strict=bool(request.links))
    ]
    each = [[(link.source, link.target, link.weight) for link in pair] for pair in linked]
    return m.PairsAligned(request.id, each, [nats.tolist() for nats in found.nats])


def _without_forced_end(rules: TokenRules) -> TokenRules:
    """An end that decoding forces costs nothing there; an inspection shows what the network gave it."""
    return TokenRules(rules.eos, rules.suppressed, rules.renormalise)


def _statistics(kind: AttentionKind, found: ForcedPass, request: m.InspectAttention) -> list[list[HeadStatistics]]:
    starts, ends = [0], list[int]()  # a target starts with one token, and its end is never read
    if kind != "decoder":
        count = len(found.source)
        starts, ends = list(range(request.starts)), list(range(count - request.ends, count))
    valid, cross = found.valid(kind), kind == "cross"
    return [head_statistics(weights, valid, cross=cross, starts=starts, ends=ends) for weights in found.maps[kind]]


def _alignment(found: ForcedPass, config: CheckpointConfig, request: m.InspectAttention) -> Alignment:
    maps = found.maps["cross"]
    heads, convention, error = alignment_heads(config, len(maps), len(maps[0]))
    mean = mean_of_heads(maps, heads)
    weights = mean[len(mean) - len(request.target_units) :]
    linked = links(weights, request.source_units, request.target_units, convention)
    each = [(link.source, link.target, link.weight) for link in linked]
    return Alignment(each, pharaoh(linked), "word", heads, convention, error)


def alignment_heads(
    config: CheckpointConfig, depth: int, width: int
) -> tuple[list[HeadPlace], Convention, float | None]:
    """The heads and the convention that the checkpoint was found to align best with, and their error; where that was
    never measured, all `width` heads of the last but one of `depth` layers, by the row that predicts."""
    chosen = config.alignment
    if chosen is not None:
        return [(layer, head) for layer, head in chosen["heads"]], chosen["convention"], chosen["error"]
    return [(max(0, depth - 2), head) for head in range(width)], "predicting", None


class AblationSearch:
    """The search for what a translator writes without the masked heads, which completes an attention answer.
    SelectionError for a head that is not there."""

    def __init__(
        self,
        network: Transformer,
        config: CheckpointConfig,
        rules: TokenRules,
        request: m.InspectAttention,
        inspected: m.AttentionInspected,
    ) -> None:
        self.request, self._inspected, decoding = request, inspected, request.decoding
        prompt = Prompt(tuple(request.source), (*config.target_prefix, *request.prefix))
        self._decoder = Decoder(
            decodable(without_heads(network, request.selection.masked), "fp32"),
            rules,
            slots=decoding.beam,
            source_length=len(prompt.source),
            target_length=len(prompt.prefix) - 1 + decoding.token_limit,
        )
        with torch.inference_mode():
            self._decoder.join([(request.id, prompt, decoding)])

    def step(self) -> m.AttentionInspected | None:
        """The whole answer, once the search is at its end."""
        finished = self._decoder.step().finished
        if not finished:
            return None
        ((_, (best, *_)),) = finished
        findings = self._inspected.findings
        assert findings.ablation is not None, "an inspection without heads states what they are worth"
        ablated = replace(findings.ablation, tokens=[*self.request.prefix, *best.tokens])
        return replace(self._inspected, findings=replace(findings, ablation=ablated))
