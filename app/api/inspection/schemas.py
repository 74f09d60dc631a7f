"""The fields of POST /gates, /score and /walkthrough."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from app.api.field_types import EncodableText, ModelName, check_not_blank, describe_value, field_error
from app.api.inspection.attention_request import Index, Indices
from app.api.inspection.encoded_arrays import DECIMALS, ENCODING, EncodedArray, Encoding
from app.api.shared_schemas import TOP, Step, Token
from app.engine.interface import GateName

GateAxis = Literal["layer", "step", "unit"]
GATE_AXES: list[GateAxis] = ["layer", "step", "unit"]

_GATE_NAMES: tuple[str, ...] = get_args(GateName)
_MAX_TOP_UNITS, _MAX_UNITS, _LARGEST_UNIT = 64, 256, 99_999
_GATES_TOKEN = {"id": 20, "piece": "分", "text": "分", "start": 0, "end": 1, "special": False}


def _check_gates(value: object) -> object:
    takes = f'it takes "all" or a list of {", ".join(_GATE_NAMES[:-1])} and {_GATE_NAMES[-1]}, those that the cell has.'
    if value == "all" and isinstance(value, str):
        return value
    if not isinstance(value, list) or not value:
        raise field_error(f"is {'empty' if value == [] else describe_value(value)}; {takes}")
    for name in value:
        if name not in _GATE_NAMES:
            raise field_error(f"holds {describe_value(name)}; {takes}")
    return list(dict.fromkeys(value))


def _check_units(value: object) -> object:
    takes = f"it takes 1 to {_MAX_TOP_UNITS}, for so many that vary most, or a list of units, such as [0, 7]."
    if type(value) is int:
        if not 1 <= value <= _MAX_TOP_UNITS:
            raise field_error(f"is {describe_value(value)}; {takes}")
        return value
    if not isinstance(value, list):
        raise field_error(f"is {describe_value(value)}; {takes}")
    if not 1 <= len(value) <= _MAX_UNITS:
        raise field_error(f"has {len(value)} numbers; it takes 1 to {_MAX_UNITS}.")
    for index in value:
        if type(index) is not int or abs(index) > _LARGEST_UNIT:
            raise field_error(f"holds {describe_value(index)}; {takes}")
    return value


class GatesRequest(BaseModel):
    """Which gates of which units, over which text."""

    model_config = ConfigDict(strict=True)

    text: EncodableText = Field(description="The text that the model reads, character by character.", examples=["分开"])
    gates: Annotated[Literal["all"] | list[GateName], BeforeValidator(_check_gates)] = Field(
        default="all",
        description='"all", or some of those that the cell has: r, z, n (gru), i, f, g, o, c (lstm), n (rnn), and h.',
        examples=[["z", "h"]],
    )
    layers: Indices = Field(
        default="all", description='"all", or the layers to return, counted from 0; -1 is the last.', examples=[[-1]]
    )
    units: Annotated[int | list[int], BeforeValidator(_check_units)] = Field(
        default=16,
        description="How many units, those of each layer whose state h varies most over the text; or a list of units.",
        examples=[16],
    )
    top_k: int = Field(default=0, ge=0, le=10, description="Likeliest next tokens of each step.", examples=[3])
    encoding: Encoding = ENCODING
    decimals: int = DECIMALS
    model: ModelName | None = Field(
        default=None, description="Name of the lyricist (GET /models); null takes the only one.", examples=["lyrics-zh"]
    )

    @field_validator("text")
    @classmethod
    def _begun(cls, value: str) -> str:
        if not value:
            raise field_error("is empty; give at least one character.")
        return value


class GatesModel(BaseModel):
    """A lyricist and its kind of cell."""

    name: str = Field(description="Name of the lyricist.", examples=["lyrics-zh"])
    cell: Literal["rnn", "gru", "lstm"] = Field(description="Its kind of cell.", examples=["gru"])
    layers: int = Field(description="How many layers it has.", examples=[1])
    hidden: int = Field(description="Units of each layer.", examples=[256])
    convention: str = Field(
        description="The cell's formulae, which say what a gate of 1 does.",
        examples=["h' = (1 - z) n + z h with n = tanh(W x + b + r (U h + d)), PyTorch's: z = 1 keeps, …"],
    )


class GateValues(EncodedArray):
    """One gate after each token of the text."""

    axes: list[GateAxis] = Field(description="What the dimensions are.", examples=[GATE_AXES])
    layers: list[int] = Field(description="Which layers these are, counted from 0.", examples=[[0]])
    units: list[list[int]] = Field(
        description="Which units these are, by layer; the most varied first, or as they were asked for.",
        examples=[[[117]]],
    )


class GateSummaries(BaseModel):
    """Of all units of one layer, after each token."""

    layer: int = Field(description="Which layer, counted from 0.", examples=[0])
    mean: dict[GateName, list[float]] = Field(description="The mean of each gate.", examples=[{"z": [0.61, 0.55]}])
    low: dict[GateName, list[float]] = Field(
        description="The share of units at the low end: below 0.1, of n, g and h below -0.9.",
        examples=[{"z": [0.02, 0.04]}],
    )
    high: dict[GateName, list[float]] = Field(
        description="The share of units above 0.9.", examples=[{"z": [0.11, 0.08]}]
    )
    hidden_change: list[float] = Field(
        description="The mean of |h - the h before|; before the first token h is 0.", examples=[[0.18, 0.21]]
    )


class GatesAnswer(BaseModel):
    """The text as the model read it, its gates, and what it expected next after each token."""

    model: GatesModel = Field(
        description="What was looked into.",
        examples=[{"name": "lyrics-zh", "cell": "gru", "layers": 1, "hidden": 256, "convention": "h' = …"}],
    )
    text: str = Field(description="The text that the offsets count in.", examples=["分开"])
    tokens: list[Token] = Field(description="Its tokens, one a step.", examples=[[_GATES_TOKEN]])
    gates: dict[GateName, GateValues] = Field(
        description="Those that were asked for.",
        examples=[
            {
                "z": {
                    "axes": GATE_AXES,
                    "layers": [0],
                    "units": [[117]],
                    "encoding": "json",
                    "shape": [1, 2, 1],
                    "decimals": 4,
                    "max_abs_error": 0.00005,
                    "values": [[[0.9137], [0.0871]]],
                }
            }
        ],
    )
    summaries: list[GateSummaries] = Field(
        description="One for each layer that was asked for.",
        examples=[[{"layer": 0, "mean": {}, "low": {}, "high": {}, "hidden_change": [0.18, 0.21]}]],
    )
    steps: list[Step] = Field(
        description="After tokens[t], what was expected next; `logprob` and `rank` are of tokens[t + 1].",
        examples=[[{"logprob": -0.21, "rank": 1, "entropy": 1.74, "top": TOP}]],
    )


Distribution = Literal["decoding", "network"]
_SCORE_TOKEN = {"id": 5, "piece": "▁i", "text": "i", "start": 0, "end": 1, "special": False}
_SCORED = {**_SCORE_TOKEN, "logprob": -0.12, "rank": 1, "entropy": 0.43, "top": []}


class ScoreRequest(BaseModel):
    """A source and its translation for a translator, or a text for a lyricist."""

    model_config = ConfigDict(strict=True)

    source: Annotated[EncodableText, AfterValidator(check_not_blank)] | None = Field(
        default=None, description="What is translated; with `target`.", examples=["ich möchte ein bier"]
    )
    target: Annotated[EncodableText, AfterValidator(check_not_blank)] | None = Field(
        default=None, description="The translation to be scored.", examples=["i want a beer"]
    )
    text: EncodableText | None = Field(
        default=None,
        description="For a lyricist: the text to be scored, alone. Its first character is given, not predicted.",
        examples=[None, "分开后的街道"],
    )
    distribution: Distribution = Field(
        default="decoding",
        description='"decoding": the probabilities by which texts are written, in which what is never written (padding,'
        ' unknown) has none; "network": those of the whole vocabulary, as `training evaluate` counts.',
        examples=["decoding"],
    )
    top_k: int = Field(default=0, ge=0, le=10, description="Likeliest tokens of each place.", examples=[3])
    model: ModelName | None = Field(
        default=None,
        description="Name of the model (GET /models); null takes the only one of its kind.",
        examples=["tiny-de-en"],
    )

    @field_validator("text")
    @classmethod
    def _begun(cls, value: str | None) -> str | None:
        if value is not None and not value:
            raise field_error("is empty; give at least two characters.")
        return value


class ScoredToken(Token, Step):
    """A token and what was expected in its place; all of that is null for the first token of a lyricist's text."""


