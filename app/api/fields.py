"""Types of request fields that several families share, with refusals in our words."""

from __future__ import annotations

import re
from typing import Annotated, Any

from fastapi import Path
from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from app.api.wording import value_shown

_MAX_NAME_CHARACTERS = 200
_NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")


def refusal(predicate: str) -> PydanticCustomError:
    """A validation error in a sentence of its own, whose subject is the field: "prompt" + `predicate`."""
    # Handed over as a value: braces in quoted text would be read as a template.
    return PydanticCustomError("refused", "{predicate}", {"predicate": predicate})


def sound(text: str) -> str:
    """`text` if it has neither half characters, which no encoding can write, nor NUL, which ends texts elsewhere."""
    if "\0" in text:
        raise refusal("holds the character NUL (\\u0000); leave it out.")
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            half = f"\\u{ord(text[error.start]):04x}"
            raise refusal(f"holds half a character ({half}, a lone surrogate); send whole ones.") from None
    return text


def _model_name(text: str) -> str:
    """Checked before it is looked up, so that no message has to quote a megabyte."""
    if not 1 <= len(text) <= _MAX_NAME_CHARACTERS:
        raise refusal(f"has {len(text):,} characters; names of models (GET /models) have 1 to {_MAX_NAME_CHARACTERS}.")
    return text


SoundText = Annotated[str, AfterValidator(sound)]
ModelName = Annotated[SoundText, AfterValidator(_model_name)]
KeyField = Annotated[
    Any,  # what it holds is the gate's to judge
    Field(
        description="Your key, where this server asks for one; it may come as a header as well.",
        examples=["plk_9hK2mQ7xTzE4bWc1"],
    ),
]
PathName = Annotated[ModelName, Path(description="Name of a folder among the checkpoints.", examples=["tiny-de-en"])]


def text_or_texts(value: Any) -> Any:
    """Before pydantic tries the union: its report on each branch says less than one sentence."""
    items = value if isinstance(value, list) else [value]
    for item in items:
        if not isinstance(item, str):
            inside = "holds" if isinstance(value, list) else "is"
            raise refusal(f"{inside} {value_shown(item)}; it takes a text or a list of texts.")
        sound(item)
    return value


def as_number(value: Any) -> Any:
    """Forms and query parameters have no numbers, only their digits."""
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        return float(value) if "." in value else int(value)
    return value


def as_truth(value: Any) -> Any:
    """Forms and query parameters have no booleans, only their names."""
    return {"true": True, "false": False}.get(value.lower(), value) if isinstance(value, str) else value


def filled(text: str) -> str:
    """`text` if it has more than white space."""
    if not text.strip():
        raise refusal("is empty; send at least one character that is not white space.")
    return text
