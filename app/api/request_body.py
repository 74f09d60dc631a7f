"""The limits of a request, work that its client's disconnect cancels, and the way from its bytes to its fields: JSON,
forms, forms of several parts (RFC 7578)."""

from __future__ import annotations

import asyncio
import binascii
import email.message
import json
import logging
import math
import re
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NoReturn, TypeVar
from urllib.parse import unquote

import msgspec
import numpy as np
from fastapi import Request
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.exceptions import HTTPException
from starlette.types import Scope

from app.access.authorization import address_id
from app.api.request_fields import describe_value, quotable
from app.engine.admission import ORIGIN
from app.errors import InvalidRequest, Overloaded, TextTooLong
from models.decoding.options import WIDEST_BEAM

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

logging.getLogger("python_multipart").setLevel(logging.ERROR)  # our answer says what is wrong with a body

T = TypeVar("T")
JSON = "application/json"
URLENCODED = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"
MAX_FIELDS = 1000
# Of a JSON body, whose parsing and checking holds the event loop: an item takes a microsecond, an object or list two.
MAX_JSON_ITEMS = 100_000
MAX_JSON_CONTAINERS = 10_000
FREE_BODY_BYTES = 65_536  # of each body, which `UploadRoom` does not count
UPLOAD_RETRY_AFTER_S = 2
_OBJECT = "a JSON object as /docs shows it"
_NOT_UTF8 = "The body is not UTF-8; send it as UTF-8, without compression."
_TAKES = "send it as RFC 7578 says, as curl -F does."
_NAMELESS = f"A part of the form has no name; {_TAKES}"
# Of a Content-Disposition. Browsers write a backslash as it is, so that it may stand before the last quote.
_PARAMETER = re.compile(
    r';\s*+([^\s=;"]++)\s*+=\s*+("(?:[^"\\]|\\.)*"(?=\s*(?:;|$))|"[^"]*"(?=\s*(?:;|$))|[^;]*+)', re.DOTALL
)
_ESCAPED = re.compile(r'\\(["\\])')

_HEXADECIMAL = np.full(256, 0xFF, np.uint8)  # the value of each digit
for _digit in b"0123456789abcdefABCDEF":
    _HEXADECIMAL[_digit] = int(chr(_digit), 16)

Fields = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    """The section of the settings that limits one request; every `check` raises `InvalidRequest`."""

    max_body_bytes: int
    max_file_bytes: int
    max_batch_texts: int
    max_text_characters: int
    max_alternatives: int
    beam_size: int  # of requests that name none
    max_new_tokens: int
    max_samples: int
    max_attention_values: int
    slots_per_model: int | Literal["auto"]
    request_timeout_s: float  # also of a client that reads nothing of a stream, or sends nothing of a body
    min_body_bytes_per_s: int
    body_timeout_s: float
    max_uploaded_bytes: int

    def check_texts(self, texts: Sequence[str], field: str) -> None:
        """The number of texts, and the characters (code points) of each."""
        if len(texts) > self.max_batch_texts:
            raise InvalidRequest(
                f'"{field}" has {len(texts):,} texts; one request takes {self.max_batch_texts:,}.'
                " Send them in several.",
                field=field,
            )
        for text in texts:
            if len(text) > self.max_text_characters:
                raise TextTooLong(
                    f'"{field}" has a text of {len(text):,} characters; one text may have'
                    f" {self.max_text_characters:,}. Send it in parts.",
                    field=field,
                )

    def check_numbers(self, **values: int | None) -> None:
        """Checks numeric fields, which are given by their names; None: the request lacks the field. A beam is limited
        by the slots of a model too, since each hypothesis takes one."""
        limits = {
            "alternatives": self.max_alternatives,
            "n": self.max_samples,
            "max_new_tokens": self.max_new_tokens,
            "max_tokens": self.max_new_tokens,
            "beam_size": WIDEST_BEAM if self.slots_per_model == "auto" else min(WIDEST_BEAM, self.slots_per_model),
        }
        for name, value in values.items():
            if value is not None and value > limits[name]:
                message = f'"{name}" is {describe_value(value)}; this server takes at most {limits[name]:,}.'
                raise InvalidRequest(message, field=name)


