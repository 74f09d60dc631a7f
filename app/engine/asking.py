"""From what was asked, as token ids, to the message that asks a device. The switchboard sets ids and deadlines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.engine import messages as m
from app.engine.findings import Question
from app.engine.insights import GatesJob
from app.engine.jobs import GenerationJob
from app.engine.library import Edition
from app.engine.look_jobs import AttentionJob, WalkthroughJob
from app.engine.sides import Sides
from models.checkpoint import new_token_limit


def _decode(
    checkpoint: Edition, source: Sequence[int], prefix: Sequence[int], max_new_tokens: int, **options: Any
) -> m.Decode:
    """options: the other fields of the message."""
    return m.Decode(
        id=0,
        model=checkpoint.key,
        source=list(source),
        prefix=list(prefix),
        deadline=0.0,
        max_new_tokens=max_new_tokens,
        **options,
    )


def _new_tokens(checkpoint: Edition, source_tokens: int, asked: int | None, room: int = 0) -> int:
    """Of a translation, at most. room: where nothing is asked, so many more."""
    most = checkpoint.config.max_new_tokens
    return min(most, new_token_limit(source_tokens, most) + room) if asked is None else min(asked, most)


def translation(
    checkpoint: Edition,
    source: tuple[int, ...],
    prefix: tuple[int, ...] = (),
    *,
    beam: int,
    length_penalty: float,
    wants_tokens: bool,
    start_by: float,
    max_new_tokens: int | None = None,
    required: Sequence[list[list[int]]] = (),
    no_repeat_ngram_size: int = 0,
    scores: bool = False,
) -> m.Decode:
    """All hypotheses of a beam search, of what follows `prefix`. Terms that are required have room besides."""
    room = sum(max(map(len, term)) for term in required)
    return _decode(
        checkpoint,
        source,
        (*checkpoint.config.target_prefix, *prefix),
        _new_tokens(checkpoint, len(source), max_new_tokens, room),
        beam=beam,
        n_best=beam,
        length_penalty=length_penalty,
        wants_tokens=wants_tokens,
        start_by=start_by,
        required=list(required),
        no_repeat_ngram_size=no_repeat_ngram_size,
        scores=scores,
    )


def continuation(
    checkpoint: Edition,
    job: GenerationJob,
    prompt: tuple[int, ...],
    *,
    seed: int,
    wants_tokens: bool,
    at_once: bool,
    start_by: float,
) -> m.Decode:
    """One of the job's samples."""
    return _decode(
        checkpoint,
        (),
        prompt,
        job.max_new_tokens,
        temperature=job.temperature,
        top_k=job.top_k,
        top_p=job.top_p,
        seed=seed,
        wants_tokens=wants_tokens,
        at_once=at_once,
        start_by=start_by,
        logprobs=job.logprobs,
        no_repeat_ngram_size=job.no_repeat_ngram_size,
        presence_penalty=job.presence_penalty,
        frequency_penalty=job.frequency_penalty,
        repetition_penalty=job.repetition_penalty,
        top_logprobs=job.top_logprobs,
    )


def attention(checkpoint: Edition, job: AttentionJob, sides: Sides) -> m.Attend:
    return m.Attend(
        id=0,
        model=checkpoint.key,
        source=sides.source.ids,
        inputs=[token.id for token in sides.target.inputs],
        outputs=[token.id for token in sides.target.outputs],
        kinds=list(job.kinds),
        layers=None if job.layers is None else list(job.layers),
        heads=None if job.heads is None else list(job.heads),
        max_values=job.max_values,
        question=_question(checkpoint, job, sides),
    )


def _question(checkpoint: Edition, job: AttentionJob, sides: Sides) -> Question:
    """The translation without heads is looked for as the one with them."""
    source = sides.source
    return Question(
        reduce_heads=job.reduce_heads,
        reduce_layers=job.reduce_layers,
        include=list(job.include),
        top_k=job.top_k,
        masked=list(job.masked),
        row=job.row,
        source_units=source.units,
        target_units=[token.word for token in sides.target.outputs],
        unit="word",
        starts=source.starts,
        ends=source.ends,
        beam=sides.beam,
        length_penalty=sides.length_penalty,
        max_new_tokens=_new_tokens(checkpoint, len(source.tokens), job.max_new_tokens),
        prefix=list(sides.prefix),
    )


def walkthrough(checkpoint: Edition, job: WalkthroughJob, sides: Sides) -> m.Walk:
    return m.Walk(
        id=0,
        model=checkpoint.key,
        source=sides.source.ids,
        inputs=[token.id for token in sides.target.inputs],
        side=job.side,
        layer=job.layer,
        head=job.head,
        position=job.position,
        most=job.most,
        most_keys=job.most_keys,
    )


def gates(checkpoint: Edition, job: GatesJob, tokens: tuple[int, ...]) -> m.Trace:
    """tokens: what the network reads."""
    return m.Trace(
        id=0,
        model=checkpoint.key,
        tokens=list(tokens),
        gates=None if job.gates is None else list(job.gates),
        layers=None if job.layers is None else list(job.layers),
        units=list(job.units) if not isinstance(job.units, int) else None,
        most_varied=job.units if isinstance(job.units, int) else 0,
        top_k=job.top_k,
        max_values=job.max_values,
    )


def score(checkpoint: Edition, source: tuple[int, ...], target: list[int], *, top_k: int, by_rules: bool) -> m.Score:
    """target: all tokens, the given one first."""
    return m.Score(id=0, model=checkpoint.key, source=list(source), target=target, top_k=top_k, by_rules=by_rules)
