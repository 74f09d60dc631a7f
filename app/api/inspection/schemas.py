"""The fields of POST /gates, /score and /walkthrough."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from msgspec import structs

from app.api.inspection.attention_request import (
    CHOSEN_MODEL,
    TARGET_LANGUAGE,
    GivenTarget,
    Index,
    Indices,
    InspectionFields,
    TargetLanguage,
    is_all,
    list_of,
)
from app.api.inspection.encoded_arrays import EncodedArray, Encoding, encode_array
from app.api.request_fields import (
    EncodableText,
    Examples,
    ModelName,
    NonBlankText,
    doc,
    example_of,
    not_empty,
    optional,
)
from app.api.responses import Answer, Likely, Step, round_nats
from app.engine.interface import (
    GATES,
    GateName,
    GatesQuery,
    GatesResult,
    ScoreQuery,
    ScoreResult,
    Token,
    WalkthroughResult,
)
from app.errors import InvalidRequest
from models.inspection.results import GateSummary, WalkthroughStep
from models.inspection.selection import GateSelection
from models.networks.cells import CELLS, TANH, CellKind

MAX_EXPONENT = 700.0  # e to that power is still a float

GateAxis = Literal["layer", "step", "unit"]
GATE_AXES: list[GateAxis] = ["layer", "step", "unit"]

_MAX_TOP_UNITS, _LARGEST_UNIT = 64, 99_999
_GATES_TOKEN = {"id": 20, "piece": "分", "text": "分", "start": 0, "end": 1, "special": False}


_GATES = f'it takes "all" or a list of {", ".join(GATES[:-1])} and {GATES[-1]}, those that the cell has.'
_OF_CELLS = "; ".join(f"{', '.join(cell.shown)} ({kind})" for kind, cell in CELLS.items())
_TANHS = sorted({name for cell in CELLS.values() for name, bounds in cell.shown.items() if bounds == TANH})
_UNITS = f"it takes 1 to {_MAX_TOP_UNITS}, for so many that vary most, or a list of units, such as [0, 7]."


def _is_count(value: object) -> bool:
    return type(value) is int and 1 <= value <= _MAX_TOP_UNITS


Gates = Annotated[Literal["all"] | list[GateName], list_of(_GATES, names=GATES, instead=is_all)]
Units = Annotated[int | list[int], list_of(_UNITS, largest=_LARGEST_UNIT, instead=_is_count)]


class GatesRequest(InspectionFields):
    """Which gates of which units, over which text."""

    examples: ClassVar[Examples] = {
        "The update gate and the state": {"text": "分开", "gates": ["z", "h"], "units": 4},
        "Everything": {"text": "分开", "top_k": 3},
        "As bytes": {"text": "分开", "encoding": "u8"},
    }

    text: Annotated[EncodableText, not_empty("give at least one character.")] = doc(
        "The text that the model reads, character by character.", "分开"
    )
    gates: Gates = doc(
        f'"all", or some of those that the cell has: {_OF_CELLS}.',
        ["z", "h"],
        default="all",
    )
    layers: Indices = doc('"all", or the layers to return, counted from 0; -1 is the last.', [-1], default="all")
    units: Units = doc(
        "How many units, those of each layer whose state h varies most over the text; or a list of units.",
        16,
        default=16,
    )
    top_k: int = doc("Likeliest next tokens of each step.", 3, default=0, ge=0, le=10)
    encoding: Encoding = doc(
        "How arrays are written: json, or base64 of little-endian f32 (exact), u16 or u8.", "json", default="json"
    )
    decimals: int = doc("Decimals of numbers written as JSON.", 4, default=4, ge=3, le=6)
    model: ModelName | None = optional("Name of the lyricist (GET /models); null takes the only one.", "lyrics-zh")

    def query(self, max_values: int) -> GatesQuery:
        selection = GateSelection(
            gates=None if self.gates == "all" else tuple(self.gates),
            layers=None if self.layers == "all" else tuple(self.layers),
            units=self.units if isinstance(self.units, int) else tuple(self.units),
        )
        return GatesQuery(self.text, self.model, selection, self.top_k, max_values)


class GatesModel(Answer):
    """A lyricist and its kind of cell."""

    name: str = doc("Name of the lyricist.", "lyrics-zh")
    cell: CellKind = doc("Its kind of cell.", "gru")
    layers: int = doc("How many layers it has.", 1)
    hidden: int = doc("Units of each layer.", 256)
    convention: str = doc(
        "The cell's formulae, which say what a gate of 1 does.",
        "h' = (1 - z) n + z h with n = tanh(W x + b + r (U h + d)), PyTorch's: z = 1 keeps, …",
    )
    bounds: dict[GateName, tuple[float, float] | None] = doc(
        "Between which numbers each of its gates lies; null of one without bounds, such as c, and of one that left"
        " those of its cell, as an edited formula may.",
        {"r": [0, 1], "z": [0, 1], "n": [-1, 1], "h": [-1, 1]},
    )


_BYTES = ("dtype", "byte_order", "scale", "offset", "data")  # the fields of an array that is not JSON


class GateValues(EncodedArray):
    """One gate after each token of the text."""

    axes: list[GateAxis] = doc("What the dimensions are.", GATE_AXES)
    layers: list[int] = doc("Which layers these are, counted from 0.", [0])
    units: list[list[int]] = doc(
        "Which units these are, by layer; the most varied first, or as they were asked for.", [[117]]
    )

    @classmethod
    def of(cls, result: GatesResult, gate: str, request: GatesRequest) -> Self:
        values, bounds = result.values[gate], result.bounds[gate]
        array = encode_array(values, request.encoding, decimals=request.decimals, bounds=bounds)
        return cls(axes=GATE_AXES, layers=list(result.layers), units=list(map(list, result.units)), **array)


class GateSummaries(Answer):
    """Of all units of one layer, after each token."""

    layer: int = doc("Which layer, counted from 0.", 0)
    mean: dict[GateName, list[float]] = doc("The mean of each gate.", {"z": [0.61, 0.55]})
    low: dict[GateName, list[float]] = doc(
        f"The share of units at the low end: below 0.1, of {', '.join(_TANHS)} below -0.9.", {"z": [0.02, 0.04]}
    )
    high: dict[GateName, list[float]] = doc("The share of units above 0.9.", {"z": [0.11, 0.08]})
    hidden_change: list[float] = doc("The mean of |h - the h before|; before the first token h is 0.", [0.18, 0.21])

    @classmethod
    def of(cls, summary: GateSummary, decimals: int) -> Self:
        def rounded(values: list[float]) -> Any:
            return (np.round(values, decimals) + 0.0).tolist()

        parts = {"mean": summary.mean, "low": summary.low, "high": summary.high}
        shares = {part: {name: rounded(values) for name, values in gates.items()} for part, gates in parts.items()}
        return cls(layer=summary.layer, **shares, hidden_change=rounded(summary.hidden_change))


class GatesAnswer(Answer):
    """The text as the model read it, its gates, and what it expected next after each token."""

    model: GatesModel = doc(
        "What was looked into.",
        {
            "name": "lyrics-zh",
            "cell": "gru",
            "layers": 1,
            "hidden": 256,
            "convention": "h' = …",
            "bounds": {"z": [0, 1]},
        },
    )
    text: str = doc("The text that the offsets count in.", "分开")
    tokens: Sequence[Token] = doc("Its tokens, one a step.", [_GATES_TOKEN])
    gates: dict[GateName, GateValues] = doc(
        "Those that were asked for.",
        {"z": {name: value for name, value in example_of(GateValues).items() if name not in _BYTES}},
    )
    summaries: list[GateSummaries] = doc(
        "One for each layer that was asked for.",
        [{"layer": 0, "mean": {}, "low": {}, "high": {}, "hidden_change": [0.18, 0.21]}],
    )
    steps: list[Step] = doc(
        "After tokens[t], what was expected next; `logprob` and `rank` are of tokens[t + 1].",
        [{"logprob": -0.21, "rank": 1, "entropy": 1.74, "top": [example_of(Likely)]}],
    )

    @classmethod
    def of(cls, result: GatesResult, request: GatesRequest) -> Self:
        return cls(
            model=GatesModel(
                name=result.model,
                cell=result.cell,
                layers=result.depth,
                hidden=result.hidden,
                convention=result.convention,
                bounds=dict(result.bounds),
            ),
            text=result.text,
            tokens=result.tokens,
            gates={gate: GateValues.of(result, gate, request) for gate in result.values},
            summaries=[GateSummaries.of(summary, request.decimals) for summary in result.summaries],
            steps=[Step.of(step) for step in result.steps],
        )


Distribution = Literal["decoding", "network"]
_SCORE_TOKEN = {"id": 5, "piece": "▁i", "text": "i", "start": 0, "end": 1, "special": False}
_SCORED = {**_SCORE_TOKEN, "logprob": -0.12, "rank": 1, "entropy": 0.43, "top": []}


class ScoreRequest(InspectionFields):
    """A source and its translation for a translator, or a text for a lyricist."""

    examples: ClassVar[Examples] = {
        "A translation": {"source": "ich möchte ein bier", "target": "i want a beer", "top_k": 3},
        "A lyricist's text": {"text": "分开后的街道"},
    }

    source: NonBlankText | None = optional("What is translated; with `target`.", "ich möchte ein bier")
    target: NonBlankText | None = optional("The translation to be scored.", "i want a beer")
    text: Annotated[EncodableText, not_empty("give at least two characters.")] | None = optional(
        "For a lyricist: the text to be scored, alone. Its first character is given, not predicted.",
        None,
        "分开后的街道",
    )
    distribution: Distribution = doc(
        '"decoding": the probabilities by which texts are written, in which what is never written (padding,'
        ' unknown) has none; "network": those of the whole vocabulary, as `training evaluate` counts.',
        "decoding",
        default="decoding",
    )
    top_k: int = doc("Likeliest tokens of each place.", 3, default=0, ge=0, le=10)
    model: ModelName | None = optional(f"{CHOSEN_MODEL} For a `text` the only lyricist.", "everyday")
    target_language: TargetLanguage | None = optional(TARGET_LANGUAGE, "en")

    def query(self) -> ScoreQuery:
        """InvalidRequest for texts that do not go together."""
        match self.source, self.target, self.text:
            case (None, None, str()) if self.target_language is not None:
                field, message = "target_language", '"target_language" is for translators; leave it out.'
            case (None, None, str(text)) | (str(), str(text), None):
                language, by_rules = self.target_language, self.distribution == "decoding"
                return ScoreQuery(
                    text, self.source, self.model, self.top_k, by_rules=by_rules, target_language=language
                )
            case (None, None, None):
                field, message = "text", 'There is nothing to score; send a "source" and its "target" to a translator,'
                message += ' or a "text" to a lyricist.'
            case (_, None, None):
                field, message = "target", '"target" is missing; send the translation that is to be scored.'
            case (_, _, None):
                field, message = "source", '"source" is missing; send what "target" translates,'
                message += ' or send a lyricist its "text" alone.'
            case _:
                field, message = "text", '"text" stands alone, for a lyricist; leave it out,'
                message += ' or leave out "source" and "target".'
        raise InvalidRequest(message, field=field)


class ScoredToken(Token, Answer):
    """A token and what was expected in its place; all of that is null for the first token of a lyricist's text."""

    logprob: float | None = doc("Log-probability in nats of the token that came; null where none came.", -0.21)
    rank: int | None = doc("1 and the number of likelier tokens: 1 is the likeliest. Null where none came.", 1)
    entropy: float | None = doc("Entropy in nats of all that might have come.", 1.74)
    top: list[Likely] | None = doc("The `top_k` likeliest tokens, best first.", [example_of(Likely)])


