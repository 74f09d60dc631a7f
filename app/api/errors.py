"""The table from errors to HTTP statuses, and the body of an error.

{"error": sentence, "code": snake_case, "field": the input at fault or null, "request_id": as in X-Request-Id}

An answer that would be too large also has "values", "limit" and "suggest"."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import NamedTuple, Protocol

import msgspec
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Scope

from app.access.authorization import KeyMissing, KeyWrong, ScopeMissing
from app.api.field_types import doc, field_name, optional, quotable, validation_message
from app.errors import (
    AnswerTooLarge,
    CheckpointRefused,
    DeadlineExceeded,
    EngineError,
    EngineFailed,
    EngineUnavailable,
    InvalidRequest,
    ModelConflict,
    RetryLater,
    TextTooLong,
    UnknownGlossary,
    UnknownModel,
    UnknownPair,
)

logger = logging.getLogger(__name__)

Statuses = Mapping[type[EngineError], int]
STATUS: Statuses = {  # a route class may have `statuses` of its own, which its clients expect
    TextTooLong: 422,  # not 400: the request is well formed, and LibreTranslate's clients treat both alike
    InvalidRequest: 422,
    UnknownPair: 400,
    UnknownModel: 404,
    UnknownGlossary: 404,
    ModelConflict: 409,
    CheckpointRefused: 422,
    RetryLater: 429,
    KeyMissing: 401,
    KeyWrong: 401,
    ScopeMissing: 403,
    EngineUnavailable: 503,
    DeadlineExceeded: 504,
    EngineFailed: 500,
    EngineError: 500,
}
UNAVAILABLE_RETRY_AFTER_S = 2  # about the time that a device process needs to restart
INTERNAL_ERROR_MESSAGE = "This is a fault of ours, not of your request; it is in our log under this request_id."
_CODES = {
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "body_too_slow",
    413: "body_too_large",
    415: "unsupported_media_type",
    507: "storage_full",
}


class ErrorAnswer(BaseModel):
    """The body of every error."""

    error: str = doc(
        "One sentence: what is wrong, where the limit is, and the way out.",
        "There is no model for de → fr here. Loaded pairs: de → en, en → es.",
    )
    code: str = doc("Stable name of the error, for programs.", "unknown_pair")
    field: str | None = doc("The input at fault, where there is one.", "target")
    request_id: str = doc(
        "Id of this request, as in the header X-Request-Id and in the server's log.", "5f0c0f7be6a84f6cbb4dd1be2a4cf2b2"
    )
    values: int | None = optional(
        "Only of answer_too_large: the numbers that the answer would hold, or more where the model has yet"
        " to write its translation.",
        589_824,
    )
    limit: int | None = optional("Only of answer_too_large: the most that one answer may hold.", 262_144)
    suggest: dict[str, object] | None = optional(
        "Only of answer_too_large: fields to put into the request, with which so many values fit; null:"
        " only a shorter text will.",
        {"encoding": "u16"},
        {"reduce": {"heads": "mean", "layers": "none"}},
        {"units": 15},
    )


class FamilyError(Protocol):
    """The body of a family's errors, made from ours."""

    @classmethod
    def from_error(cls, status: int, error: ErrorAnswer) -> BaseModel: ...


def common_errors(work: str, result: str) -> dict[str, str]:
    """For `documented`: of every route with a body, whose devices `work` to get a `result`."""
    return {
        "s413": "The body is too large.",
        "s415": "The body is not JSON.",
        "s429": "The queue is full; Retry-After says when to try again.",
        "s503": f"No device can {work} right now; Retry-After says when to try again.",
        "s504": f"The {result} took too long.",
    }


TEXT_ERRORS = {  # of texts in the form of a page's translator
    "s400": "The request cannot be answered as it is: a field is wrong, a text too long, a language not there.",
    **common_errors("translate", "translation"),
}


Responses = dict[int | str, dict[str, object]]


