"""The fields of POST /gates."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from app.api.encoding import Encoding
from app.api.fields import ModelName, SoundText, refusal
from app.api.schemas.attention.choices import Indices
from app.api.schemas.attention.tokens import Token
from app.api.schemas.encoding import DECIMALS, ENCODING, EncodedArray
from app.api.schemas.expectations import TOP, Step
from app.api.wording import value_shown
from app.engine.insights import GateName

GateAxis = Literal["layer", "step", "unit"]
GATE_AXES: list[GateAxis] = ["layer", "step", "unit"]

_NAMES: tuple[str, ...] = get_args(GateName)
_MAX_TOP_UNITS, _MAX_UNITS, _LARGEST_INDEX = 64, 256, 99_999
_TOKEN = {"id": 20, "piece": "分", "text": "分", "start": 0, "end": 1, "special": False}


def _all_or_gates(value: object) -> object:
    takes = f'it takes "all" or a list of {", ".join(_NAMES[:-1])} and {_NAMES[-1]}, those that the cell has.'
    if value == "all" and isinstance(value, str):
        return value
    if not isinstance(value, list) or not value:
        raise refusal(f"is {'empty' if value == [] else value_shown(value)}; {takes}")
    for name in value:
        if name not in _NAMES:
            raise refusal(f"holds {value_shown(name)}; {takes}")
    return list(dict.fromkeys(value))


def _count_or_indices(value: object) -> object:
    takes = f"it takes 1 to {_MAX_TOP_UNITS}, for so many that vary most, or a list of units, such as [0, 7]."
    if type(value) is int:
        if not 1 <= value <= _MAX_TOP_UNITS:
            raise refusal(f"is {value_shown(value)}; {takes}")
        return value
    if not isinstance(value, list):
        raise refusal(f"is {value_shown(value)}; {takes}")
    if not 1 <= len(value) <= _MAX_UNITS:
        raise refusal(f"has {len(value)} numbers; it takes 1 to {_MAX_UNITS}.")
    for index in value:
        if type(index) is not int or abs(index) > _LARGEST_INDEX:
            raise refusal(f"holds {value_shown(index)}; {takes}")
    return value


class GatesRequest(BaseModel):
    """Which gates of which units, over which text."""

    model_config = ConfigDict(strict=True)

    text: SoundText = Field(description="The text that the model reads, character by character.", examples=["分开"])
    gates: Annotated[Literal["all"] | list[GateName], BeforeValidator(_all_or_gates)] = Field(
        default="all",
        description='"all", or some of those that the cell has: r, z, n (gru), i, f, g, o, c (lstm), n (rnn), and h.',
        examples=[["z", "h"]],
    )
    layers: Indices = Field(
        default="all", description='"all", or the layers to return, counted from 0; -1 is the last.', examples=[[-1]]
    )
    units: Annotated[int | list[int], BeforeValidator(_count_or_indices)] = Field(
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
            raise refusal("is empty; give at least one character.")
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
    tokens: list[Token] = Field(description="Its tokens, one a step.", examples=[[_TOKEN]])
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
