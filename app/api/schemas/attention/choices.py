"""Which parts of a translator are meant: kinds of attention, layers, heads, rows."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from app.api.fields import refusal
from app.api.wording import value_shown
from app.engine.look_jobs import AttentionKind

_MAX_INDICES, LARGEST_INDEX = 256, 9999
KINDS: tuple[AttentionKind, ...] = ("encoder", "decoder", "cross")
PARTS = ("alignment", "rollout", "stats", "steps")
Part = Literal["alignment", "rollout", "stats", "steps"]


def _all_or_indices(value: object) -> object:
    """Said in one sentence here: pydantic would report on each branch of the union."""
    if value == "all" and isinstance(value, str):
        return value
    takes = 'it takes "all" or a list of whole numbers, such as [0, 1] or [-1] for the last.'
    if not isinstance(value, list):
        raise refusal(f"is {value_shown(value)}; {takes}")
    if not 1 <= len(value) <= _MAX_INDICES:
        raise refusal(f"has {len(value)} numbers; it takes 1 to {_MAX_INDICES}.")
    for index in value:
        if type(index) is not int or abs(index) > LARGEST_INDEX:
            raise refusal(f"holds {value_shown(index)}; {takes}")
    return value


def _known(names: tuple[str, ...], *, empty: bool) -> BeforeValidator:
    shown = ", ".join(f'"{name}"' for name in names[:-1]) + f' and "{names[-1]}"'

    def checked(value: object) -> object:
        takes = f"it takes a list of {shown}."
        if not isinstance(value, list) or not (value or empty):
            raise refusal(f"is {'empty' if value == [] else value_shown(value)}; {takes}")
        for name in value:
            if name not in names:
                raise refusal(f"holds {value_shown(name)}; {takes}")
        return list(dict.fromkeys(value))

    return BeforeValidator(checked)


Indices = Annotated[Literal["all"] | list[int], BeforeValidator(_all_or_indices)]
Kinds = Annotated[list[AttentionKind], _known(KINDS, empty=False)]
Parts = Annotated[list[Part], _known(PARTS, empty=True)]
Index = Annotated[int, Field(ge=-LARGEST_INDEX, le=LARGEST_INDEX)]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True)


class HeadChoice(_Strict):
    """One attention head. Numbers count from 0; negative ones from the end."""

    kind: AttentionKind = Field(description='"encoder", "decoder" or "cross".', examples=["cross"])
    layer: Index = Field(description="Its layer; -1 is the last.", examples=[-1])
    head: Index = Field(description="Its number in the layer; -1 is the last.", examples=[0])


class RowChoice(HeadChoice):
    """One query of one head."""

    row: Index = Field(description="Which query: a source token, or a step of the decoder.", examples=[0])


class Reduction(_Strict):
    """Fewer numbers: what is taken of the chosen heads and layers."""

    heads: Literal["none", "mean", "max"] = Field(
        default="none",
        description='"mean" of the chosen heads, or their "max", whose rows do not sum to 1.',
        examples=["mean"],
    )
    layers: Literal["none", "mean"] = Field(
        default="none", description='"mean" of the chosen layers.', examples=["none"]
    )


class Search(_Strict):
    """How the model's own translation is looked for."""

    beam_size: int | None = Field(
        default=None, ge=1, le=64, description="Beam width; null: the server's.", examples=[4]
    )
    length_penalty: float | None = Field(
        default=None,
        ge=-10,
        le=10,
        allow_inf_nan=False,
        description="Scores are divided by length to this power; null: the server's.",
        examples=[1.0],
    )
    max_new_tokens: int | None = Field(
        default=None, ge=1, description="Tokens at most; null: twice the source and 20.", examples=[100]
    )
