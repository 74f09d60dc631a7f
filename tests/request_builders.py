"""Requests with their options as keyword arguments: each goes to the part of the request that has such a field."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import msgspec

from app.engine.interface import (
    DEFAULT_SAMPLING,
    AttentionQuery,
    GatesQuery,
    GenerationRequest,
    TranslationOptions,
    TranslationRequest,
    WalkthroughQuery,
)
from app.engine.protocol import messages as m
from app.translation import TextFormat, TextRequest
from models.decoding.options import DecodingOptions
from models.inspection.selection import AttentionSelection, GateSelection, WalkthroughFocus

_DECODING = frozenset(field.name for field in fields(DecodingOptions))


def _split(names: Collection[str], options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options of these names, and the others."""
    own = {name: value for name, value in options.items() if name in names}
    return own, {name: value for name, value in options.items() if name not in own}


def _parts(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The keyword arguments split into those of `DecodingOptions` and the rest."""
    return _split(_DECODING, options)


def translation_options(
    source_language: str = "de", target_language: str = "en", model: str | None = None, **options: Any
) -> TranslationOptions:
    decoding, others = _parts(options)
    return TranslationOptions(source_language, target_language, model, decoding=DecodingOptions(**decoding), **others)


def translation_request(
    text: str,
    source_language: str = "de",
    target_language: str = "en",
    model: str | None = None,
    *,
    required: tuple[tuple[str, ...], ...] = (),
    **options: Any,
) -> TranslationRequest:
    return TranslationRequest(text, translation_options(source_language, target_language, model, **options), required)


def text_request(
    text: str,
    source_language: str = "de",
    target_language: str = "en",
    model: str | None = None,
    *,
    format: TextFormat = "text",  # noqa: A002 - the field's name
    glossary: Mapping[str, str] | None = None,
    split: bool = True,
    **options: Any,
) -> TextRequest:
    translation = translation_options(source_language, target_language, model, **options)
    return TextRequest(text, translation, format, glossary or {}, split)


def generation_request(prompt: str, model: str | None = None, **options: Any) -> GenerationRequest:
    decoding, others = _parts(options)
    return GenerationRequest(prompt, model, decoding=replace(DEFAULT_SAMPLING, **decoding), **others)


def decode_message(
    number: int,
    model: str,
    source: Sequence[int],
    prefix: Sequence[int],
    deadline: float,
    max_new_tokens: int,
    **options: Any,
) -> m.Decode:
    """Without log-probabilities and streamed tokens, unless the options name them."""
    decoding, others = _parts({"scores": False, "streamed": False, **options})
    made = DecodingOptions(max_new_tokens=max_new_tokens, **decoding)
    return m.Decode(number, model, list(source), list(prefix), deadline, made, **others)


def attention_query(
    source: str | None, target: str | None = None, model: str | None = None, **options: Any
) -> AttentionQuery:
    selection, others = _split(AttentionSelection.__struct_fields__, options)
    return AttentionQuery(
        source=source, target=target, model=model, selection=AttentionSelection(**selection), **others
    )


def walkthrough_query(
    source: str, target: str | None = None, model: str | None = None, **focus: Any
) -> WalkthroughQuery:
    return WalkthroughQuery(source=source, target=target, model=model, focus=WalkthroughFocus(**focus))


def gates_query(text: str, model: str | None = None, **options: Any) -> GatesQuery:
    selection, others = _split(GateSelection.__struct_fields__, options)
    return GatesQuery(text, model, GateSelection(**selection), **others)


def inspect_attention(
    number: int,
    model: str,
    source: list[int],
    inputs: list[int],
    outputs: list[int],
    **options: Any,
) -> m.InspectAttention:
    """Of cross-attention alone, unless the options name other kinds."""
    selection, others = _split(AttentionSelection.__struct_fields__, {"kinds": ("cross",), **options})
    chosen = AttentionSelection(**selection)
    return m.InspectAttention(number, model, source, inputs, outputs, chosen, **others)


def changed(request: Any, **options: Any) -> Any:
    """The request with other options, wherever in it they are."""
    own = {name: value for name, value in options.items() if name in {field.name for field in fields(request)}}
    inner = {name: value for name, value in options.items() if name not in own}
    if isinstance(request, TranslationRequest | TextRequest):
        decoding, others = _parts(inner)
        own["options"] = replace(request.options, decoding=replace(request.options.decoding, **decoding), **others)
    elif isinstance(request, GenerationRequest):
        own["decoding"] = replace(request.decoding, **inner)
    elif isinstance(request, WalkthroughQuery):
        own["focus"] = msgspec.structs.replace(request.focus, **inner)
    else:
        own["selection"] = msgspec.structs.replace(request.selection, **inner)
    return replace(request, **own)
