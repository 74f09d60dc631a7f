"""The one table from what went wrong to a status, and the one body that says so.

{"error": sentence, "code": snake_case, "field": the input at fault or null, "request_id": as in X-Request-Id}

and of an answer that would be too large also "values", "limit" and "suggest".
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, NamedTuple

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.types import Scope

from app.access.authorization import KeyMissing, KeyWrong, QuotaExceeded, RateLimited, ScopeMissing
from app.api.field_types import field_name, quotable, validation_message
from app.api.responses import JsonResponse
from app.engine.errors import (
    AnswerTooLarge,
    CheckpointRefused,
    DeadlineExceeded,
    EngineError,
    EngineFailed,
    EngineUnavailable,
    InvalidRequest,
    ModelConflict,
    Overloaded,
    TextTooLong,
    UnknownGlossary,
    UnknownModel,
    UnknownPair,
)

logger = logging.getLogger(__name__)

STATUS: Mapping[type[EngineError], int] = {
    TextTooLong: 422,  # it is well formed, and no client of LibreTranslate tells it from 400; or `too_long_status`
    InvalidRequest: 422,  # or what the route's own family says: `JsonRoute.invalid_status`
    UnknownPair: 400,
    UnknownModel: 404,
    UnknownGlossary: 404,
    ModelConflict: 409,
    CheckpointRefused: 422,
    Overloaded: 429,
    KeyMissing: 401,
    KeyWrong: 403,
    ScopeMissing: 403,
    RateLimited: 429,
    QuotaExceeded: 429,
    EngineUnavailable: 503,
    DeadlineExceeded: 504,
    EngineFailed: 500,
    EngineError: 500,
}
_OF_THE_FAMILY: Mapping[type[EngineError], str] = {  # attributes of a route class that say otherwise
    TextTooLong: "too_long_status",
    InvalidRequest: "invalid_status",
    KeyMissing: "missing_key_status",
    KeyWrong: "wrong_key_status",
    QuotaExceeded: "quota_status",
}
UNAVAILABLE_RETRY_AFTER_S = 2  # about what a device process needs to come back
INTERNAL_ERROR_MESSAGE = "This is a fault of ours, not of your request; it is in our log under this request_id."
_CODES = {
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    413: "body_too_large",
    415: "unsupported_media_type",
    507: "storage_full",
}


class ErrorAnswer(BaseModel):
    """The body of every error."""

    error: str = Field(
        description="One sentence: what is wrong, where the limit is, and the way out.",
        examples=["There is no model for de → fr here. Loaded pairs: de → en, en → es."],
    )
    code: str = Field(description="Stable name of the error, for programs.", examples=["unknown_pair"])
    field: str | None = Field(description="The input at fault, where there is one.", examples=["target"])
    request_id: str = Field(
        description="Id of this request, as in the header X-Request-Id and in the server's log.",
        examples=["5f0c0f7be6a84f6cbb4dd1be2a4cf2b2"],
    )
    values: int | None = Field(
        default=None,
        description="Only of answer_too_large: the numbers that the answer would hold, or more where the model has yet"
        " to write its translation.",
        examples=[589_824],
    )
    limit: int | None = Field(
        default=None, description="Only of answer_too_large: the most that one answer may hold.", examples=[262_144]
    )
    suggest: dict[str, Any] | None = Field(
        default=None,
        description="Only of answer_too_large: fields to put into the request, with which so many values fit; null:"
        " only a shorter text will.",
        examples=[{"encoding": "u16"}, {"reduce": {"heads": "mean", "layers": "none"}}, {"units": 15}],
    )


INSPECTION_ERRORS: Mapping[str, str] = {  # whatever is looked at, for `documented`
    "s413": "The body is too large.",
    "s415": "The body is not JSON.",
    "s429": "The queue is full; Retry-After says when to try again.",
    "s503": "No device can answer right now; Retry-After says when to try again.",
    "s504": "The answer took too long.",
}


def documented(**meanings: str) -> dict[int | str, dict[str, object]]:
    """OpenAPI responses for statuses given as `s404="..."`; "default" stands for all others."""
    return documented_as(ErrorAnswer, **meanings)


def documented_as(form: type[BaseModel], **meanings: str) -> dict[int | str, dict[str, object]]:
    """The same of a family whose errors have another body."""
    texts: dict[int | str, str] = {int(status[1:]): text for status, text in meanings.items()}
    texts["default"] = "Any other error, in the same form."
    return {status: {"model": form, "description": text} for status, text in texts.items()}


class HttpError(NamedTuple):
    """A domain error in HTTP's terms."""

    status: int
    code: str
    message: str
    field: str | None
    headers: dict[str, str]
    more: dict[str, Any]


