"""Errors as HTTP answers: their status, their body, and what the OpenAPI document says of them.

{"error": sentence, "code": snake_case, "field": the input at fault or null, "request_id": as in X-Request-Id}

An answer that would be too large also has "values", "limit" and "suggest"."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

import msgspec
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import iter_route_contexts
from msgspec import structs
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Scope

from app.access.authorization import KeyMissing, KeyWrong
from app.api.request_fields import doc, field_name, optional, quotable, validation_message
from app.api.responses import Answer
from app.errors import AnswerTooLarge, EngineError, EngineUnavailable, InvalidRequest, RetryLater

logger = logging.getLogger(__name__)

Statuses = Mapping[type[EngineError], int]  # of a family, where its clients expect others than `EngineError.status`
UNAVAILABLE_RETRY_AFTER_S = 2  # about the time that a device process needs to restart
INTERNAL_ERROR_MESSAGE = "This is a fault of ours, not of your request; it is in our log under this request_id."
HTTP_CODES = {
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "body_too_slow",
    413: "body_too_large",
    415: "unsupported_media_type",
}


class ErrorAnswer(Answer):
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

    @classmethod
    def from_error(cls, status: int, error: ErrorAnswer) -> Answer:
        return error


class TooLargeAnswer(ErrorAnswer):
    """Of answer_too_large alone, where a null says something too."""

    suggest: dict[str, object] | None = doc("Fields to put into the request; null: only a shorter text will.", None)


class FamilyError(Protocol):
    """The body of a family's errors, made from ours."""

    @classmethod
    def from_error(cls, status: int, error: ErrorAnswer) -> Answer: ...


LIMITED = "The queue is full, or the rate limit or quota is used up; Retry-After says when to try again."


def common_errors(work: str, result: str) -> dict[str, Meaning]:
    """The errors of every route with a body, as arguments of `documented`. work, result: a verb and a noun for what the
    devices do, such as "translate" and "translation"."""
    return {
        "s413": "The body is too large.",
        "s415": "The body is not JSON.",
        "s429": LIMITED,
        "s503": f"No device can {work} right now; Retry-After says when to try again.",
        "s504": f"The {result} took too long.",
    }


TEXT_ERRORS: dict[str, Meaning] = {  # of texts in the form of a page's translator
    "s400": "The request cannot be answered as it is: a field is wrong, a text too long, a language not there.",
    **common_errors("translate", "translation"),
}


class ErrorExample(NamedTuple):
    """An error as the OpenAPI document shows it."""

    code: str
    error: str
    field: str | None = None


_EXAMPLES: Mapping[int, ErrorExample] = {  # of most routes
    400: ErrorExample("unknown_pair", "There is no model for de → fr here. Loaded pairs: de → en, en → es.", "target"),
    401: ErrorExample(
        "key_missing",
        "This server needs an API key: send yours as the header Authorization: Bearer KEY; whoever runs the server"
        " gives them out.",
    ),
    403: ErrorExample(
        "key_wrong",
        "Invalid API key: this server does not know it, or not any more; send a valid one as the header Authorization:"
        " Bearer KEY.",
    ),
    404: ErrorExample("unknown_model", "There is no translator called 'opus' here. Loaded: everyday.", "model"),
    409: ErrorExample("model_conflict", "everyday is loaded already; reload it to read its folder again.", "name"),
    413: ErrorExample(
        "body_too_large",
        "This request's body is larger than the 2,000,000 bytes that this server takes; send it in parts.",
    ),
    415: ErrorExample(
        "unsupported_media_type", "The body is text/plain; send JSON with the header Content-Type: application/json."
    ),
    422: ErrorExample("invalid_request", "There is no field max_tokens; did you mean max_new_tokens?", "max_tokens"),
    429: ErrorExample("rate_limited", "That is more than 60 requests per minute; try again in 7 s."),
    456: ErrorExample(
        "quota_exceeded",
        "This key's quota is 500,000 characters per month, of which 12 are left; this request has 19. The next month"
        " begins at 00:00 UTC.",
    ),
    500: ErrorExample("internal_error", INTERNAL_ERROR_MESSAGE),
    503: ErrorExample("engine_unavailable", "Models are still loading; try again in a few seconds."),
    504: ErrorExample(
        "deadline_exceeded", "The answer did not come within 60 seconds; send a shorter text or try again later."
    ),
}
NO_GLOSSARY = ErrorExample("unknown_glossary", "You have no glossary with this id; GET /v3/glossaries lists yours.")
TEXT_TOO_LONG = ErrorExample(
    "text_too_long", '"q" has a text of 120,000 characters; one text may have 100,000. Send it in parts.', "q"
)

Responses = dict[int | str, dict[str, object]]
Meaning = str | tuple[str, ErrorExample]  # what a status means, and an example where the usual one does not fit


