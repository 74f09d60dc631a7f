"""A look inside a translator, on its device: one teacher-forced pass, and what is read from it."""

from __future__ import annotations

import math
from typing import Any, cast

import torch

from app.engine import findings
from app.engine.messages import Align, Aligned, Attend, Slice, Walk, Walked
from app.engine.numbers import require_numbers
from models.checkpoint import CheckpointConfig
from models.inspection import ablation as ablations
from models.inspection import rollout as rollouts
from models.inspection.alignment import Convention, links
from models.inspection.alignment_error import pharaoh
from models.inspection.choosing import Place, mean_of
from models.inspection.forced import ForcedPass, WorkedRow, forced_pass
from models.inspection.heads import head_statistics
from models.inspection.maps import chosen_slice
from models.inspection.roles import HeadStatistics
from models.inspection.selection import KINDS, Head, Row
from models.inspection.steps import Step, steps
from models.inspection.together import Sentence, read_together
from models.inspection.walked import Walked as WalkedStep
from models.inspection.walkthrough import Side, walkthrough
from models.options import TokenRules
from models.transformer import Transformer

MINUS_INFINITE = ("masked scores", "logits")  # steps of a walk whose numbers may be so


def look(
    network: Transformer, config: CheckpointConfig, rules: TokenRules, asked: Attend
) -> tuple[list[Slice], findings.Findings]:
    """SelectionError for what the network does not have; NoNumbers where it computes none."""
    question = asked.question
    found = forced_pass(network, asked.source, asked.inputs, KINDS, row=_row(question.row))
    require_numbers(asked.model, *(weights for kind in KINDS for weights in found.maps[kind]), logits=found.logits)
    slices = [_slice(kind, found, asked) for kind in asked.kinds]
    given = len(asked.inputs) - len(asked.outputs)  # of a start of several tokens
    told = steps(found.logits[given:], asked.outputs, _unforced(rules), question.top_k)
    wanted = set(question.include)
    return slices, findings.Findings(
        logprob_sum=sum(step.log_probability for step in told),
        stats={kind: _statistics(kind, found, question) for kind in asked.kinds} if "stats" in wanted else None,
        rollout=_rollout(found) if "rollout" in wanted else None,
        alignment=_alignment(found, config, question) if "alignment" in wanted else None,
        steps=[_step(each) for each in told] if "steps" in wanted else None,
        ablation=_ablation(network, rules, asked) if question.masked else None,
        qk=None if found.worked is None else _worked(found.worked),
    )


def walk(network: Transformer, rules: TokenRules, asked: Walk) -> Walked:
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
        if step.name in MINUS_INFINITE:
            require_numbers(asked.model, logits=told)
        else:
            require_numbers(asked.model, told)
    depth = len(network.encoder if asked.side == "encoder" else network.decoder)
    length = len(asked.source if asked.side == "encoder" else asked.inputs)
    place = asked.layer % depth, asked.head % network.config.heads, asked.position % length
    return Walked(asked.id, *place, [_told(step) for step in steps])


def align(network: Transformer, config: CheckpointConfig, rules: TokenRules, asked: Align) -> Aligned:
    """The links that a look at each pair by itself has, and what it says of each token. NoNumbers where it computes
    none."""
    heads, convention, _ = aligning(config, len(network.decoder), network.config.heads)
    sentences = [Sentence(pair.source, pair.target, pair.given) for pair in asked.pairs]
    rules_or_none = _unforced(rules) if asked.nats else None
    found = read_together(network, sentences, heads if asked.links else [], rules_or_none)
    for nats in found.nats:
        require_numbers(asked.model, logits=nats)
    require_numbers(asked.model, *found.maps)
    linked = [
        links(weights[pair.given - 1 :], pair.source_units, pair.target_units, convention)
        for weights, pair in zip(found.maps, asked.pairs, strict=bool(asked.links))
    ]
    each = [[(link.source, link.target, link.weight) for link in pair] for pair in linked]
    return Aligned(asked.id, each, [nats.tolist() for nats in found.nats])


def _told(step: WalkedStep) -> findings.Told:
    values = [[_finite(value) for value in each] if isinstance(each, tuple) else _finite(each) for each in step.values]
    indices = None if step.indices is None else list(step.indices)
    return findings.Told(step.part, step.name, step.formula, list(step.shape), cast(Any, values), indices)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _row(choice: findings.RowChoice | None) -> Row | None:
    return None if choice is None else Row(choice.kind, choice.layer, choice.head, choice.row)


def _unforced(rules: TokenRules) -> TokenRules:
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


def _statistics(kind: str, found: ForcedPass, question: findings.Question) -> list[list[HeadStatistics]]:
    starts, ends = [0], list[int]()  # a target starts with one token, and its end is never read
    if kind != "decoder":
        count = len(found.source)
        starts, ends = list(range(question.starts)), list(range(count - question.ends, count))
    valid = found.valid(kind)
    cross = kind == "cross"
    return [head_statistics(weights, valid, cross=cross, starts=starts, ends=ends) for weights in found.maps[kind]]


def _rollout(found: ForcedPass) -> findings.Rollout:
    made = rollouts.rollout(*(found.maps[kind] for kind in KINDS))
    return findings.Rollout(
        made.encoder.tolist(), made.cross.tolist(), made.source_share.tolist(), rollouts.METHOD, rollouts.CAVEAT
    )


def _alignment(found: ForcedPass, config: CheckpointConfig, question: findings.Question) -> findings.Alignment:
    maps = found.maps["cross"]
    heads, convention, error = aligning(config, len(maps), len(maps[0]))
    mean = mean_of(maps, heads)
    linked = links(
        mean[len(mean) - len(question.target_units) :], question.source_units, question.target_units, convention
    )
    each = [(link.source, link.target, link.weight) for link in linked]
    return findings.Alignment(each, pharaoh(linked), question.unit, heads, convention, error)


def aligning(config: CheckpointConfig, depth: int, width: int) -> tuple[list[Place], Convention, float | None]:
    """The heads and the convention that the checkpoint was found to align best with, and their error; where nobody has
    measured that, all `width` heads of the last but one of `depth` layers, by the row that predicts."""
    chosen = config.alignment
    if chosen is not None:
        return [(layer, head) for layer, head in chosen["heads"]], chosen["convention"], chosen["error"]
    return [(max(0, depth - 2), head) for head in range(width)], "predicting", None


def _step(step: Step) -> findings.Step:
    top = [findings.Candidate(token, logprob) for token, logprob in step.likeliest]
    return findings.Step(step.log_probability, step.rank + 1, step.entropy, top)


def _ablation(network: Transformer, rules: TokenRules, asked: Attend) -> findings.Ablation:
    """Without what would be written instead: `app.engine.rewriting` finds that."""
    question = asked.question
    masked = [Head(each.kind, each.layer, each.head) for each in question.masked]
    found = ablations.ablation(network, asked.source, asked.inputs, asked.outputs, masked, _unforced(rules))
    return findings.Ablation(question.masked, found.before, found.after, list(found.deltas))


def _worked(row: WorkedRow) -> findings.WorkedRow:
    numbers = row.scores.tolist(), row.readable.tolist(), row.weights.tolist()
    return findings.WorkedRow(cast(findings.Kind, row.row.kind), *row.row[1:], row.scale, *numbers)