class Counted(Answer):
    """What was predicted, over which the means are taken."""

    tokens: int = doc("Tokens; a translation's end token is one.", 5)
    characters: int = doc(
        "Characters (code points) of the text, spaces included; an end token has none, and neither has what was given.",
        13,
    )


class ScoreAnswer(Answer):
    """How probable the text is, token by token and as a whole. Computed in fp32."""

    model: str = doc("Name of the model.", "everyday")
    text: str = doc("The text that was scored, in which offsets count.", "i want a beer")
    distribution: Distribution = doc("As it was asked for.", "decoding")
    tokens: list[ScoredToken] = doc("Its tokens, with the end token of a translation.", [_SCORED])
    logprob: float = doc("The sum of all tokens' log-probabilities in nats.", -0.58)
    counted: Counted = doc("What was predicted.", {"tokens": 5, "characters": 13})
    perplexity: float = doc("e to the power of the nats per token.", 1.123)
    nats_per_token: float = doc("-logprob over the tokens counted.", 0.116)
    bits_per_token: float = doc("The same over ln 2.", 0.1674)
    nats_per_character: float | None = doc("-logprob over the characters counted; null if there are none.", 0.0446)
    bits_per_character: float | None = doc("The same over ln 2.", 0.0644)

    @classmethod
    def of(cls, result: ScoreResult, request: ScoreRequest) -> Self:
        surprise = -result.log_probability
        by_token = surprise / result.predicted
        by_character = surprise / result.characters if result.characters else None
        places = zip(result.tokens, result.steps, strict=True)
        return cls(
            model=result.model,
            text=result.text,
            distribution=request.distribution,
            tokens=[ScoredToken(**structs.asdict(token), **structs.asdict(Step.of(step))) for token, step in places],
            logprob=round_nats(result.log_probability),
            counted=Counted(tokens=result.predicted, characters=result.characters),
            perplexity=round(math.exp(min(by_token, MAX_EXPONENT)), 4),
            nats_per_token=round(by_token, 4),
            bits_per_token=round(by_token / math.log(2), 4),
            nats_per_character=None if by_character is None else round(by_character, 4),
            bits_per_character=None if by_character is None else round(by_character / math.log(2), 4),
        )