def documented(
    schema: type[FamilyError] = ErrorAnswer, common: Mapping[str, Meaning] | None = None, /, **meanings: Meaning
) -> Responses:
    """OpenAPI responses for statuses given as `s404="..."`, in addition to `common` ones or in their place; "default"
    stands for all others. schema: of the family's errors."""
    responses: Responses = {}
    for key, meaning in sorted({**(common or {}), **meanings}.items()):
        status = int(key[1:])
        text, example = (meaning, _EXAMPLES[status]) if isinstance(meaning, str) else meaning
        responses[status] = _documented_error(schema, status, text, example)
    responses["default"] = _documented_error(schema, 500, "Any other error, in the same form.", _EXAMPLES[500])
    return responses


def _documented_error(schema: type[FamilyError], status: int, text: str, example: ErrorExample) -> dict[str, object]:
    request_id = "5f0c0f7be6a84f6cbb4dd1be2a4cf2b2"
    body = schema.from_error(status, ErrorAnswer(**example._asdict(), request_id=request_id))
    content = {"application/json": {"example": msgspec.to_builtins(body)}}
    return {"model": schema, "description": text, "content": content}


def status_of(error: type[EngineError], family: Statuses) -> int:
    """The status of the nearest class that the family, or else its own row, has one for."""
    own = (family.get(kind) or vars(kind).get("status") for kind in error.__mro__)
    return next(status for status in own if status)


class HttpError(NamedTuple):
    """An engine's error as an HTTP answer."""

    status: int
    body: ErrorAnswer
    headers: dict[str, str]


def http_error(scope: Scope, error: EngineError) -> HttpError:
    """Also logs errors that are faults of the server."""
    family: Statuses = getattr(scope.get("route"), "statuses", {})
    status = status_of(type(error), family)
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
        told = {"values": error.values, "limit": error.limit, "suggest": error.suggest}
        body = TooLargeAnswer(**structs.asdict(body) | told)
    return HttpError(status, body, headers)


def error_body(scope: Scope, code: str, message: str, field: str | None = None) -> ErrorAnswer:
    """Our body of an error. The message may quote a client's text: characters that UTF-8 cannot write are replaced."""
    sentence = message.encode("utf-8", "replace").decode("utf-8")
    request_id = scope.get("state", {}).get("request_id", "")
    return ErrorAnswer(error=sentence, code=code, field=field, request_id=request_id)


def error_response(scope: Scope, status: int, body: ErrorAnswer, headers: Mapping[str, str] | None = None) -> Response:
    """`body` in the form of the route's family."""
    family: type[FamilyError] | None = getattr(scope.get("route"), "error_schema", scope.get("error_schema"))
    content = family.from_error(status, body) if family else body
    body_text = msgspec.json.encode(content) + b"\n"
    return Response(body_text, status, headers, "application/json")


def internal_error(scope: Scope) -> ErrorAnswer:
    return error_body(scope, "internal_error", INTERNAL_ERROR_MESSAGE)


def not_found(scope: Scope, message: str) -> Response:
    """404 for a stored thing that is not there (any more)."""
    return error_response(scope, 404, error_body(scope, "not_found", message))


def install_error_handlers(app: FastAPI, form: Callable[[str], type[FamilyError]]) -> None:
    """Engine errors, invalid input and wrong paths; `RequestLog` catches everything else. form: of the errors of a
    path, where there is no route to say it."""

    async def handle(request: Request, error: Exception) -> Response:
        if "route" not in request.scope:
            request.scope["error_schema"] = form(request.url.path)
        return await handle_error(request, error)

    for kind in (EngineError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, handle)


def allowed_methods(request: Request) -> list[str]:
    """The methods of every route with this path. A router's own error names the methods of the first route alone."""
    allowed = set[str]()
    for context in iter_route_contexts(request.app.routes):
        if context.original_route.matches(request.scope)[0] is not Match.NONE:
            allowed.update(context.methods or ())
    return sorted(allowed - {"HEAD"}) or ["GET"]  # of a folder of files


async def handle_error(request: Request, error: Exception) -> Response:
    """The answer to an error of these three kinds; any other is raised again."""
    if isinstance(error, HTTPException):
        status, path, message = error.status_code, quotable(request.url.path), str(error.detail)
        headers = error.headers
        if status == 404:
            message = f"There is nothing at {path}; /docs lists every path."
        elif status == 405:
            allowed = allowed_methods(request)
            message = f"{path} does not answer {quotable(request.method)}; use {' or '.join(allowed)}."
            headers = {"Allow": ", ".join([*allowed, "HEAD"] if "GET" in allowed else allowed)}
        body = error_body(request.scope, HTTP_CODES.get(status, "http_error"), message)
        return error_response(request.scope, status, body, headers)
    if isinstance(error, RequestValidationError):
        problems = error.errors()
        error = InvalidRequest(validation_message(problems), field=field_name(problems[0]))
    if not isinstance(error, EngineError):
        raise error
    request.app.state.services.metrics.refused(error)
    status, body, headers = http_error(request.scope, error)
    return error_response(request.scope, status, body, headers)
