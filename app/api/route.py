"""The one way of a request through the API: read, identify, validate, charge, call, encode."""

from __future__ import annotations

import email.message
import json
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NoReturn
from urllib.parse import parse_qsl

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute, APIRouter
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from app.access.authorization import KeyMissing, KeyWrong
from app.api.access_control import OPEN_PATHS, caller_of, charge, identify
from app.api.errors import handle_error
from app.api.event_stream import ClientDisconnected, EventStream
from app.api.field_types import describe_value, quotable
from app.api.request_body import Upload, form_parts
from app.engine.errors import EngineError, InvalidRequest

ErrorForm = Callable[[int, dict[str, Any]], dict[str, Any]]  # a status and our own body of an error -> theirs
_OBJECT = "a JSON object as /docs shows it"
_JSON = "application/json"
_FORM = "application/x-www-form-urlencoded"
_PARTS = "multipart/form-data"
_MAX_FORM_FIELDS = 1000
_UTF8 = "The body is not UTF-8; send it as UTF-8, without compression."


class ApiRoute(APIRoute):
    """A route of our own families: JSON objects only, invalid input is 422.

    One that has a body is a function of (body, request, services) and the parameters of its path, and is called so. The
    framework documents it; its search for dependencies, its exit stacks and its validation of our own answers would
    cost as much as all the rest.
    """

    invalid_status = 422
    too_long_status = 422  # of a text that is well formed and has too many tokens or characters
    takes_forms = False
    takes_files = False  # in forms, as `Upload`s
    repeated_fields: frozenset[str] = frozenset()  # of a form or query: those that may come more than once, as a list
    error_form: ErrorForm | None = None  # how this family's clients expect an error; None: as we write ours
    key_fields: tuple[str, ...] = ()  # of the body or the query, that may hold a key; headers always may
    missing_key_status = 401
    wrong_key_status = 403
    quota_status = 429
    text_fields: tuple[str, ...] = ("q", "text", "texts", "text_list", "prompt")  # of the body: what limits count

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        if self.body_field is not None:
            return self.answer
        handler = super().get_route_handler()
        return handler if self.path in OPEN_PATHS else self._guarded(handler)

    def _guarded(self, handler: Callable[[Request], Coroutine[Any, Any, Response]]) -> Any:
        """A route without a body: it costs one request."""

        async def guarded(request: Request) -> Response:
            request.scope["route"] = self
            await identify(request, {}, self.key_fields)
            await charge(request, 1, 0)
            return await handler(request)

        return guarded

    async def answer(self, request: Request) -> Response:
        """Read, validate, call, encode. `app.api.errors` answers what this raises."""
        assert self.body_field is not None
        if request.app.state.services.gate.idle:
            fields = await self.fields_of(request)
            body = validate(self.body_field.field_info.annotation, fields)
            services = request.app.state.services
            answer = await self.endpoint(body=body, request=request, services=services, **request.path_params)
        else:
            answer = await self._charged(request, await self._charged_fields(request))
        if isinstance(answer, Response):
            return answer
        content = answer.model_dump_json(exclude_none=self.response_model_exclude_none)
        return Response(content, status_code=self.status_code or 200, media_type="application/json")

    async def fields_of(self, request: Request) -> dict[str, Any]:
        return await read_fields(
            request, takes_forms=self.takes_forms, takes_files=self.takes_files, repeated=self.repeated_fields
        )

    async def _charged_fields(self, request: Request) -> dict[str, Any]:
        """A body that nobody can read costs a request as well: of the key in a header, or else of the address."""
        try:
            return await self.fields_of(request)
        except ClientDisconnected:
            raise
        except (EngineError, HTTPException):
            with suppress(KeyMissing, KeyWrong):  # the key may stand in what cannot be read; `identify` has charged it
                await identify(request, {}, self.key_fields)
                await charge(request, 1, 0)
            raise

    async def _charged(self, request: Request, fields: dict[str, Any]) -> Any:
        """The endpoint's answer, if the request has a key that may ask and its cost fits: a request for each text.
        What is invalid costs one request; what fails costs no characters."""
        assert self.body_field is not None
        await identify(request, fields, self.key_fields)
        try:
            body = validate(self.body_field.field_info.annotation, fields)
        except RequestValidationError:
            await charge(request, 1, 0)
            raise
        texts = list(self.texts_of(body))
        characters = sum(map(len, texts))
        await charge(request, max(1, len(texts)), characters)
        services = request.app.state.services
        give_back = partial(services.gate.give_back, caller_of(request), characters)
        try:
            answer = await self.endpoint(body=body, request=request, services=services, **request.path_params)
        except Exception:
            await give_back()
            raise
        if isinstance(answer, EventStream):
            answer.on_refusal = give_back
        return answer

    def texts_of(self, body: Any) -> Iterator[str]:
        """Every text that the request wants worked on."""
        for field in self.text_fields:
            found = getattr(body, field, None)
            for each in found if isinstance(found, list) else [found]:
                if isinstance(each, str):
                    yield each


class InspectionRoute(ApiRoute):
    """A route that looks inside a model, at texts of either side."""

    text_fields = ("source", "target", "text")


class LibreTranslateRoute(ApiRoute):
    """A route that LibreTranslate's clients call: also forms and query parameters; invalid input is 400, but for
    a text that is too long."""

    invalid_status = 400
    takes_forms = True
    key_fields = ("api_key", "apiKey")  # the second: npm libretranslate
    missing_key_status = 400
    text_fields = ("q",)


