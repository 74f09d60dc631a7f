"""How a body becomes a JSON object: strictly, and with a sentence for each way in which it can fail to."""

from __future__ import annotations

import email.message
import json
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn
from urllib.parse import parse_qsl

from fastapi import Request
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from app.api.disconnect import ClientLeft
from app.api.wording import shown, value_shown
from app.engine.errors import InvalidRequest

_OBJECT = "a JSON object as /docs shows it"
_FORM = "application/x-www-form-urlencoded"
_MAX_FORM_FIELDS = 1000
_UTF8 = "The body is not UTF-8; send it as UTF-8, without compression."


class JsonRoute(APIRoute):
    """A route of our own families: JSON objects only, invalid input is 422."""

    invalid_status = 422
    takes_forms = False

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def read_and_handle(request: Request) -> Response:
            if self.body_field is not None:
                request = _ReadRequest(request, await _read(request, takes_forms=self.takes_forms))
            return await handle(request)

        return read_and_handle


class LibreTranslateRoute(JsonRoute):
    """A route that LibreTranslate's clients call: also forms and query parameters; invalid input is 400, but for
    a text that is too long."""

    invalid_status = 400
    takes_forms = True


class _ReadRequest(Request):
    """A request whose body was read already; the framework is told that it is JSON, whatever it came as."""

    def __init__(self, request: Request, fields: dict[str, Any]) -> None:
        headers = [header for header in request.scope["headers"] if header[0] != b"content-type"]
        headers.append((b"content-type", b"application/json"))
        super().__init__({**request.scope, "headers": headers}, request.receive)
        self._fields = fields

    async def body(self) -> bytes:
        return b"{}"

    async def json(self) -> Any:
        return self._fields


async def _read(request: Request, *, takes_forms: bool) -> dict[str, Any]:
    try:
        body = await request.body()
    except ClientDisconnect:
        raise ClientLeft from None  # in the middle of its body: no fault of ours
    header = request.headers.get("content-type", "")
    content_type = email.message.Message()
    content_type["content-type"] = header or "application/json"
    kind = content_type.get_content_type()
    if takes_forms and (kind == _FORM or not body):
        return _form(request.url.query) | _form(_text(body))
    if kind == "application/json" or kind.endswith("+json"):
        return _json(_text(body))
    raise HTTPException(
        415,
        f"The body is {shown(header)}; send JSON with the header Content-Type: application/json"
        f"{f', or a form as {_FORM}' if takes_forms else ''}.",
    )


def _text(body: bytes) -> str:
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidRequest(_UTF8) from None


def _json(text: str) -> dict[str, Any]:
    if not text.strip():
        raise InvalidRequest(f"The body is empty; send {_OBJECT}.")
    try:
        fields = json.loads(text, object_pairs_hook=_without_repeats, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise InvalidRequest(
            f"The body is not JSON ({error.msg}, line {error.lineno}, column {error.colno}); send {_OBJECT}."
        ) from None
    except RecursionError:
        raise InvalidRequest(f"The body is nested too deeply; send {_OBJECT}.") from None
    except ValueError:  # Python parses no integers of more than 4,300 digits
        raise InvalidRequest("The body holds a number with thousands of digits; send a smaller one.") from None
    if not isinstance(fields, dict):
        raise InvalidRequest(f"The body is {value_shown(fields)}; send {_OBJECT}.")
    return fields


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        repeated = next(shown(name) for name, count in counts.items() if count > 1)
        raise InvalidRequest(f'"{repeated}" is there more than once; send it once.', field=repeated)
    return fields


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidRequest(f"The body holds {name}, which JSON does not have; send a finite number.")


def _form(text: str) -> dict[str, Any]:
    """Line ends of forms are CRLF by their standard; texts have LF."""
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_MAX_FORM_FIELDS)
    except UnicodeDecodeError:
        raise InvalidRequest(_UTF8) from None
    except ValueError:
        raise InvalidRequest(f"The form has more than {_MAX_FORM_FIELDS} fields; send fewer.") from None
    return _without_repeats([(name, value.replace("\r\n", "\n")) for name, value in pairs])
