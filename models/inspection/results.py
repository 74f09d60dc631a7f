"""Results of inspections: plain values, sent as they are from a device's process. Those with described fields are also
what the HTTP API answers with and documents. No torch here. Log-probabilities and entropies are in nats; layers, heads,
rows and positions count from 0."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from models.inspection.selection import AttentionKind, Head

Convention = Literal["predicting", "input"]
Unit = Literal["word", "token"]
if TYPE_CHECKING:
    Nats = float
else:
    Nats = float | None  # in the API's document: JSON has null for minus infinity

ROLE_MASS = 0.5  # minimum share of the mass at one kind of place for a role named after it
BROAD_ENTROPY = 0.9  # of the largest possible entropy
FOCUSED_CONFIDENCE = 0.8  # the mean of the largest weight of each row
ROLES_BY_PLACE = {"diag": "diagonal", "prev": "previous", "next": "next"}
ROLES_BY_PLACE |= {"mass_eos": "end of sentence", "mass_bos": "start of sentence"}


def doc(description: str, example: object) -> msgspec.Meta:
    """The description of a field in the API's document."""
    return msgspec.Meta(description=description, examples=[example])


class HeadStatistics(NamedTuple):
    """One head over all rows that stand for something. Masses are means over rows, 0 to 1."""

    entropy_mean: Annotated[float, doc("Of a row, in nats.", 0.42)]
    entropy_norm: Annotated[float, doc("The same over ln(number of keys), 0 to 1.", 0.21)]
    confidence: Annotated[float, doc("Mean of the largest weight of a row.", 0.87)]
    mass_bos: Annotated[float, doc("On the start token.", 0.01)]
    mass_eos: Annotated[float, doc("On the end token.", 0.05)]
    prev: Annotated[float, doc("On the token before.", 0.02)]
    diag: Annotated[float, doc("On the same place; across, on the diagonal.", 0.8)]
    next: Annotated[float, doc("On the token behind.", 0.02)]
    argmax_coverage: Annotated[float, doc("Share of the keys that some row looks at most.", 0.75)]
    role: Annotated[str, doc("What it seems to do, by stated thresholds.", "diagonal")]


def head_role(values: dict[str, float]) -> str:
    """As the thresholds say: broad by its entropy; otherwise the kind of place with the most mass if it holds at least
    half; otherwise focused by its largest weights, or mixed."""
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


class Rollout(msgspec.Struct):
    """Attention followed through all layers, in float32."""

    encoder: Annotated[list[list[float]], doc("[source][source]", [[0.9, 0.1], [0.2, 0.8]])]
    cross: Annotated[list[list[float]], doc("[target step][source]", [[0.7, 0.3]])]
    source_share: Annotated[list[float], doc("How much of each step comes from the source at all, 0 to 1.", [0.6])]
    method: Annotated[str, doc("The formula.", "Attention rollout (Abnar & Zuidema 2020) …")]
    caveat: Annotated[str, doc("What it does not show.", "It follows attention and residual paths alone …")]


class Alignment(msgspec.Struct, frozen=True):
    """Links between words."""

    links: Annotated[list[tuple[int, int, float]], doc("[source, target, weight] of each.", [[0, 0, 0.93]])]
    pharaoh: Annotated[str, doc("source-target, from 0.", "0-0 1-1 3-3")]
    unit: Annotated[Unit, doc("What the numbers count.", "word")]
    heads: Annotated[
        list[tuple[int, int]],
        doc("Layer and number of each head of cross-attention whose mean the links are from.", [[0, 3], [1, 2]]),
    ]
    convention: Annotated[
        Convention,
        doc("Whether a target word has the row that predicts it or the row that reads it.", "predicting"),
    ]
    error: Annotated[
        float | None,
        doc("Alignment error rate of this choice on held-out sentences; null where none was measured.", 0.07),
    ]