class Counted(BaseModel):
    """What was predicted, over which the means are taken."""

    tokens: int = Field(description="Tokens; a translation's end token is one.", examples=[5])
    characters: int = Field(
        description="Characters (code points) of the text, spaces included; an end token has none, and neither has what"
        " was given.",
        examples=[13],
    )


class ScoreAnswer(BaseModel):
    """How probable the text is, token by token and as a whole. Computed in fp32."""

    model: str = Field(description="Name of the model.", examples=["tiny-de-en"])
    text: str = Field(description="The text that was scored, in which offsets count.", examples=["i want a beer"])
    distribution: Distribution = Field(description="As it was asked for.", examples=["decoding"])
    tokens: list[ScoredToken] = Field(
        description="Its tokens, with the end token of a translation.", examples=[[_SCORED]]
    )
    logprob: float = Field(description="The sum of all tokens' log-probabilities in nats.", examples=[-0.58])
    counted: Counted = Field(description="What was predicted.", examples=[{"tokens": 5, "characters": 13}])
    perplexity: float = Field(description="e to the power of the nats per token.", examples=[1.123])
    nats_per_token: float = Field(description="-logprob over the tokens counted.", examples=[0.116])
    bits_per_token: float = Field(description="The same over ln 2.", examples=[0.1674])
    nats_per_character: float | None = Field(
        description="-logprob over the characters counted; null if there are none.", examples=[0.0446]
    )
    bits_per_character: float | None = Field(description="The same over ln 2.", examples=[0.0644])


