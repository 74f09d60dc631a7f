"""What attention heads do, in numbers and in a word. No torch here: the front end reads these too."""

from __future__ import annotations

from typing import NamedTuple

ROLE_MASS = 0.5  # of the mass at one kind of place, and the head is named for it
BROAD_ENTROPY = 0.9  # of the largest possible entropy
FOCUSED_CONFIDENCE = 0.8  # the mean of the largest weight of each row
ROLES_BY_PLACE = {
    "diag": "diagonal",
    "prev": "previous",
    "next": "next",
    "mass_eos": "end of sentence",
    "mass_bos": "start of sentence",
}


class HeadStatistics(NamedTuple):
    """Means over the rows that may look somewhere; places are counted among the tokens that may be read.

    entropy_mean: nats. entropy_norm: entropy / ln(keys that the row may look at), 0..1; a row of one key has nothing to
    spread over and is left out; 0 if all are such. confidence: the largest weight (Voita et al. 2019,
    arXiv 1905.09418). mass_bos, mass_eos: on start and end tokens. diag, prev, next: on the row's own place, the one
    before and the one behind, over the rows that have them; in cross-attention the own place of row q of Q is key
    floor((2q+1)·K / 2Q) of the K readable ones: the one that the middle of the row falls into when source and target
    are drawn equally long. argmax_coverage: the share of readable keys that are some row's largest.
    role: "broad" from entropy_norm 0.9; otherwise the kind of place that holds at least half of the mass, the fullest
    if there are several ("diagonal", "previous", "next", "end of sentence", "start of sentence"); otherwise "focused"
    from confidence 0.8, or "mixed".
    """

    entropy_mean: float
    entropy_norm: float
    confidence: float
    mass_bos: float
    mass_eos: float
    prev: float
    diag: float
    next: float
    argmax_coverage: float
    role: str


def head_role(values: dict[str, float]) -> str:
    """By the thresholds above."""
    fullest = max(ROLES_BY_PLACE, key=lambda place: values[place])
    if values["entropy_norm"] >= BROAD_ENTROPY:  # first: of two keys each has half of the mass, whoever looks
        return "broad"
    if values[fullest] >= ROLE_MASS:
        return ROLES_BY_PLACE[fullest]
    return "focused" if values["confidence"] >= FOCUSED_CONFIDENCE else "mixed"
