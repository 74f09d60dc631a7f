"""How large the answer to a look at attention would be, and what would fit: said before anything is computed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from app.engine.errors import AnswerTooLarge, InvalidRequest
from app.engine.jobs import AttentionJob, AttentionKind
from models.checkpoint import CheckpointConfig


class Size(NamedTuple):
    """Numbers of the maps, in the encoding that was asked for, and of the rollout, which is always digits."""

    weights: int
    rollout: int

    def fits(self, job: AttentionJob) -> bool:
        return sum(self) <= job.max_values and self.rollout <= job.max_digits


def check_values(config: CheckpointConfig, job: AttentionJob, source_tokens: int, input_tokens: int) -> None:
    """AnswerTooLarge if the answer would hold more numbers than the job allows; InvalidRequest for layers or heads that
    the network does not have. input_tokens: what the decoder reads; at least so many, while the target is still to be
    found. A network that does not say how many layers and heads it has is left to the device."""
    size = size_of(config, job, source_tokens, input_tokens)
    if size.fits(job):
        return
    changes = smaller(job)
    suggest = next((c for c, then in changes if size_of(config, then, source_tokens, input_tokens).fits(then)), None)
    rollout = "rollout" in job.include
    if sum(size) <= job.max_values:
        values, limit, what = size.rollout, job.max_digits, "numbers in its rollout, always digits,"
        field, ways = "include", "leave it out"
    else:
        values, limit, what, field = sum(size), job.max_values, "weights", "kinds"
        ways = "select fewer kinds, layers or heads, reduce them to their mean," + " leave out the rollout," * rollout
        if suggest is not None and "encoding" in suggest:
            ways = f'take them as bytes ("encoding": "{suggest["encoding"]}"), {ways}'
    raise AnswerTooLarge(
        f"This answer would hold {values:,} {what} and the limit is {limit:,}; {ways} or send a shorter text.",
        values=values,
        limit=limit,
        suggest=suggest,
        field=field,
    )


def size_of(config: CheckpointConfig, job: AttentionJob, source_tokens: int, input_tokens: int) -> Size:
    lengths = {
        "encoder": ("encoder_layers", source_tokens * source_tokens),
        "decoder": ("decoder_layers", input_tokens * input_tokens),
        "cross": ("decoder_layers", input_tokens * source_tokens),
    }
    heads = chosen(job.heads, config.architecture.get("heads"), "head")
    heads = 1 if job.reduce_heads != "none" else heads
    weights = 0
    for layers, size in (lengths[kind] for kind in dict.fromkeys(job.kinds)):
        count = chosen(job.layers, config.architecture.get(layers), "layer")
        weights += (1 if job.reduce_layers != "none" else count) * heads * size
    return Size(weights, source_tokens * (source_tokens + input_tokens) if "rollout" in job.include else 0)


def smaller(job: AttentionJob) -> Iterator[tuple[dict[str, Any], AttentionJob]]:
    """Fields to change in the request, those that lose least first, and the job that it then is."""
    if job.max_bytes > job.max_values:
        yield {"encoding": "u16"}, replace(job, max_values=job.max_bytes)
    heads = "mean" if job.reduce_heads == "none" else job.reduce_heads
    include = tuple(each for each in job.include if each != "rollout")
    kinds: tuple[AttentionKind, ...] = ("cross",) if "cross" in job.kinds else job.kinds[:1]
    without = replace(job, include=include)
    for start in (job, without, replace(without, kinds=kinds)):
        reduced = replace(start, reduce_heads=heads)
        for then in (start, reduced, replace(reduced, reduce_layers="mean")):
            yield difference(job, then), then


def difference(job: AttentionJob, then: AttentionJob) -> dict[str, Any]:
    """In the fields of a request."""
    found: dict[str, Any] = {}
    if (then.reduce_heads, then.reduce_layers) != (job.reduce_heads, job.reduce_layers):
        found["reduce"] = {"heads": then.reduce_heads, "layers": then.reduce_layers}
    if then.include != job.include:
        found["include"] = list(then.include)
    if then.kinds != job.kinds:
        found["kinds"] = list(then.kinds)
    return found


def chosen(numbers: Sequence[int] | None, count: Any, noun: str) -> int:
    """How many of `count` layers or heads are meant; 0 where that cannot be said. InvalidRequest, in the device's
    words, for a number that there is not: before a translation is made for it."""
    if not isinstance(count, int):
        return 0
    if numbers is None:
        return count
    for number in numbers:
        if not -count <= number < count:
            message = f"There is no {noun} {number}: this model has {count} ({noun}s 0 to {count - 1})."
            raise InvalidRequest(message, field=f"{noun}s")
    return len({number % count for number in numbers})