class Candidate(msgspec.Struct, frozen=True):
    """A token that might have been written."""

    id: Annotated[int, doc("In the vocabulary.", 7)]
    logprob: Annotated[float, doc("Nats.", -2.99)]
    # the front end, which has the tokenizers, fills in both
    piece: Annotated[str, doc("How the vocabulary writes it.", "▁would")] = ""
    text: Annotated[str, doc("How it reads.", "would")] = ""


class DecoderStep(msgspec.Struct, frozen=True):
    """Of one output token."""

    logprob: Annotated[Nats, doc("Nats; null (minus infinity) for a token that is never chosen.", -0.09)]
    rank: Annotated[int, doc("Its place among all tokens; 1: it is the likeliest.", 1)]
    entropy_nats: Annotated[float, doc("Of the whole distribution.", 0.3)]
    top: Annotated[
        list[Candidate],
        doc(
            "The likeliest tokens, `top_k` of them.", [{"id": 7, "piece": "▁would", "text": "would", "logprob": -2.99}]
        ),
    ]


class SilencedHead(Head, frozen=True):
    """A head that was asked for in `mask_heads`."""

    kind: Annotated[AttentionKind, doc('"encoder", "decoder" or "cross".', "cross")]
    layer: Annotated[int, doc("Its layer, from 0.", 1)]
    head: Annotated[int, doc("Its number in the layer, from 0.", 0)]


class Ablation(msgspec.Struct, frozen=True):
    """Without the heads."""

    heads: Annotated[list[SilencedHead], doc("Which were silenced.", [{"kind": "cross", "layer": 1, "head": 0}])]
    logprob_sum_before: Annotated[
        Nats,
        doc("Of the output tokens with all heads, nats; null (minus infinity) where one is never chosen.", -0.41),
    ]
    logprob_sum_after: Annotated[Nats, doc("Of the same tokens without these, nats; null likewise.", -1.71)]
    # 0 for a token that is never chosen, before or after
    per_step_delta: Annotated[list[float], doc("After minus before, nats a step.", [-0.1, -1.2])]
    tokens: Annotated[list[int], doc("Ids of what the model writes without them.", [5, 9])] = []
    text_after: Annotated[str, doc("What the model writes without them.", "i want beer")] = ""  # by the front end


class WorkedRow(msgspec.Struct, frozen=True):
    """One row of one head: softmax(scores where the mask lets them) = weights."""

    kind: Annotated[AttentionKind, doc("Of the head.", "cross")]
    layer: Annotated[int, doc("From 0.", 1)]
    head: Annotated[int, doc("From 0.", 0)]
    row: Annotated[int, doc("From 0.", 2)]
    scale: Annotated[float, doc("What q·k is multiplied by.", 0.125)]
    scores: Annotated[list[float], doc("q·k times `scale`, of each key.", [2.1, -0.3])]
    mask: Annotated[list[bool], doc("Which keys it may look at.", [True, True])]
    softmax: Annotated[list[float], doc("The weights, as in a map of as many `decimals`.", [0.92, 0.08])]


class WalkthroughStep(msgspec.Struct, omit_defaults=True):
    """A step of a forward pass. part: "embedding", "layer input", "self-attention", "cross-attention", "feed-forward"
    or "output". values: a vector, or the rows of a matrix, truncated where `shape` is larger; None stands for minus
    infinity, a masked score. texts: filled in by the front end. edited: in code or in kind, such as another norm."""

    part: Annotated[str, doc("Which part of the network.", "self-attention")]
    name: Annotated[str, doc("What is computed.", "scores")]
    formula: Annotated[
        str | None,
        doc(
            "How; null if the code that computes it was edited, so that only the numbers are known.",
            "s = 0.176777 · q·Kᵀ",
        ),
    ]
    shape: Annotated[tuple[int, ...], doc("Of the whole.", [5])]
    values: tuple[float | tuple[float | None, ...] | None, ...]
    indices: Annotated[tuple[int, ...] | None, doc("Which tokens of the vocabulary the values are of.", [5, 9])] = None
    texts: Annotated[tuple[str, ...] | None, doc("How these read.", ["beer", "ale"])] = None
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
    steps: list[DecoderStep] | None = None
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