MOST_VALUES, MOST_KEYS = 64, 256


def _check_target(text: str | None) -> str | None:
    if text is not None and not text.strip():
        raise field_error("is empty; leave it out to see the model's own translation.")
    return text


class WalkthroughRequest(BaseModel):
    """Which place of which forward pass."""

    model_config = ConfigDict(strict=True)

    source: Annotated[EncodableText, AfterValidator(check_not_blank)] = Field(
        description="The sentence that the encoder reads.", examples=["ich möchte ein bier"]
    )
    target: Annotated[EncodableText | None, AfterValidator(_check_target)] = Field(
        default=None,
        description="What the decoder is made to write; null lets it write its own translation.",
        examples=["i want a beer"],
    )
    side: Literal["encoder", "decoder"] = Field(default="decoder", description="Whose layers.", examples=["decoder"])
    layer: Index = Field(default=-1, description="Which layer, from 0; -1 is the last.", examples=[-1])
    head: Index = Field(default=0, description="Which head, from 0.", examples=[0])
    position: Index = Field(
        default=-1, description="Which token of the side's input, from 0; -1 is the last.", examples=[1]
    )
    values: int = Field(
        default=8,
        ge=1,
        le=MOST_VALUES,
        description="So many values of each vector; `shape` says how many there are.",
        examples=[8],
    )
    places: int = Field(default=64, ge=1, le=MOST_KEYS, description="So many keys and values, at most.", examples=[64])
    model: ModelName | None = Field(
        default=None,
        description="Name of the translator (GET /models); null takes the only one.",
        examples=["tiny-de-en"],
    )


class WalkedStep(BaseModel):
    """One step of the pass."""

    part: str = Field(description="Which part of the network.", examples=["self-attention"])
    name: str = Field(description="What is computed.", examples=["scores"])
    formula: str = Field(description="How.", examples=["s = 0.176777 · q·Kᵀ"])
    why: str = Field(description="What for.", examples=["What this place looks for."])
    shape: list[int] = Field(description="Of the whole.", examples=[[5]])
    values: list[float | None] | list[list[float | None]] = Field(
        description="The first ones, or the largest where `indices` says which; null where a score is masked.",
        examples=[[0.12, -0.4]],
    )
    indices: list[int] | None = Field(
        default=None, description="Which tokens of the vocabulary the values are of.", examples=[[5, 9]]
    )
    texts: list[str] | None = Field(default=None, description="How these read.", examples=[["beer", "ale"]])


class WalkthroughAnswer(BaseModel):
    """A forward pass as a story, step by step."""

    schema_: Literal["walkthrough/1"] = Field(alias="schema", description="Of this answer.", examples=["walkthrough/1"])
    model: str = Field(description="Name of the translator.", examples=["tiny-de-en"])
    side: Literal["encoder", "decoder"] = Field(description="Whose layers.", examples=["decoder"])
    layer: int = Field(description="From 0.", examples=[1])
    head: int = Field(description="From 0.", examples=[0])
    position: int = Field(description="From 0.", examples=[1])
    source_text: str = Field(description="What the encoder read.", examples=["ich möchte ein bier"])
    target_text: str = Field(description="What the decoder wrote.", examples=["i want a beer"])
    forced: bool = Field(description="Whether the request gave it.", examples=[False])
    source_tokens: list[Token] = Field(
        description="The encoder's input.",
        examples=[[{"id": 17, "piece": "▁bier", "text": "bier", "start": 15, "end": 19, "word": 3, "special": False}]],
    )
    input_tokens: list[Token] = Field(
        description="The decoder's input, its start token first.",
        examples=[[{"id": 17, "piece": "▁bier", "text": "bier", "start": 15, "end": 19, "word": 3, "special": False}]],
    )
    steps: list[WalkedStep] = Field(
        description="In the order in which they are computed.",
        examples=[[{"part": "self-attention", "name": "query", "values": [0.1, -0.4]}]],
    )
