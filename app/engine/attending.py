"""How large an attention answer would be, from what the checkpoint says of its network: before anything is computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.engine.errors import InvalidRequest
from app.engine.jobs import AttentionJob
from models.checkpoint import CheckpointConfig


def check_values(config: CheckpointConfig, job: AttentionJob, source_tokens: int, input_tokens: int) -> None:
    """InvalidRequest if the answer would hold more than `job.max_values` weights. input_tokens: what the decoder
    reads; at least so many, while the target is still to be found. A network that does not say how many layers and
    heads it has is left to the device, and so is a choice that it does not have."""
    lengths = {
        "encoder": ("encoder_layers", source_tokens * source_tokens),
        "decoder": ("decoder_layers", input_tokens * input_tokens),
        "cross": ("decoder_layers", input_tokens * source_tokens),
    }
    heads = chosen(job.heads, config.architecture.get("heads"))
    values = sum(
        chosen(job.layers, config.architecture.get(layers)) * heads * size
        for layers, size in (lengths[kind] for kind in dict.fromkeys(job.kinds))
    )
    if values > job.max_values:
        raise InvalidRequest(
            f"This answer would hold {values:,} weights and the limit is {job.max_values:,};"
            " select fewer kinds, layers or heads, or send a shorter text."
        )


def chosen(numbers: Sequence[int] | None, count: Any) -> int:
    """How many of `count` layers or heads are meant; 0 where that cannot be said."""
    if not isinstance(count, int):
        return 0
    if numbers is None:
        return count
    return len({number % count for number in numbers if -count <= number < count})
