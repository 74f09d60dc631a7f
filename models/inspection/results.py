"""Results of inspections: plain values, sent as they are from a device's process. No torch here. Log-probabilities and
entropies are in nats; layers, heads, rows and positions count from 0."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from models.inspection.selection import AttentionKind, Head

Convention = Literal["predicting", "input"]
Unit = Literal["word", "token"]

ROLE_MASS = 0.5  # minimum share of the mass at one kind of place for a role named after it
BROAD_ENTROPY = 0.9  # of the largest possible entropy
FOCUSED_CONFIDENCE = 0.8  # the mean of the largest weight of each row
ROLES_BY_PLACE = {"diag": "diagonal", "prev": "previous", "next": "next"}
ROLES_BY_PLACE |= {"mass_eos": "end of sentence", "mass_bos": "start of sentence"}


class HeadStatistics(NamedTuple):
    """Means over the rows that may attend to any key; positions count readable tokens only. entropy_mean: nats.
    entropy_norm: entropy / ln(number of readable keys), 0..1, without rows of a single key; 0 if there are only such
    rows. confidence: the largest weight (Voita et al. 2019, arXiv 1905.09418). mass_bos, mass_eos: on start and end
    tokens. diag, prev, next: on the row's own position, the previous and the next, over rows that have them; in
    cross-attention the own position of row q of Q is key floor((2q+1)·K / 2Q) of the K readable ones, as if source and
    target were stretched to equal length. argmax_coverage: share of readable keys that are the argmax of some row.
    role: "broad" from entropy_norm 0.9; otherwise the kind of place with the most mass if it holds at least half;
    otherwise "focused" from confidence 0.8, or "mixed"."""

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
    if values["entropy_norm"] >= BROAD_ENTROPY:  # first: with two keys, each has about half of the mass by chance
        return "broad"
    if values[fullest] >= ROLE_MASS:
        return ROLES_BY_PLACE[fullest]
    return "focused" if values["confidence"] >= FOCUSED_CONFIDENCE else "mixed"


class AttentionMap(msgspec.Struct, frozen=True):
    """weights [layer][head][query][key], little-endian float32 in C order. layers, heads: their numbers; of a reduced
    dimension, the numbers that went into it."""

    layers: tuple[int, ...]
    heads: tuple[int, ...]
    shape: tuple[int, ...]
    weights: bytes

    @property
    def values(self) -> npt.NDArray[np.float32]:
        """[layers, heads, Q, K], read-only."""
        return np.frombuffer(self.weights, dtype="<f4").reshape(self.shape)


class Rollout(msgspec.Struct, frozen=True):
    """encoder [S][S] and cross [T][S], rows summing to 1; source_share [T]: the share of a decoder row that comes from
    the source rather than from the decoder's inputs. float32. method: the formula; caveat: its limits."""

    encoder: list[list[float]]
    cross: list[list[float]]
    source_share: list[float]
    method: str
    caveat: str


class Alignment(msgspec.Struct, frozen=True):
    """links: source unit, target unit, weight. heads: (layer, head) of the heads averaged. error: alignment error rate
    of these heads on held-out sentences, if measured."""

    links: list[tuple[int, int, float]]
    pharaoh: str
    unit: Unit
    heads: list[tuple[int, int]]
    convention: Convention
    error: float | None


class Candidate(msgspec.Struct, frozen=True):
    """A candidate token. piece: its vocabulary entry; text: its text. The front end (with tokenizers) fills in both."""

    id: int
    logprob: float
    piece: str = ""
    text: str = ""


class OutputStep(msgspec.Struct, frozen=True):
    """One output token: its log-probability (-inf if suppressed), its rank (1 is the likeliest), the entropy over the
    tokens that may be chosen, and the top tokens, best first."""

    logprob: float
    rank: int
    entropy_nats: float
    top: list[Candidate]


class Ablation(msgspec.Struct, frozen=True):
    """Log-probabilities of the output tokens with all heads and without `heads`: their sums, and the change per token
    (negative: less likely). A suppressed token has -inf before and after, and change 0. tokens: the output of decoding
    without the heads; text_after: its text, filled in by the front end."""

    heads: list[Head]
    logprob_sum_before: float
    logprob_sum_after: float
    per_step_delta: list[float]
    tokens: list[int] = []
    text_after: str = ""


class WorkedRow(msgspec.Struct, frozen=True):
    """One row of a map over its K keys. scores = q·k·scale; softmax: the row itself, 0 where the mask is False."""

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
    or "output". formula: plain text; None if the code that computes the values was edited, so that only the values are
    known. shape: before truncation. values: a vector, or the rows of a matrix, truncated where `shape` is larger; None
    stands for minus infinity, a masked score. indices: which entries of the vector (vocabulary ids) the values are;
    None: the first ones. texts: their texts, filled in by the front end. edited: the step differs from
    `models.networks` as it was written, in code or in kind, such as another norm."""

    part: str
    name: str
    formula: str | None
    shape: tuple[int, ...]
    values: tuple[float | tuple[float | None, ...] | None, ...]
    indices: tuple[int, ...] | None = None
    texts: tuple[str, ...] | None = None
    edited: bool = False


class Walkthrough(msgspec.Struct, frozen=True):
    """The steps of a forward pass for one position, layer and head. edits: how the network differs from the one that
    `models.networks` was written as, one clause for each part; () if it does not."""

    layer: int
    head: int
    position: int
    steps: tuple[WalkthroughStep, ...]
    edits: tuple[str, ...] = ()


class AttentionFindings(msgspec.Struct, frozen=True):
    """The requested findings besides the maps. logprob_sum: of the output tokens."""

    logprob_sum: float = 0.0
    stats: dict[AttentionKind, list[list[HeadStatistics]]] | None = None
    rollout: Rollout | None = None
    alignment: Alignment | None = None
    steps: list[OutputStep] | None = None
    ablation: Ablation | None = None
    qk: WorkedRow | None = None


class GateSummary(msgspec.Struct, frozen=True):
    """All units of one layer at each of T tokens, name -> [T], float32: the mean of each gate, and the shares of units
    saturated at its bounds (bounded gates only). hidden_change [T]: mean |h_t - h_(t-1)|, with zeros before h_0."""

    layer: int
    mean: dict[str, list[float]]
    low: dict[str, list[float]]
    high: dict[str, list[float]]
    hidden_change: list[float]