class ClientDisconnected(HTTPException):
    """The client closed the connection before the answer was there."""

    def __init__(self) -> None:
        super().__init__(499, "The client closed the connection before the answer was there.")


async def while_connected(request: Request, work: Coroutine[object, object, T], limit_s: float = math.inf) -> T:
    """The result of `work`, which is cancelled as soon as the client has disconnected. `work` runs in the caller's own
    task, so that its result is there in the same iteration of the event loop. limit_s: the engine answers nothing for
    it later than that."""
    worker = asyncio.current_task()
    assert worker is not None
    cancellations, disconnected, over = worker.cancelling(), False, False

    def cancel_work(watcher: asyncio.Task[None]) -> None:
        nonlocal disconnected
        if not (watcher.cancelled() or watcher.exception() or over):
            disconnected = True
            worker.cancel()

    async def wait_for_disconnect() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    origin = ORIGIN.set(replace(ORIGIN.get(), deadline=time.monotonic() + limit_s))
    watcher = asyncio.create_task(wait_for_disconnect())
    watcher.add_done_callback(cancel_work)
    try:
        return await work
    except asyncio.CancelledError:
        if disconnected and worker.uncancel() <= cancellations:
            raise ClientDisconnected from None
        raise
    finally:
        over = True
        watcher.cancel()
        ORIGIN.reset(origin)


class Upload(msgspec.Struct):
    """A form's file. filename: never used as a path. No dataclass: FastAPI would document one as an object."""

    filename: str
    content: bytes


