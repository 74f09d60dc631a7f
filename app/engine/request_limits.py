"""What a request may ask for: refused by the name of its field before anything is sent to a device.

Ranges of decoding options, and the size of an attention answer together with the changes with which it would fit.
Interfaces may have narrower limits of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from msgspec import structs

from app.engine.errors import AnswerTooLarge, InvalidRequest
from app.engine.interface import AttentionQuery, TranslationRequest
from models.checkpoint import CheckpointConfig
from models.decoding.options import MAX_REQUIRED_TERMS
from models.inspection.head_selection import AttentionSelection

MOST_BEAM = 64


def check_translation(job: TranslationRequest, widest: int) -> None:
    """widest: the hypotheses that a model has slots for. InvalidRequest names the field and the limit."""
    widest, beam_size, alternatives = min(widest, MOST_BEAM), job.options.decoding.beam_size, job.options.alternatives
    if beam_size is not None:
        _check_range("beam_size", beam_size, 1, widest)
    if alternatives:
        _check_range("alternatives", alternatives, 0, widest - 1)
    if len(job.required) > MAX_REQUIRED_TERMS:
        message = (
            f"This text has {len(job.required)} terms to hold; a sentence takes {MAX_REQUIRED_TERMS}: send it in parts."
        )
        raise InvalidRequest(message, field="glossary")


def _check_range(field: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:  # true of NaN too
        raise InvalidRequest(f"{field} is {value:g}; this service takes {least:g} to {most:g}.", field=field)


class AttentionSize(NamedTuple):
    """Numbers of the maps, in the encoding that was asked for, and of the rollout, which is always digits."""

    weights: int
    rollout: int

    def fits(self, job: AttentionQuery) -> bool:
        return sum(self) <= job.max_values and self.rollout <= job.max_digits


def check_attention_size(
    config: CheckpointConfig, job: AttentionQuery, source_tokens: int, input_tokens: int, likely: int = 0
) -> None:
    """AnswerTooLarge if the answer would hold more numbers than the job allows; InvalidRequest for layers or heads that
    the network does not have. input_tokens: what the decoder reads; at least so many, while the target is still to be
    found, and then likely so many: what is suggested fits these too, if anything does. A network that does not say how
    many layers and heads it has is left to the device."""
    size = attention_size(config, job, source_tokens, input_tokens)
    if size.fits(job):
        return
    suggest = fitting_changes(config, job, source_tokens, (max(likely, input_tokens), input_tokens))
    rollout = "rollout" in job.selection.include
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


def fitting_changes(
    config: CheckpointConfig, job: AttentionQuery, source_tokens: int, targets: Sequence[int]
) -> dict[str, Any] | None:
    """What to change in the request so that it fits the first of these lengths of the target that anything fits."""
    changes = list(smaller_requests(job))
    for length in targets:
        for change, then in changes:
            if attention_size(config, then, source_tokens, length).fits(then):
                return change
    return None


def attention_size(
    config: CheckpointConfig, job: AttentionQuery, source_tokens: int, input_tokens: int
) -> AttentionSize:
    selection = job.selection
    lengths = {
        "encoder": ("encoder_layers", source_tokens * source_tokens),
        "decoder": ("decoder_layers", input_tokens * input_tokens),
        "cross": ("decoder_layers", input_tokens * source_tokens),
    }
    heads = selected_count(selection.heads, config.architecture.get("heads"), "head")
    heads = 1 if selection.reduce_heads != "none" else heads
    weights = 0
    for layers, size in (lengths[kind] for kind in dict.fromkeys(selection.kinds)):
        count = selected_count(selection.layers, config.architecture.get(layers), "layer")
        weights += (1 if selection.reduce_layers != "none" else count) * heads * size
    rollout = source_tokens * (source_tokens + input_tokens) if "rollout" in selection.include else 0
    return AttentionSize(weights, rollout)


def smaller_requests(job: AttentionQuery) -> Iterator[tuple[dict[str, Any], AttentionQuery]]:
    """Fields to change in the request, those that lose least first, and the query that it then is."""
    as_bytes: tuple[dict[str, Any], AttentionQuery] = {"encoding": "u16"}, replace(job, max_values=job.max_bytes)
    packs = job.max_bytes > job.max_values
    if packs:
        yield as_bytes
    for change, start in [({}, job), as_bytes][: 1 + packs]:
        for then in reductions(start.selection, one_map=job.one_map):
            yield change | changed_fields(job.selection, then), replace(start, selection=then)


def reductions(selection: AttentionSelection, *, one_map: bool) -> Iterator[AttentionSelection]:
    without = structs.replace(selection, include=tuple(name for name in selection.include if name != "rollout"))
    heads = {"reduce_heads": "mean" if selection.reduce_heads == "none" else selection.reduce_heads}
    layers = {"reduce_layers": "mean"}
    if one_map:
        changes: dict[str, str] = {}
        for change, given in ((heads, selection.heads), (layers, selection.layers)):
            changes |= change if len(set(given or (0, 1))) > 1 else {}
        yield structs.replace(without, kinds=("cross",), **changes)
        return
    kinds = sorted(selection.kinds, key=lambda kind: kind != "cross")
    for start in (selection, without, *(structs.replace(without, kinds=(kind,)) for kind in kinds)):
        yield from (start, structs.replace(start, **heads), structs.replace(start, **heads, **layers))


def changed_fields(selection: AttentionSelection, then: AttentionSelection) -> dict[str, Any]:
    """In the fields of a request."""
    found: dict[str, Any] = {}
    if (then.reduce_heads, then.reduce_layers) != (selection.reduce_heads, selection.reduce_layers):
        found["reduce"] = {"heads": then.reduce_heads, "layers": then.reduce_layers}
    if then.include != selection.include:
        found["include"] = list(then.include)
    if then.kinds != selection.kinds:
        found["kinds"] = list(then.kinds)
    return found


def selected_count(numbers: Sequence[int] | None, count: Any, noun: str) -> int:
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
