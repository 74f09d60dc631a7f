"""Attention maps in the format of Nematus and Marian, which SoftAlignments reads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


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
