"""Attention maps in the formats of other tools. Neither these tools nor torch are imported here. Maps come from a
forced pass: kind -> [H, Q, K] per layer, rows summing to 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from models.inspection.selection import KINDS

if TYPE_CHECKING:
    from torch import Tensor

Maps: TypeAlias = "Mapping[str, Sequence[Tensor]]"


def to_bertviz(
    maps: Maps, source_tokens: Sequence[str], input_tokens: Sequence[str], output_tokens: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """Keyword arguments for bertviz.head_view or model_view, one dictionary per call. bertviz takes the layer numbers
    from the encoder and labels the rows of both decoder maps alike. The decoder's maps are therefore a separate call if
    the depths differ, and cross-attention is one if `output_tokens` label its rows."""
    groups: list[list[str]] = [[kind for kind in KINDS if maps.get(kind)]]
    if output_tokens is not None and "cross" in groups[0]:
        groups = [[kind for kind in groups[0] if kind != "cross"], ["cross"]]
    if len({len(maps[kind]) for kind in groups[0]}) > 1:
        groups[:1] = [["encoder"], [kind for kind in groups[0] if kind != "encoder"]]
    calls = list[dict[str, Any]]()
    for group in filter(None, groups):
        call: dict[str, Any] = {f"{kind}_attention": [weights[None] for weights in maps[kind]] for kind in group}
        if "encoder" in group or "cross" in group:
            call["encoder_tokens"] = list(source_tokens)
        if "decoder" in group or "cross" in group:
            rows = output_tokens if group == ["cross"] and output_tokens is not None else input_tokens
            call["decoder_tokens"] = list(rows)
        calls.append(call)
    return calls


def to_circuitsvis(
    maps: Maps, kind: str, source_tokens: Sequence[str], input_tokens: Sequence[str]
) -> list[dict[str, Any]]:
    """Keyword arguments for circuitsvis.attention.attention_heads, one dictionary per layer: attention [H, dest, src].
    circuitsvis draws square matrices only, so cross-attention is one matrix over source and decoder inputs, [[encoder,
    0], [cross, decoder]]: its decoder rows sum to 2, and missing kinds or encoder layers are 0."""
    tokens = {"encoder": list(source_tokens), "decoder": list(input_tokens)}
    tokens["cross"] = tokens["encoder"] + tokens["decoder"]
    count = len(maps[kind])
    matrices = [_joint(maps, layer) for layer in range(count)] if kind == "cross" else maps[kind]
    return [
        {
            "attention": weights,
            "tokens": tokens[kind],
            "attention_head_names": [f"{layer}.{head}" for head in range(len(weights))],
            "mask_upper_tri": kind == "decoder",
            "min_value": 0.0,
            "max_value": 1.0,
        }
        for layer, weights in enumerate(matrices)
    ]


def _joint(maps: Maps, layer: int) -> Tensor:
    cross = maps["cross"][layer]
    heads, inputs, source = cross.shape
    joint = cross.new_zeros(heads, source + inputs, source + inputs)
    joint[:, source:, :source] = cross
    for kind, part in (("encoder", slice(0, source)), ("decoder", slice(source, None))):
        if layer < len(maps.get(kind, ())):
            joint[:, part, part] = maps[kind][layer]
    return joint


def to_nematus(
    weights: npt.NDArray[np.float32],
    source_tokens: Sequence[str],
    output_tokens: Sequence[str],
    *,
    number: int = 0,
    score: float = 0.0,
    source_ended: bool = True,
    target_ended: bool = True,
) -> str:
    """One sentence in the format of Nematus and Marian, as read by SoftAlignments: "number ||| target ||| score |||
    source ||| S+1 T+1", then T+1 rows of S+1 weights, end tokens included. weights [T', S'] and tokens include the end
    tokens of `ended` sides; the end row or column of other sides is 0."""
    if weights.shape != (len(output_tokens), len(source_tokens)):
        tokens = f"{len(output_tokens)} target and {len(source_tokens)} source tokens"
        raise ValueError(f"A map of shape {weights.shape} does not fit {tokens}.")
    padded = np.pad(weights, [(0, int(not ended)) for ended in (target_ended, source_ended)])
    source, target = (
        [_word(token) for token in (tokens[:-1] if ended else tokens)]
        for tokens, ended in ((source_tokens, source_ended), (output_tokens, target_ended))
    )
    counts = f"{len(source) + 1} {len(target) + 1}"
    head = " ||| ".join([str(number), " ".join(target), f"{score:.6f}", " ".join(source), counts])
    return "\n".join([head, *(" ".join(f"{value:.7f}" for value in row) for row in padded.tolist())]) + "\n"


def _word(token: str) -> str:
    """A token as one word of the format: bars as in Moses' escape, blanks as ▁."""
    return "".join("▁" if each.isspace() else each for each in token).replace("|", "&#124;") or "▁"