def http_error(scope: Scope, error: EngineError) -> HttpError:
    """Also logs what is a fault of ours."""
    status = next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
    theirs = next((_OF_THE_FAMILY[kind] for kind in type(error).__mro__ if kind in _OF_THE_FAMILY), "")
    status = getattr(scope.get("route"), theirs, status) if theirs else status
    if status == 500:
        logger.error("request %s failed: %s", scope["state"]["request_id"], error.message, exc_info=error)
    headers = {}
    if isinstance(error, Overloaded | RateLimited | QuotaExceeded):
        headers["Retry-After"] = str(error.retry_after_s)
    elif isinstance(error, EngineUnavailable):
        headers["Retry-After"] = str(UNAVAILABLE_RETRY_AFTER_S)
    elif isinstance(error, KeyMissing | KeyWrong) and status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="parlance"'
    more: dict[str, Any] = {}
    if isinstance(error, AnswerTooLarge):
        more = {"values": error.values, "limit": error.limit, "suggest": error.suggest}
    return HttpError(status, error.code, error.message, error.field, headers, more)


def error_body(scope: Scope, code: str, message: str, field: str | None = None) -> dict[str, str | None]:
    """An error in our form. Whatever is quoted in the message becomes encodable on the way."""
    return {
        "error": message.encode("utf-8", "replace").decode("utf-8"),
        "code": code,
        "field": field,
        "request_id": scope.get("state", {}).get("request_id", ""),
    }


def error_response(
    scope: Scope,
    status: int,
    code: str,
    message: str,
    *,
    field: str | None = None,
    headers: Mapping[str, str] | None = None,
    more: Mapping[str, Any] | None = None,
) -> JsonResponse:
    """more: fields that this error has beside the four of all. Clients of other services get it in their own form."""
    body = {**error_body(scope, code, message, field), **(more or {})}
    if (form := getattr(type(scope.get("route")), "error_form", None)) is not None:
        body = form(status, body)
    return JsonResponse(body, status_code=status, headers=headers)


def install_error_handlers(app: FastAPI) -> None:
    """Answer domain errors, invalid input and wrong paths; what else escapes is `RequestIds`' to catch."""
    for kind, handler in _HANDLERS.items():
        app.add_exception_handler(kind, handler)


async def handle_error(request: Request, error: Exception) -> JsonResponse:
    """What the framework would answer with these handlers; whatever they do not know is raised again."""
    handler = next((handler for kind, handler in _HANDLERS.items() if isinstance(error, kind)), None)
    if handler is None:
        raise error
    return await handler(request, error)


async def _engine_error(request: Request, error: Exception) -> JsonResponse:
    assert isinstance(error, EngineError)
    request.app.state.services.metrics.refused(error)
    case = http_error(request.scope, error)
    return error_response(
        request.scope, case.status, case.code, case.message, field=case.field, headers=case.headers, more=case.more
    )


async def _validation_error(request: Request, error: Exception) -> JsonResponse:
    assert isinstance(error, RequestValidationError)
    problems = error.errors()
    return await _engine_error(request, InvalidRequest(validation_message(problems), field=field_name(problems[0])))


async def _http_error(request: Request, error: Exception) -> JsonResponse:
    assert isinstance(error, HTTPException)
    status, path, headers = error.status_code, quotable(request.url.path), error.headers
    message = str(error.detail)
    if status == 404:
        message = f"There is nothing at {path}; /docs lists every path."
    elif status == 405:
        allowed = (headers or {}).get("Allow", "another method")
        message = f"{path} does not answer {quotable(request.method)}; use {allowed}."
    return error_response(request.scope, status, _CODES.get(status, "http_error"), message, headers=headers)


_HANDLERS: Mapping[type[Exception], Callable[[Request, Exception], Coroutine[Any, Any, JsonResponse]]] = {
    EngineError: _engine_error,
    RequestValidationError: _validation_error,
    HTTPException: _http_error,
}