class WalkthroughRequest(InspectionFields):
    """Which place of which forward pass."""

    examples: ClassVar[Examples] = {
        "A place of the decoder": {
            "source": "ich möchte ein bier",
            "target": "i want a beer",
            "layer": -1,
            "head": 0,
            "position": 1,
            "values": 4,
        },
        "A place of the encoder": {"source": "ich möchte ein bier", "side": "encoder", "layer": 0, "position": 0},
    }

    source: NonBlankText = doc("The sentence that the encoder reads.", "ich möchte ein bier")
    target: GivenTarget | None = optional(
        "What the decoder is made to write; null lets it write its own translation.", "i want a beer"
    )
    side: Literal["encoder", "decoder"] = doc("Whose layers.", "decoder", default="decoder")
    layer: Index = doc("Which layer, from 0; -1 is the last.", -1, default=-1)
    head: Index = doc("Which head, from 0.", 0, default=0)
    position: Index = doc("Which token of the side's input, from 0; -1 is the last.", 1, default=-1)
    values: int = doc("So many values of each vector; `shape` says how many there are.", 8, default=8, ge=1, le=64)
    places: int = doc("So many keys and values, at most.", 64, default=64, ge=1, le=256)
    model: ModelName | None = optional(CHOSEN_MODEL, "everyday")
    target_language: TargetLanguage | None = optional(TARGET_LANGUAGE, "en")