def validate(model: Any, fields: dict[str, Any]) -> Any:
    """`fields` as a `model`, or what the families' errors are made of."""
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        problems = error.errors(include_url=False)
        raise RequestValidationError([{**each, "loc": ("body", *each["loc"])} for each in problems]) from None


async def read_fields(
    request: Request, *, takes_forms: bool, takes_files: bool = False, repeated: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """The fields of a body or, without one, of the query."""
    body = await _body(request.receive)
    header = request.headers.get("content-type", "")
    kind = _kind(header)
    if takes_forms and (kind == _FORM or not body):
        return _form(request.url.query, repeated) | _form(_text(body), repeated)
    if takes_forms and kind == _PARTS:
        return _parts(header, body, takes_files=takes_files)
    if kind == _JSON or kind.endswith("+json"):
        return _json(_text(body))
    raise HTTPException(
        415,
        f"The body is {quotable(header)}; send JSON with the header Content-Type: application/json"
        f"{f', or a form as {_FORM} or {_PARTS}' if takes_forms else ''}.",
    )


async def _body(receive: Receive) -> bytes:
    """As `BodyLimit` hands it over: whole."""
    chunks, more = [], True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientDisconnected  # in the middle of its body: no fault of ours
        chunks.append(message.get("body", b""))
        more = message.get("more_body", False)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _kind(header: str) -> str:
    """The media type of a Content-Type, without its parameters."""
    if header in ("", _JSON):
        return _JSON
    content_type = email.message.Message()
    content_type["content-type"] = header
    return content_type.get_content_type()


def _text(body: bytes) -> str:
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidRequest(_UTF8) from None


def _json(text: str) -> dict[str, Any]:
    if not text.strip():
        raise InvalidRequest(f"The body is empty; send {_OBJECT}.")
    try:
        fields = _decoder.decode(text)
    except json.JSONDecodeError as error:
        raise InvalidRequest(
            f"The body is not JSON ({error.msg}, line {error.lineno}, column {error.colno}); send {_OBJECT}."
        ) from None
    except RecursionError:
        raise InvalidRequest(f"The body is nested too deeply; send {_OBJECT}.") from None
    except ValueError:  # Python parses no integers of more than 4,300 digits
        raise InvalidRequest("The body holds a number with thousands of digits; send a smaller one.") from None
    if not isinstance(fields, dict):
        raise InvalidRequest(f"The body is {describe_value(fields)}; send {_OBJECT}.")
    return fields


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        repeated = next(quotable(name) for name, count in counts.items() if count > 1)
        raise InvalidRequest(f'"{repeated}" is there more than once; send it once.', field=repeated)
    return fields


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidRequest(f"The body holds {name}, which JSON does not have; send a finite number.")


def _form(text: str, repeated: frozenset[str]) -> dict[str, Any]:
    """Line ends of forms are CRLF by their standard; texts have LF."""
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_MAX_FORM_FIELDS)
    except UnicodeDecodeError:
        raise InvalidRequest(_UTF8) from None
    except ValueError:
        raise InvalidRequest(f"The form has more than {_MAX_FORM_FIELDS} fields; send fewer.") from None
    plain = [(name, value.replace("\r\n", "\n")) for name, value in pairs]
    lists = {name: [value for each, value in plain if each == name] for name in repeated}
    once = _without_repeats([pair for pair in plain if pair[0] not in repeated])
    return once | {name: values for name, values in lists.items() if values}


def _parts(header: str, body: bytes, *, takes_files: bool) -> dict[str, Any]:
    """Files are for routes that take them; elsewhere they are fields that nobody knows."""
    found: list[tuple[str, Any]] = []
    for part in form_parts(header, body, _MAX_FORM_FIELDS):
        if part.filename is None:
            found.append((part.name, _text(part.content).replace("\r\n", "\n")))
        elif takes_files and (part.filename or part.content):  # a page sends a nameless nothing for no file
            found.append((part.name, Upload(part.filename, part.content)))
    return _without_repeats(found)


_decoder = json.JSONDecoder(object_pairs_hook=_without_repeats, parse_constant=_refuse_constant)


class DirectRouting:
    """Pure ASGI, the innermost: what it does not know goes on to the framework, and so does what an operator traces
    with the framework's telemetry. Errors are answered by the same table on both ways."""

    def __init__(self, app: ASGIApp, *, routers: Sequence[APIRouter]) -> None:
        self.app = app
        self.routes: dict[tuple[str, str], ApiRoute] = {
            (method, route.path): route
            for router in routers
            for route in router.routes
            if isinstance(route, ApiRoute) and route.body_field is not None and not route.param_convertors
            for method in route.methods or ()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = self.routes.get((scope["method"], scope["path"])) if scope["type"] == "http" else None
        if route is None or scope.get("fastapi.telemetry") is not None:
            await self.app(scope, receive, send)
            return
        scope["route"] = route
        request = Request(scope, receive, send)
        try:
            request.app.state.services.engine.check_room()  # before any of it is parsed: a refusal has to be cheap
            answer = await route.answer(request)
            await answer(scope, receive, send)
        except Exception as error:
            refusal = await handle_error(request, error)
            await refusal(scope, receive, send)