class UploadRoom:
    """The bytes of all bodies that requests hold, from their first byte to the end of the request or of its work. The
    first bytes of each body are left out: the number of connections limits these, and a short request is never refused
    for long ones."""

    def __init__(self, limits: RequestLimits) -> None:
        self._max_bytes = limits.max_uploaded_bytes
        self._max_bytes_per_client = max(self._max_bytes // 2, limits.max_body_bytes, limits.max_file_bytes)
        self._taken_bytes, self._by_client = 0, Counter[str]()

    def take(self, scope: Scope, size_bytes: int) -> None:
        """size_bytes: of what has come of the body so far. Overloaded where there is no room for it."""
        if size_bytes <= FREE_BODY_BYTES:
            return
        client = scope["client"][0] if scope.get("client") else ""
        upload = scope["state"].setdefault("upload", _Upload(self, address_id(client)))
        more = size_bytes - upload.taken_bytes
        if (
            self._taken_bytes + more > self._max_bytes
            or self._by_client[upload.client] + more > self._max_bytes_per_client
        ):
            raise Overloaded(
                "This server holds as many uploads as it can; try again in a few seconds.",
                retry_after_s=UPLOAD_RETRY_AFTER_S,
                reason="overloaded_uploads",
            )
        self._taken_bytes += more
        self._by_client[upload.client] += more
        upload.taken_bytes = size_bytes

    def release(self, scope: Scope) -> None:
        """What the request has taken, if anything."""
        hold_upload(scope)()

    def give_back(self, upload: _Upload) -> None:
        self._taken_bytes -= upload.taken_bytes
        self._by_client[upload.client] -= upload.taken_bytes
        if not self._by_client[upload.client]:
            del self._by_client[upload.client]


@dataclass(slots=True)
class _Upload:
    room: UploadRoom
    client: str
    taken_bytes: int = 0


def hold_upload(scope: Scope) -> Callable[[], None]:
    """Keeps what the request's body has of the `UploadRoom` beyond the request's end, for work that goes on with the
    body; the returned function gives it back."""
    upload: _Upload | None = scope["state"].pop("upload", None)
    return (lambda: None) if upload is None else lambda: upload.room.give_back(upload)


async def read_body(request: Request, max_bytes: int, limits: RequestLimits, room: UploadRoom) -> bytes:
    """The whole body. 413 as soon as it is known to be too large; 408 after `request_timeout_s` without data, or where
    it comes too slowly; 429 where `room` has none for it. What then is left of the body is not read: the connection has
    to be closed."""
    declared = request.headers.get("content-length", "")
    # By its number of digits first: int() takes no number of thousands of digits.
    if declared.isdecimal() and (len(declared) > 18 or int(declared) > max_bytes):
        raise _too_large(max_bytes)
    body = bytearray()  # not a list of what comes: a body in pieces of two bytes would take twenty times its size
    began, size_bytes, more = time.monotonic(), 0, True
    while more:
        allowed_s = limits.body_timeout_s + size_bytes / limits.min_body_bytes_per_s - (time.monotonic() - began)
        try:
            async with asyncio.timeout(min(allowed_s, limits.request_timeout_s)):
                message = await request.receive()
        except TimeoutError:
            if allowed_s < limits.request_timeout_s:
                sentence = f"This request's body comes at less than {limits.min_body_bytes_per_s:,} bytes per second"
            else:
                sentence = f"Nothing of this request's body came for {limits.request_timeout_s:g} seconds"
            raise HTTPException(408, f"{sentence}; send it again.") from None
        if message["type"] != "http.request":
            raise ClientDisconnected
        part: bytes = message.get("body", b"")
        size_bytes += len(part)
        if size_bytes > max_bytes:
            raise _too_large(max_bytes)
        room.take(request.scope, size_bytes)
        more = message.get("more_body", False)
        if not body and not more:
            return part
        body += part
    return bytes(body)


def _too_large(limit: int) -> HTTPException:
    sentence = f"This request's body is larger than the {limit:,} bytes that this server takes; send it in parts."
    return HTTPException(413, sentence)


def parse_fields(
    request: Request,
    body: bytes,
    *,
    takes_forms: bool,
    repeated: frozenset[str] = frozenset(),
    blank: frozenset[str] = frozenset(),
) -> Fields:
    """The fields of a request's body; a form's fields may stand in the query too. repeated: the names of fields that
    are lists. blank: the names of fields that count as left out where a form has them empty."""
    header = request.headers.get("content-type", "")
    kind = JSON if header in ("", JSON) else _media_type(header)
    if kind == URLENCODED and body.lstrip()[:1] == b"{":  # no field has such a name: curl -d without a header
        raise HTTPException(415, f"The body is JSON, but its header says {URLENCODED}; send Content-Type: {JSON}.")
    if takes_forms and (kind in (URLENCODED, MULTIPART) or not body):
        of_body = (
            _parse_parts(header, body, repeated) if kind == MULTIPART and body else _parse_form(_decode(body), repeated)
        )
        fields = _parse_form(request.url.query, repeated) | of_body
        return {name: value for name, value in fields.items() if value != "" or name not in blank}
    if kind == JSON or kind.endswith("+json"):
        return _parse_json(body)
    raise HTTPException(
        415,
        f"The body is {quotable(header)}; send JSON with the header Content-Type: application/json"
        f"{f', or a form as {URLENCODED} or {MULTIPART}' if takes_forms else ''}.",
    )


def _media_type(header: str) -> str:
    content_type = email.message.Message()
    content_type["content-type"] = header
    return content_type.get_content_type()


def _decode(body: bytes | bytearray) -> str:
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidRequest(_NOT_UTF8) from None


def _parse_json(body: bytes) -> Fields:
    text = _decode(body)
    if not text.strip():
        raise InvalidRequest(f"The body is empty; send {_OBJECT}.")
    _refuse_many_items(text)
    try:
        fields = _decoder.decode(text)
    except json.JSONDecodeError as error:
        problem = f"{error.msg}, line {error.lineno}, column {error.colno}"
        raise InvalidRequest(f"The body is not JSON ({problem}); send {_OBJECT}.") from None
    except RecursionError:
        raise InvalidRequest(f"The body is nested too deeply; send {_OBJECT}.") from None
    except ValueError:  # Python parses no integers of more than 4,300 digits
        raise InvalidRequest("The body holds a number with thousands of digits; send a smaller one.") from None
    if not isinstance(fields, dict):
        raise InvalidRequest(f"The body is {describe_value(fields)}; send {_OBJECT}.")
    if len(fields) > MAX_FIELDS:
        raise InvalidRequest(f"The body has {len(fields):,} fields; one request takes {MAX_FIELDS:,}.")
    return fields


def _refuse_many_items(text: str) -> None:
    """Raises InvalidRequest before objects are made of the text. Texts that hold many commas or brackets are counted
    again without their strings."""

    def counts(text: str) -> tuple[int, int]:
        containers = text.count("[") + text.count("{")
        return containers + text.count(","), containers

    items, containers = counts(text)
    if items > MAX_JSON_ITEMS or containers > MAX_JSON_CONTAINERS:
        unescaped = text.replace("\\\\", "").replace('\\"', "")
        items, containers = counts("".join(unescaped.split('"')[::2]))
    for noun, count, most in (("lists and objects", containers, MAX_JSON_CONTAINERS), ("items", items, MAX_JSON_ITEMS)):
        if count > most:
            raise InvalidRequest(f"The body has {count:,} {noun}; one request takes {most:,}. Send it in parts.")


def _refuse_repeats(pairs: list[tuple[str, object]]) -> Fields:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        repeated = next(quotable(name) for name, count in counts.items() if count > 1)
        raise InvalidRequest(f'"{repeated}" is there more than once; send it once.', field=repeated)
    return fields


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidRequest(f"The body holds {name}, which JSON does not have; send a finite number.")


_decoder = json.JSONDecoder(object_pairs_hook=_refuse_repeats, parse_constant=_refuse_constant)


def _parse_form(text: str, repeated: frozenset[str]) -> Fields:
    """Lines of a form end in CRLF by its standard; texts have LF."""
    if text.count("&") >= MAX_FIELDS:
        raise InvalidRequest(f"The form has more than {MAX_FIELDS} fields; send fewer.")
    parted = (part.partition("=") for part in text.split("&") if part)
    try:
        pairs = [(_unquoted(name), _unquoted(value).replace("\r\n", "\n")) for name, _, value in parted]
    except UnicodeDecodeError:
        raise InvalidRequest(_NOT_UTF8) from None
    return _fields_of(pairs, repeated)


def _fields_of(pairs: Sequence[tuple[str, object]], repeated: frozenset[str]) -> Fields:
    lists = {name: [value for other, value in pairs if other == name] for name in repeated}
    fields = _refuse_repeats([pair for pair in pairs if pair[0] not in repeated])
    return fields | {name: values for name, values in lists.items() if values}


def _unquoted(text: str) -> str:
    """As `urllib.parse.unquote_plus`, which makes an object of each %41 and holds the event loop for 0.3 s of 2 MB.
    Raises UnicodeDecodeError."""
    text = text.replace("+", " ")
    if "%" not in text:
        return text
    raw = np.frombuffer(text.encode() + b"  ", np.uint8)
    at = np.flatnonzero(raw == ord("%"))
    high, low = _HEXADECIMAL[raw[at + 1]], _HEXADECIMAL[raw[at + 2]]
    sound = (high | low) < 16  # any other % stays as it is; no two sound ones overlap
    at, values = at[sound], (high * 16 + low)[sound]
    unquoted, kept = raw.copy(), np.ones(len(raw), np.bool_)
    unquoted[at] = values
    kept[at + 1] = kept[at + 2] = kept[-2:] = False
    return unquoted[kept].tobytes().decode()


def form_parts(content_type: str, body: bytes, max_parts: int = MAX_FIELDS) -> list[tuple[str, bytes | Upload]]:
    """The names and contents of a form's parts, in their order. content_type: the header, which has the boundary."""
    _, options = parse_options_header(content_type)
    if not (boundary := options.get(b"boundary")):
        raise InvalidRequest(f"The header Content-Type names no boundary between the parts of the form; {_TAKES}")
    # The boundary is in no part (RFC 2046, 5.1.1), and the parser stops wherever it is.
    if (count := body.count(b"\r\n--" + boundary)) > max_parts + 1:
        sentence = (
            f"The boundary of this form is in it {count:,} times, and a form takes {max_parts:,} fields; {_TAKES}"
        )
        raise InvalidRequest(sentence)
    parts: list[tuple[str, bytes | Upload]] = []
    headers: dict[bytes, bytes] = {}
    name, value, content = bytearray(), bytearray(), list[bytes]()
    is_ended = False

    def begin_part() -> None:
        if len(parts) == max_parts:
            raise InvalidRequest(f"The form has more than {max_parts} fields; send fewer.")
        headers.clear()
        content.clear()

    def end_header() -> None:
        headers[bytes(name).lower()] = bytes(value)
        name.clear()
        value.clear()

    def end() -> None:
        nonlocal is_ended
        is_ended = True

    # Not its FormParser, which finds no name after a file's name that ends in a backslash, and no name*=.
    callbacks: MultipartCallbacks = {
        "on_part_begin": begin_part,
        "on_header_field": lambda data, start, stop: name.extend(data[start:stop]),
        "on_header_value": lambda data, start, stop: value.extend(data[start:stop]),
        "on_header_end": end_header,
        "on_part_data": lambda data, start, stop: content.append(data[start:stop]),
        "on_part_end": lambda: parts.append(_form_part(headers, b"".join(content))),
        "on_end": end,
    }
    try:
        MultipartParser(boundary, callbacks).write(body)
    except FormParserError:
        raise InvalidRequest(f"The body is not a form of the boundary that its header names; {_TAKES}") from None
    if not is_ended:
        raise InvalidRequest(f"The form ends before its last boundary; {_TAKES}")
    return parts


def _form_part(headers: Mapping[bytes, bytes], content: bytes) -> tuple[str, bytes | Upload]:
    """A part with a file's name is a file."""
    fields = _disposition_fields(headers.get(b"content-disposition", b"").decode("utf-8", "replace"))
    if not (name := fields.get("name")):
        raise InvalidRequest(_NAMELESS)
    encoding = headers.get(b"content-transfer-encoding", b"").strip().lower()
    with suppress(binascii.Error):  # of what is in another encoding than it says: taken as it is
        if encoding in (b"base64", b"quoted-printable"):
            content = (binascii.a2b_base64 if encoding == b"base64" else binascii.a2b_qp)(content)
    return name, Upload(fields["filename"], content) if "filename" in fields else content


def _disposition_fields(header: str) -> dict[str, str]:
    """The parameters of a Content-Disposition, in any order: with and without quotes (RFC 7578), and encoded, as
    filename*=UTF-8''b%C3%A4r.txt (RFC 5987), which counts more than its plain form."""
    plain: dict[str, str] = {}
    encoded: dict[str, str] = {}
    for match in _PARAMETER.finditer(header):
        name, value = match[1].lower(), match[2].strip()
        if len(value) > 1 and value[0] == value[-1] == '"':
            value = _ESCAPED.sub(r"\1", value[1:-1])
        charset, _, rest = value.partition("'")
        if not name.endswith("*"):
            plain[name] = value
        elif charset.lower() in ("utf-8", "iso-8859-1"):
            encoded[name[:-1]] = unquote(rest.partition("'")[2], charset)
    return plain | encoded


def _parse_parts(header: str, body: bytes, repeated: frozenset[str]) -> Fields:
    """Texts, and files as `Upload`s, which the check of their fields refuses unless it takes one."""
    fields: list[tuple[str, object]] = []
    for name, content in form_parts(header, body):
        if isinstance(content, bytes):
            fields.append((name, _decode(content).replace("\r\n", "\n")))
        elif content.filename or content.content:  # a page sends an empty part for no file
            fields.append((name, content))
    return _fields_of(fields, repeated)


def also_takes(schema: str, encodings: Mapping[str, Mapping[str, object]]) -> dict[str, object]:
    """`openapi_extra` of a route that takes forms beside JSON. schema: of the JSON, whose fields the forms have;
    encodings: by media type, how fields other than plain texts are written, as OpenAPI's Encoding Objects.

    Under a name of our own, not as further contents of the body: generators of clients make one method for several
    types, and where all have one schema it sends nothing readable (openapi-python-client 0.29)."""
    fields = {"$ref": f"#/components/schemas/{schema}"}
    forms = {kind: {"schema": fields} | ({"encoding": each} if each else {}) for kind, each in encodings.items()}
    return {"requestBody": {"x-also-takes": forms}}
