"""What a translator looks at, and how large that answer would be: said before anything is computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.engine import asking, intake, views
from app.engine import messages as m
from app.engine.admission import Demand
from app.engine.entrance import Entrance
from app.engine.errors import InvalidRequest
from app.engine.jobs import AttentionJob, AttentionReport
from app.engine.library import Edition, Library
from app.engine.switchboard import Switchboard
from app.engine.translating import Translating
from models.checkpoint import CheckpointConfig


class Attending:
    def __init__(self, entrance: Entrance, switchboard: Switchboard, translating: Translating) -> None:
        self._entrance, self._switchboard, self._translating = entrance, switchboard, translating

    async def attention(self, job: AttentionJob) -> AttentionReport:
        checkpoint = inspected(self._entrance.library(), job.model)
        size = len(job.source) + len(job.target or "")
        with self._entrance.keeping([checkpoint]):
            source = await intake.aside(size, lambda: intake.source_ids(checkpoint, job.source, "source"))
            if not source:
                raise InvalidRequest("The source has no tokens that the model reads.", field="source")
            given = None
            if (text := job.target) is not None:
                given = await intake.aside(size, lambda: intake.target_ids(checkpoint, text))
            start = checkpoint.config.target_prefix
            check_values(checkpoint.config, job, len(source), len(start) + len(given or ()))
            rows = 0 if given is not None else self._translating.beam(0)
            demand = Demand(checkpoint.name, 1, len(source), len(source if given is None else given), rows)
            with self._entrance.admitted(demand):
                target, finished = (given, True) if given is not None else await self._own(checkpoint, source)
                # a finished target's last input token predicts the end; an unfinished one's last token is not read
                inputs = [*start, *(target if finished else target[:-1])]
                check_values(checkpoint.config, job, len(source), len(inputs))
                message = asking.attention(checkpoint, job, source, inputs)
                result: m.Attention = await self._switchboard.ask(message, len(source) + len(inputs))
        return views.attention_report(checkpoint, job, target, finished, result)

    async def _own(self, checkpoint: Edition, source: tuple[int, ...]) -> tuple[list[int], bool]:
        """The model's own translation, without the start token, and whether the end token belongs behind it."""
        best = (await self._translating.search(checkpoint, source, 0)).hypotheses[0]
        return list(best.tokens), best.finished


def inspected(library: Library, name: str | None) -> Edition:
    """A model of any kind if it is named, so that what it cannot show is said of it by name."""
    if name is not None and name in library.checkpoints:
        checkpoint = library.checkpoints[name]
        if "source" not in checkpoint.tokenizers:
            raise InvalidRequest(
                f"{name} is a lyricist and has no attention to show; name a translator.", field="model"
            )
    return library.named(name, "translator")


def check_values(config: CheckpointConfig, job: AttentionJob, source_tokens: int, input_tokens: int) -> None:
    """InvalidRequest if the answer would hold more than `job.max_values` weights, or of layers or heads that the
    network does not have. input_tokens: what the decoder reads; at least so many, while the target is still to be
    found. A network that does not say how many layers and heads it has is left to the device."""
    lengths = {
        "encoder": ("encoder_layers", source_tokens * source_tokens),
        "decoder": ("decoder_layers", input_tokens * input_tokens),
        "cross": ("decoder_layers", input_tokens * source_tokens),
    }
    heads = chosen(job.heads, config.architecture.get("heads"), "head")
    values = sum(
        chosen(job.layers, config.architecture.get(layers), "layer") * heads * size
        for layers, size in (lengths[kind] for kind in dict.fromkeys(job.kinds))
    )
    if values > job.max_values:
        raise InvalidRequest(
            f"This answer would hold {values:,} weights and the limit is {job.max_values:,};"
            " select fewer kinds, layers or heads, or send a shorter text."
        )


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
