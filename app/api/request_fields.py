"""The base of request bodies: strict types, null as absent, and what happens to fields that a route does not have."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from app.api.field_types import quotable

_SIMILARITY = 0.8  # difflib's ratio of a misspelt name: "lenght_penalty" has 0.93, "format" and "from" 0.8
_MAX_REPORTED = 5
_MAX_COMPARED = 20  # unknown names for which a similar name is looked for: each look takes 0.15 ms
_KEY_FIELDS = {"api_key"}  # never suggested: npm libretranslate sends "apiKey", LibreTranslate's page "secret"
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# The names that other programs have for our fields; the first one that the route has is suggested.
_OTHER_NAMES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("max_tokens", "max_completion_tokens", "max_output_tokens", "max_length", "max_new_length"),
        ("max_new_tokens",),
    ),
    **dict.fromkeys(("beam", "beams", "num_beams", "beam_width", "best_of"), ("beam_size", "n")),
    **dict.fromkeys(("num_return_sequences", "n_best", "num_samples", "samples"), ("n", "alternatives")),
    **dict.fromkeys(("q", "input", "inputs", "text", "texts", "prompt", "sentence"), ("q", "source", "prompt", "text")),
    **dict.fromkeys(("from", "src", "src_lang", "source_lang", "sl"), ("source_language", "source")),
    **dict.fromkeys(("to", "tgt", "tgt_lang", "target_lang", "tl"), ("target_language", "target")),
    "source_language": ("source",),
    "target_language": ("target",),
    "translation": ("target",),
    "stop_sequences": ("stop",),
    "random_seed": ("seed",),
    "top_logprobs": ("top_k",),
}


Examples = Mapping[str, Mapping[str, object]]


class RequestFields(BaseModel):
    """Base of request bodies: strict (no number is a text, 1 is not true). null is the same as a field that is left
    out, at any depth, for every family: JavaScript and the SDKs generated from OpenAPI documents send it."""

    model_config = ConfigDict(strict=True, json_schema_extra=lambda schema, model: model.describe_nulls(schema))

    # "ignored": another protocol's clients send fields of their own. "near misses": only those that are no misspelt or
    # foreign name of a field that the request lacks are ignored. "refused": the route is our own.
    unknown_fields: ClassVar[Literal["ignored", "near misses", "refused"]] = "ignored"
    examples: ClassVar[Examples] = {}  # whole bodies for the OpenAPI document, by a summary
    takes_files: ClassVar[bool] = False  # whether it is a form with a file, an `Upload`
    starts_work: ClassVar[bool] = True  # whether a full engine refuses it before it is parsed
    charged_fields: ClassVar[tuple[str, ...]] = ("q", "text", "texts", "text_list", "prompt")

    def charged_texts(self) -> Iterator[str]:
        """Every text of the request that counts towards rate limits and quotas."""
        for field in self.charged_fields:
            value = getattr(self, field, None)
            for text in value if isinstance(value, list) else [value]:
                if isinstance(text, str):
                    yield text

    @classmethod
    def describe_nulls(cls, schema: dict[str, Any]) -> None:
        """In the OpenAPI document a field that may be left out may be null. Forms have no null."""
        for name, field in schema.get("properties", {}).items():
            if cls.takes_files or name in schema.get("required", ()) or _may_be_null(field):
                continue
            kept = {key: field.pop(key) for key in ("default", "description", "examples", "title") if key in field}
            if isinstance(kept.get("default"), dict):  # the inner fields have theirs; generators of clients refuse it
                del kept["default"]
            schema["properties"][name] = {**kept, "anyOf": [*field.pop("anyOf", []), *([field] if field else [])]}
            schema["properties"][name]["anyOf"].append({"type": "null"})

    @model_validator(mode="before")
    @classmethod
    def _check_names_and_drop_nulls(cls, fields: object) -> object:
        if not isinstance(fields, dict):
            return fields
        if cls.unknown_fields != "ignored" and not fields.keys() <= _names_of(cls):
            cls._check_names(fields)
        return {name: value for name, value in fields.items() if value is not None}

    @classmethod
    def _check_names(cls, fields: Mapping[str, object]) -> None:
        names = _names_of(cls) - _KEY_FIELDS
        problems = []
        unknown = [name for name in fields if name not in _names_of(cls)]
        for name in unknown[:_MAX_COMPARED]:
            meant = suggested_name(name, names)
            if cls.unknown_fields == "refused" or (meant is not None and meant not in fields):
                way_out = f"did you mean {meant}?" if meant else f"the fields are {', '.join(sorted(names))}."
                shown = quotable(name) or '""'
                sentence = f"There is no field {shown}; {way_out}"
                kind = PydanticCustomError("unknown_field", "{sentence}", {"sentence": sentence})
                problems.append(InitErrorDetails(type=kind, loc=(name,), input=fields[name]))
        if problems:
            problems.sort(key=lambda problem: str(problem["loc"]))
            raise ValidationError.from_exception_data(cls.__name__, problems[:_MAX_REPORTED])


class OwnRequestFields(RequestFields):
    """Base of the bodies of our own routes: a field that a route does not have is refused with the nearest name."""

    model_config = ConfigDict(extra="forbid")

    unknown_fields = "refused"


def suggested_name(name: str, names: Collection[str]) -> str | None:
    """The one of `names` that `name` is a misspelling of, or another program's word for; None where there is none."""
    spelt = _HUMP.sub("_", name[:100]).lower().replace("-", "_")
    for candidate in (spelt, *_OTHER_NAMES.get(spelt, ())):
        if candidate in names:
            return candidate
    return next(iter(get_close_matches(spelt, names, n=1, cutoff=_SIMILARITY)), None)


@cache
def _names_of(model: type[BaseModel]) -> frozenset[str]:
    """As a request spells them."""
    return frozenset(field.alias or name for name, field in model.model_fields.items())


def _may_be_null(field: Mapping[str, Any]) -> bool:
    kinds = [each.get("type") for each in field.get("anyOf", [field])]
    return "null" in kinds
