"""Schemas that several families share: tokens, predictions and timings."""

from __future__ import annotations

import msgspec
from pydantic import BaseModel

from app.api.field_types import doc, example_of
from app.engine.interface import TokenExpectation, Usage
from app.engine.output.text_stream import WrittenToken
from app.errors import InvalidRequest
from models.decoding.options import DecodingOptions, OptionError

NATS_DECIMALS = 7  # 2,000 numbers, rounded so, still add up to their sum within 1e-4


def decoding_options(request: BaseModel, **changes: float | None) -> DecodingOptions:
    """Copies the request's fields whose names are fields of `DecodingOptions` too, and adds `changes`; a field that is
    renamed on one side only is not copied. Raises InvalidRequest for options that contradict one another."""
    options = {name: value for name, value in vars(request).items() if name in DecodingOptions.__dataclass_fields__}
    options.update(changes)
    try:
        return DecodingOptions(**options)
    except OptionError as error:
        raise InvalidRequest(str(error), field=error.field) from None


class Likely(BaseModel):
    """A token that might have come."""

    id: int = doc("Number in the vocabulary.", 21)
    piece: str = doc("How the vocabulary writes it.", "开")
    text: str = doc("How it reads by itself.", "开")
    logprob: float = doc("Its log-probability in nats.", -0.21)


class Step(BaseModel):
    """What was expected at one place."""

    logprob: float | None = doc("Log-probability in nats of the token that came; null where none came.", -0.21)
    rank: int | None = doc("1 and the number of likelier tokens: 1 is the likeliest. Null where none came.", 1)
    entropy: float | None = doc("Entropy in nats of all that might have come.", 1.74)
    top: list[Likely] | None = doc("The `top_k` likeliest tokens, best first.", [example_of(Likely)])

    @staticmethod
    def fields_of(step: TokenExpectation | None) -> dict[str, object]:
        """The fields of a step as a dictionary, all null where the token was given. An answer has thousands of steps,
        and to make a pydantic model of each would take as long as the forward pass."""
        if step is None:
            return {"logprob": None, "rank": None, "entropy": None, "top": None}
        return {
            "logprob": None if step.log_probability is None else round_nats(step.log_probability),
            "rank": step.rank,
            "entropy": round_nats(step.entropy),
            "top": [
                {"id": each.id, "piece": each.piece, "text": each.text, "logprob": round_nats(each.logprob)}
                for each in step.top
            ],
        }


class Token(BaseModel):
    """One token of the model's vocabulary."""

    id: int = doc("Number in the vocabulary.", 17)
    piece: str = doc("How the vocabulary writes it.", "▁bier")
    text: str = doc("How it reads.", "bier")
    start: int | None = doc("First character (code point) in the text, from 0; null for special tokens.", 15)
    end: int | None = doc("Character after the last; text[start:end] is the token. Null for special tokens.", 19)
    word: int | None = doc("Which word of the text it belongs to, from 0; null for special tokens.", 3)
    special: bool = doc("Whether it stands for no text (begin, end, unknown).", False)


class WrittenTokenAnswer(BaseModel):
    """One token that was written."""

    id: int = doc("Its number in the vocabulary.", 17)
    text: str = doc(
        'What it added to the text. A character of several tokens stands with the last of them: "" for the'
        " others. A token that a stop text begins in keeps the part before it.",
        "后",
    )
    logprob: float = doc("Natural logarithm of its probability, rounded to 7 decimals.", -1.25)

    @staticmethod
    def fields_of(token: WrittenToken) -> dict[str, object]:
        """The fields of a token as a dictionary; a pydantic model of each token would slow down every answer."""
        return {"id": token.id, "text": token.text, "logprob": round_nats(token.log_probability)}


def usage_fields(usage: Usage, read_tokens: str) -> dict[str, object]:
    """The fields `usage` and `timing` of a stream's last event. Times count from the request's admission. read_tokens:
    the name of the field for the tokens that the model has read."""
    times = {"queued_ms": usage.queued_s, "first_token_ms": usage.first_token_s, "total_ms": usage.total_s}
    return {
        "usage": {read_tokens: usage.read_tokens, "new_tokens": usage.new_tokens},
        "timing": {name: round(1000 * seconds, 3) for name, seconds in times.items() if seconds is not None},
    }


def round_nats(value: float) -> float:
    return round(value, NATS_DECIMALS) + 0.0  # no -0.0


def round_floats(value: object, decimals: int) -> object:
    """`value` as JSON has it, with every float rounded, and structs and named tuples as objects."""
    if isinstance(value, float):
        return round(value, decimals) + 0.0
    if isinstance(value, msgspec.Struct):
        value = msgspec.structs.asdict(value)
    elif as_dict := getattr(value, "_asdict", None):
        value = as_dict()
    if isinstance(value, dict):
        return {name: round_floats(each, decimals) for name, each in value.items()}
    return [round_floats(each, decimals) for each in value] if isinstance(value, list | tuple) else value