STEP_REASONS = {
    "token embedding": "Each token of the vocabulary has a row of learnt numbers; this is where it becomes something"
    " that can be computed with.",
    "scale": "The row is made as large as the positions, so that neither drowns the other.",
    "position": "Attention looks at all places at once and would not know their order; this vector says where the token"
    " stands.",
    "sum": "From here on one vector holds what the token is and where it stands.",
    "layer input": "What the layers below have made of this place.",
    "norm": "The vector is brought to mean 0 and variance 1, and scaled by learnt numbers, so that layers above can"
    " rely on its size.",
    "query": "What this place looks for.",
    "keys": "What each place offers to be found by.",
    "values": "What each place hands over where it is looked at.",
    "scores": "How well each key answers the query; the factor keeps the sums from growing with the width of a head.",
    "masked scores": "Padding is never looked at, and the decoder never looks at what comes later.",
    "softmax": "The scores become shares that sum to 1: the row of the attention map.",
    "context": "The values, mixed by these shares: what the head brings back.",
    "heads concatenated": "Every head looks in its own way; their findings are put side by side.",
    "output projection": "The findings of all heads are mixed into one vector of the model's width.",
    "residual": "What was found is added to what was there, so that nothing is lost on the way up.",
    "widen": "Each place alone, without the others, is spread over more numbers.",
    "activation": "The only step that is not linear: without it all layers would be one.",
    "narrow": "The numbers are brought back to the model's width.",
    "final norm": "With norms before the sublayers, the sum of all layers has one of its own.",
    "logits": "Each token of the vocabulary is compared with the vector; the largest numbers fit best.",
    "probabilities": "The logits as shares that sum to 1, without the tokens that are never written.",
}


