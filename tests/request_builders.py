"""Requests with their options as keyword arguments: each goes to the part of the request that has such a field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from app.engine.interface import DEFAULT_SAMPLING, GenerationRequest, TranslationOptions, TranslationRequest
from app.engine.protocol import messages as m
from app.translation import TextFormat, TextRequest
from models.decoding.options import DecodingOptions

_DECODING = frozenset(field.name for field in fields(DecodingOptions))


def _parts(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Those of `DecodingOptions`, and the others."""
    decoding = {name: value for name, value in options.items() if name in _DECODING}
    return decoding, {name: value for name, value in options.items() if name not in _DECODING}


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


def changed(request: Any, **options: Any) -> Any:
    """The request with other options, wherever in it they are."""
    if isinstance(request, TranslationRequest | TextRequest):
        own = {name: value for name, value in options.items() if name in request.__slots__}
        decoding, others = _parts({name: value for name, value in options.items() if name not in own})
        inner = replace(request.options, decoding=replace(request.options.decoding, **decoding), **others)
        return replace(request, **{"options": inner, **own})
    decoding, others = _parts(options)
    return replace(request, decoding=replace(request.decoding, **decoding), **others)
