"""What inspections find: plain values, which cross from a device's process as they are. No torch here.

Log-probabilities and entropies are in nats; layers, heads, rows and positions count from 0.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from models.inspection.selection import AttentionKind, Head

Convention = Literal["predicting", "input"]
Unit = Literal["word", "token"]

ROLE_MASS = 0.5  # of the mass at one kind of place, and the head is named for it
BROAD_ENTROPY = 0.9  # of the largest possible entropy
FOCUSED_CONFIDENCE = 0.8  # the mean of the largest weight of each row
ROLES_BY_PLACE = {"diag": "diagonal", "prev": "previous", "next": "next"}
ROLES_BY_PLACE |= {"mass_eos": "end of sentence", "mass_bos": "start of sentence"}


class HeadStatistics(NamedTuple):
    """Means over the rows that may look somewhere; places are counted among the tokens that may be read.

    entropy_mean: nats. entropy_norm: entropy / ln(keys that the row may look at), 0..1; rows of one key are left out;
    0 if all are such. confidence: the largest weight (Voita et al. 2019, arXiv 1905.09418). mass_bos, mass_eos: on
    start and end tokens. diag, prev, next: on the row's own place, the one before and the one behind, over the rows
    that have them; in cross-attention the own place of row q of Q is key floor((2q+1)·K / 2Q) of the K readable ones,
    as if source and target were drawn equally long. argmax_coverage: the share of readable keys that are some row's
    largest. role: "broad" from entropy_norm 0.9; otherwise the fullest kind of place that holds at least half of the
    mass; otherwise "focused" from confidence 0.8, or "mixed".
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
    fullest = max(ROLES_BY_PLACE, key=lambda place: values[place])
    if values["entropy_norm"] >= BROAD_ENTROPY:  # first: of two keys each has half of the mass, whoever looks
        return "broad"
    if values[fullest] >= ROLE_MASS:
        return ROLES_BY_PLACE[fullest]
    return "focused" if values["confidence"] >= FOCUSED_CONFIDENCE else "mixed"


class AttentionMap(msgspec.Struct, frozen=True):
    """weights [layer][head][query][key], little-endian float32 in C order; `layers` and `heads` say which ones: where
    they were reduced to one, those that it was made of."""

    layers: tuple[int, ...]
    heads: tuple[int, ...]
    shape: tuple[int, ...]
    weights: bytes

    @property
    def values(self) -> npt.NDArray[np.float32]:
        """[layers, heads, Q, K], which may not be written to."""
        return np.frombuffer(self.weights, dtype="<f4").reshape(self.shape)


class Rollout(msgspec.Struct, frozen=True):
    """encoder [S][S] and cross [T][S], whose rows sum to 1; source_share [T]: how much of a row of the decoder comes
    from the source and not from its own inputs. float32. method: the formula; caveat: what it does not show."""

    encoder: list[list[float]]
    cross: list[list[float]]
    source_share: list[float]
    method: str
    caveat: str


class Alignment(msgspec.Struct, frozen=True):
    """links: source unit, target unit, weight. heads: layer and number of each whose mean they are of. error: of this
    choice on held-out sentences, where it was measured."""

    links: list[tuple[int, int, float]]
    pharaoh: str
    unit: Unit
    heads: list[tuple[int, int]]
    convention: Convention
    error: float | None


class Candidate(msgspec.Struct, frozen=True):
    """A token that might have been written. piece: as the vocabulary writes it; text: as it reads. The front end fills
    both in, which has the tokenizers."""

    id: int
    logprob: float
    piece: str = ""
    text: str = ""


class OutputStep(msgspec.Struct, frozen=True):
    """One output token: its log-probability (-inf for a token that is never chosen) and rank, 1 for the likeliest; the
    entropy of the choice among the tokens that may be chosen; the likeliest, best first."""

    logprob: float
    rank: int
    entropy_nats: float
    top: list[Candidate]


class Ablation(msgspec.Struct, frozen=True):
    """Log-probabilities of the output tokens with all heads and without `heads`: their sums, and what each token gained
    (negative: lost). A token that is never chosen has -inf before and after, and gained 0. tokens: what the model
    writes without them; text_after: how that reads, which the front end fills in."""

    heads: list[Head]
    logprob_sum_before: float
    logprob_sum_after: float
    per_step_delta: list[float]
    tokens: list[int] = []
    text_after: str = ""


class WorkedRow(msgspec.Struct, frozen=True):
    """One row of one map, worked out over its K keys: scores = q·k·scale; softmax: of the scores where the mask lets
    the row look, 0 elsewhere, which is the map's own row."""

    kind: AttentionKind
    layer: int
    head: int
    row: int
    scale: float
    scores: list[float]
    mask: list[bool]
    softmax: list[float]


class WalkthroughStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """A step of a forward pass. part: "embedding", "layer input", "self-attention", "cross-attention", "feed-forward"
    or "output". formula: plain text. shape: of the whole. values: a vector or the rows of a matrix, each row and their
    number cut where `shape` says more; None stands for minus infinity, a masked score. indices: which entries of the
    vector these are, tokens of the vocabulary; None: the first. texts: how these read, which the front end fills in."""

    part: str
    name: str
    formula: str
    shape: tuple[int, ...]
    values: tuple[float | tuple[float | None, ...] | None, ...]
    indices: tuple[int, ...] | None = None
    texts: tuple[str, ...] | None = None


class Walkthrough(msgspec.Struct, frozen=True):
    """The steps as one position of one layer and one head sees them."""

    layer: int
    head: int
    position: int
    steps: tuple[WalkthroughStep, ...]


class AttentionFindings(msgspec.Struct, frozen=True):
    """What was found beside the maps, where it was wanted. logprob_sum: of the output tokens."""

    logprob_sum: float = 0.0
    stats: dict[AttentionKind, list[list[HeadStatistics]]] | None = None
    rollout: Rollout | None = None
    alignment: Alignment | None = None
    steps: list[OutputStep] | None = None
    ablation: Ablation | None = None
    qk: WorkedRow | None = None


class GateSummary(msgspec.Struct, frozen=True):
    """All units of one layer at each of T tokens, name -> [T]: the mean of each gate, and the share of units that are
    saturated, at the low end of its bounds and at the high one (gates without bounds are left out). hidden_change [T]:
    the mean of |h - the h before|, which is 0 before the first token. float32."""

    layer: int
    mean: dict[str, list[float]]
    low: dict[str, list[float]]
    high: dict[str, list[float]]
    hidden_change: list[float]