def documented(
    schema: type[BaseModel] = ErrorAnswer, common: Mapping[str, str] | None = None, /, **meanings: str
) -> Responses:
    """OpenAPI responses for statuses given as `s404="..."`, in addition to `common` ones or in their place; "default"
    stands for all others. schema: of the family's errors."""
    meanings = {**(common or {}), **meanings}
    texts: dict[int | str, str] = {int(status[1:]): text for status, text in sorted(meanings.items())}
    texts["default"] = "Any other error, in the same form."
    return {status: {"model": schema, "description": text} for status, text in texts.items()}


class HttpError(NamedTuple):
    """An engine's error as an HTTP answer."""

    status: int
    body: ErrorAnswer
    headers: dict[str, str]


def http_error(scope: Scope, error: EngineError) -> HttpError:
    """Also logs errors that are faults of the server."""
    family: Statuses = getattr(scope.get("route"), "statuses", {})
    status = next(statuses[kind] for kind in type(error).__mro__ for statuses in (family, STATUS) if kind in statuses)
    if status == 500:
        logger.error("request %s failed: %s", scope["state"]["request_id"], error.message, exc_info=error)
    headers = {}
    if isinstance(error, RetryLater):
        headers["Retry-After"] = str(error.retry_after_s)
    elif isinstance(error, EngineUnavailable):
        headers["Retry-After"] = str(UNAVAILABLE_RETRY_AFTER_S)
    elif isinstance(error, KeyMissing | KeyWrong) and status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="parlance"'
    body = error_body(scope, error.code, error.message, error.field)
    if isinstance(error, AnswerTooLarge):
        body.values, body.limit, body.suggest = error.values, error.limit, error.suggest
    return HttpError(status, body, headers)


def error_body(scope: Scope, code: str, message: str, field: str | None = None) -> ErrorAnswer:
    """Characters of a quoted text that UTF-8 cannot write are replaced."""
    sentence = message.encode("utf-8", "replace").decode("utf-8")
    request_id = scope.get("state", {}).get("request_id", "")
    return ErrorAnswer(error=sentence, code=code, field=field, request_id=request_id)


def error_response(scope: Scope, status: int, body: ErrorAnswer, headers: Mapping[str, str] | None = None) -> Response:
    """`body` in the form of the route's family."""
    family: type[FamilyError] | None = getattr(scope.get("route"), "error_schema", scope.get("error_schema"))
    content = family.from_error(status, body) if family else body
    return Response(msgspec.json.encode(content.model_dump(exclude_unset=True)), status, headers, "application/json")


def internal_error(scope: Scope) -> ErrorAnswer:
    return error_body(scope, "internal_error", INTERNAL_ERROR_MESSAGE)


def not_found(scope: Scope, message: str) -> Response:
    """404 for a stored thing that is not there (any more)."""
    return error_response(scope, 404, error_body(scope, "not_found", message))


def install_error_handlers(app: FastAPI, families: Mapping[str, type[FamilyError]]) -> None:
    """Engine errors, invalid input and wrong paths; `RequestLog` catches everything else. families: the form of errors
    below each of these paths, where there is no route to say it."""

    async def handle(request: Request, error: Exception) -> Response:
        if "route" not in request.scope:
            below = [path for path in families if request.url.path.startswith(f"{path}/")]
            if below:
                request.scope["error_schema"] = families[max(below, key=len)]
        return await handle_error(request, error)

    for kind in (EngineError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, handle)


async def handle_error(request: Request, error: Exception) -> Response:
    """The answer to an error of these three kinds; any other is raised again."""
    if isinstance(error, HTTPException):
        status, path, message = error.status_code, quotable(request.url.path), str(error.detail)
        if status == 404:
            message = f"There is nothing at {path}; /docs lists every path."
        elif status == 405:
            allowed = (error.headers or {}).get("Allow", "another method")
            message = f"{path} does not answer {quotable(request.method)}; use {allowed}."
        body = error_body(request.scope, _CODES.get(status, "http_error"), message)
        return error_response(request.scope, status, body, error.headers)
    if isinstance(error, RequestValidationError):
        problems = error.errors()
        error = InvalidRequest(validation_message(problems), field=field_name(problems[0]))
    if not isinstance(error, EngineError):
        raise error
    request.app.state.services.metrics.refused(error)
    status, body, headers = http_error(request.scope, error)
    return error_response(request.scope, status, body, headers)