class WalkedStep(WalkthroughStep, Answer):
    """One step of the pass."""

    why: str | None = doc("What for; null if the step was edited.", "What this place looks for.")
    edited: bool = doc("Whether it is another step than that of the network as it was written.", False)
    values: list[float | None] | list[list[float | None]] = doc(  # type: ignore[assignment]  # as JSON has them
        "The first ones, or the largest where `indices` says which; null where a score is masked.", [0.12, -0.4]
    )

    @classmethod
    def of(cls, step: WalkthroughStep) -> Self:
        values = [
            [round_float32(value) for value in row] if isinstance(row, tuple) else round_float32(row)
            for row in step.values
        ]
        why = None if step.edited else STEP_REASONS[step.name]
        return cls(**structs.asdict(step) | {"values": values, "why": why})


class WalkthroughAnswer(Answer):
    """A forward pass as a story, step by step."""

    schema_: Literal["walkthrough/1"] = doc("Of this answer.", "walkthrough/1", alias="schema")
    model: str = doc("Name of the translator.", "everyday")
    side: Literal["encoder", "decoder"] = doc("Whose layers.", "decoder")
    layer: int = doc("From 0.", 1)
    head: int = doc("From 0.", 0)
    position: int = doc("From 0.", 1)
    source_text: str = doc("What the encoder read.", "ich möchte ein bier")
    target_text: str = doc("What the decoder wrote.", "i want a beer")
    forced: bool = doc("Whether the request gave it.", False)
    source_tokens: Sequence[Token] = doc("The encoder's input.", [example_of(Token)])
    input_tokens: Sequence[Token] = doc("The decoder's input, its start token first.", [example_of(Token)])
    steps: list[WalkedStep] = doc("In the order in which they are computed.", [example_of(WalkedStep)])
    edits: list[str] = doc("How the network differs from the one that was written; empty if it does not.", [])

    @classmethod
    def of(cls, result: WalkthroughResult, side: Literal["encoder", "decoder"]) -> Self:
        shown = result.walkthrough
        return cls(
            schema_="walkthrough/1",
            model=result.model,
            side=side,
            layer=shown.layer,
            head=shown.head,
            position=shown.position,
            source_text=result.source_text,
            target_text=result.target_text,
            forced=result.forced,
            source_tokens=result.source_tokens,
            input_tokens=result.input_tokens,
            steps=[WalkedStep.of(step) for step in shown.steps],
            edits=list(shown.edits),
        )


def round_float32(value: float | None) -> float | None:
    """To the seven digits of a network's float32."""
    return None if value is None else float(f"{value:.7g}") + 0.0  # no -0.0
