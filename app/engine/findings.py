"""What is asked of a look inside a translator, and what is found there beside the maps: plain values, no tensors. They
cross to a device process and back, and are written as JSON as they are."""

from __future__ import annotations

from typing import Literal

import msgspec

from models.inspection.roles import HeadStatistics

Kind = Literal["encoder", "decoder", "cross"]
Convention = Literal["predicting", "input"]


class HeadChoice(msgspec.Struct, frozen=True):
    """Numbers count from 0, negative ones from the end."""

    kind: Kind
    layer: int
    head: int


class RowChoice(msgspec.Struct, frozen=True):
    """One query of one head."""

    kind: Kind
    layer: int
    head: int
    row: int


class Rollout(msgspec.Struct, frozen=True):
    """encoder[source][source] and cross[step][source]; source_share[step]: how much comes from the source."""

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
    unit: Literal["word", "token"]
    heads: list[tuple[int, int]]
    convention: Convention
    error: float | None


class Candidate(msgspec.Struct, frozen=True):
    """piece: as the vocabulary writes it; text: as it reads. Both are filled in where tokenizers are known."""

    id: int
    logprob: float
    piece: str = ""
    text: str = ""


class Step(msgspec.Struct, frozen=True):
    """Of one output token. Nats; rank 1 is the likeliest."""

    logprob: float
    rank: int
    entropy_nats: float
    top: list[Candidate]


class Ablation(msgspec.Struct, frozen=True):
    """Log-probabilities of the output tokens with all heads and without some, in nats. tokens: what the model writes
    without them; text: how that reads, filled in where tokenizers are known."""

    heads: list[HeadChoice]
    logprob_sum_before: float
    logprob_sum_after: float
    per_step_delta: list[float]
    tokens: list[int] = []
    text_after: str = ""


class WorkedRow(msgspec.Struct, frozen=True):
    """softmax(scores where the mask lets the row look) = softmax, the map's own row. scores: q·k·scale."""

    kind: Kind
    layer: int
    head: int
    row: int
    scale: float
    scores: list[float]
    mask: list[bool]
    softmax: list[float]


class Told(msgspec.Struct, frozen=True, omit_defaults=True):
    """A step of a forward pass (`models.inspection.walked`). indices: tokens of the vocabulary that the values are of;
    texts: how these read, filled in where tokenizers are known. A score that is masked is null."""

    part: str
    name: str
    formula: str
    shape: list[int]
    values: list[float | list[float | None] | None]
    indices: list[int] | None = None
    texts: list[str] | None = None


class Question(msgspec.Struct, frozen=True):
    """What is asked beside the maps of some layers and heads. units: of each token the word that it belongs to, None
    for special tokens; unit: what these are. starts, ends: how many special tokens stand before and behind the source.
    beam, length_penalty, max_new_tokens: of the translation without heads, which begins with `prefix`."""

    reduce_heads: Literal["none", "mean", "max"] = "none"
    reduce_layers: Literal["none", "mean"] = "none"
    include: list[Literal["alignment", "rollout", "stats", "steps"]] = []
    top_k: int = 0
    masked: list[HeadChoice] = []
    row: RowChoice | None = None
    source_units: list[int | None] = []
    target_units: list[int | None] = []
    unit: Literal["word", "token"] = "token"
    starts: int = 0
    ends: int = 0
    beam: int = 1
    length_penalty: float = 1.0
    max_new_tokens: int = 256
    prefix: list[int] = []


class Findings(msgspec.Struct, frozen=True):
    """The answer to a question. logprob_sum: of the output tokens, in nats."""

    logprob_sum: float = 0.0
    stats: dict[str, list[list[HeadStatistics]]] | None = None
    rollout: Rollout | None = None
    alignment: Alignment | None = None
    steps: list[Step] | None = None
    ablation: Ablation | None = None
    qk: WorkedRow | None = None
