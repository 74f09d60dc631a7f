"""JSON answers: one class for each, of which the OpenAPI document is made and which is what is sent; and the tokens and
predictions that several families answer with. An answer ends with a line feed, as LibreTranslate's do: a shell's prompt
stands on a line of its own after curl. Large answers are built and compressed in a thread."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable
from functools import cache, partial
from types import UnionType
from typing import Any, Self, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from fastapi import Request
from pydantic import BaseModel, GetCoreSchemaHandler, create_model
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, core_schema
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response
from zlib_ng import zlib_ng

from app.api.request_fields import doc, example_of, fields_of
from app.engine.interface import TokenExpectation, Usage
from app.engine.output.text_stream import WrittenToken

T = TypeVar("T")
MIN_COMPRESSED_BYTES = 1400  # a smaller body fits into one packet
COMPRESSION_LEVEL = 5  # of zlib-ng: as small as zlib's 6, in a fifth of the time (benchmarks/LOG.md)
GZIP_WINDOW_BITS = 16 + 15  # its header, and the largest window
_QUALITY_ZERO = re.compile(r"q\s*=\s*0(\.0*)?")  # RFC 9110, 12.4.2


class AnswerType(msgspec.StructMeta):
    """Turns a class with fields of `doc` and `optional` into a struct; `model_fields` keeps their descriptions."""

    model_fields: dict[str, FieldInfo]  # as pydantic's models have them

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> AnswerType:
        described = {field: info for field, info in namespace.items() if isinstance(info, FieldInfo)}
        for field, info in described.items():
            if info.is_required():
                namespace[field] = msgspec.field(name=info.alias)
            elif info.default is None:
                namespace[field] = msgspec.field(default=None, name=info.alias)
            else:  # by a factory, since msgspec leaves out what is equal to a plain default
                always = partial(info.get_default, call_default_factory=True)
                namespace[field] = msgspec.field(default_factory=always, name=info.alias)
        inherited = {field: info for base in bases for field, info in fields_of(base).items()}
        answer = super().__new__(mcs, name, bases, namespace, kw_only=True, omit_defaults=True)
        answer.model_fields = inherited | described
        return answer


class Answer(msgspec.Struct, metaclass=AnswerType):
    """Base of answers. A field of `optional` that is None is left out, one of `doc` is always there. Structs, because
    to make and write one takes an eighth of the time of a pydantic model (docs/design.md)."""

    @classmethod
    def documented(cls) -> type[BaseModel]:
        """A model of the same fields, for the OpenAPI document."""
        return _documented(cls)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: type, handler: GetCoreSchemaHandler) -> CoreSchema:
        """FastAPI documents an answer as its model, and serves it as it is."""
        return core_schema.no_info_wrap_validator_function(
            lambda answer, _: answer,
            handler.generate_schema(cls.documented()),
            serialization=core_schema.plain_serializer_function_ser_schema(msgspec.to_builtins),
        )


@cache
def _documented(kind: Any) -> type[BaseModel]:
    """kind: an answer, or a struct or named tuple below the API that has described fields."""
    hints = get_type_hints(kind, include_extras=True)
    fields: dict[str, Any] = {name: (_of_models(hints[name]), info) for name, info in fields_of(kind).items()}
    return create_model(kind.__name__, __doc__=kind.__doc__, __module__=kind.__module__, **fields)


def _of_models(hint: Any) -> Any:
    """A type hint in which models stand for described structs and named tuples, for pydantic."""
    kind: Any = hint
    if isinstance(hint, type) and not issubclass(hint, Answer | BaseModel) and fields_of(hint):
        return _documented(kind)
    kinds = tuple(map(_of_models, get_args(hint)))
    origin = Union if isinstance(hint, UnionType) else get_origin(hint)
    return hint if kinds == get_args(hint) else origin[kinds]


def copied(value: object, kind: type[T]) -> T:
    """`value`, or each of its items, as an answer that has fields of the same names. Raises msgspec.ValidationError."""
    return msgspec.convert(value, kind, from_attributes=True)


class JsonAnswer(JSONResponse):
    """The answer of a route that FastAPI serves."""

    def render(self, content: object) -> bytes:
        return super().render(content) + b"\n"


async def large_response(
    request: Request,
    build: Callable[[], object],
    media_type: str = "application/json",
    timing: Callable[[float], Answer] | None = None,
) -> Response:
    """An answer that is built, written and gzipped in a thread: a megabyte would block the event loop for tens of
    milliseconds. build: returns a text, or what is written as JSON. timing: makes the last field, `timing_ms`. The ETag
    leaves `timing_ms` out and is weak. There is no 304, which is for GET and HEAD (RFC 9110, 13.1.2)."""
    accepted = accepts_gzip(request.headers.get("accept-encoding", ""))

    def work() -> Response:
        began = time.perf_counter()
        content = build()
        body = content.encode() if isinstance(content, str) else msgspec.json.encode(content)
        headers = {"ETag": f'W/"{hashlib.sha256(body).hexdigest()[:32]}"', "Vary": "Accept-Encoding"}
        if timing is not None:
            timing_ms = msgspec.json.encode(timing(time.perf_counter() - began))
            body = b'%b,"timing_ms":%b}' % (body[:-1], timing_ms)
        if not isinstance(content, str):
            body += b"\n"
        if accepted and len(body) >= MIN_COMPRESSED_BYTES:
            body, headers["Content-Encoding"] = compress(body), "gzip"
        return Response(body, media_type=media_type, headers=headers)

    return await run_in_threadpool(work)


def compress(body: bytes) -> bytes:
    return zlib_ng.compress(body, COMPRESSION_LEVEL, GZIP_WINDOW_BITS)


def accepts_gzip(accepted: str) -> bool:
    """Whether an Accept-Encoding header names gzip and does not refuse it."""
    for entry in accepted.lower().split(","):
        coding, *parameters = [part.strip() for part in entry.split(";")]
        if coding == "gzip":
            return not any(_QUALITY_ZERO.fullmatch(parameter) for parameter in parameters)
    return False


NATS_DECIMALS = 7  # 2,000 numbers, rounded so, still add up to their sum within 1e-4


class Likely(Answer):
    """A token that might have come."""

    id: int = doc("Number in the vocabulary.", 21)
    piece: str = doc("How the vocabulary writes it.", "开")
    text: str = doc("How it reads by itself.", "开")
    logprob: float = doc("Its log-probability in nats.", -0.21)


class Step(Answer):
    """What was expected at one place."""

    logprob: float | None = doc("Log-probability in nats of the token that came; null where none came.", -0.21)
    rank: int | None = doc("1 and the number of likelier tokens: 1 is the likeliest. Null where none came.", 1)
    entropy: float | None = doc("Entropy in nats of all that might have come.", 1.74)
    top: list[Likely] | None = doc("The `top_k` likeliest tokens, best first.", [example_of(Likely)])

    @classmethod
    def of(cls, step: TokenExpectation | None) -> Self:
        """All null where the token was given."""
        if step is None:
            return cls(logprob=None, rank=None, entropy=None, top=None)
        logprob = None if step.log_probability is None else round_nats(step.log_probability)
        top = [
            Likely(id=each.id, piece=each.piece, text=each.text, logprob=round_nats(each.logprob)) for each in step.top
        ]
        return cls(logprob=logprob, rank=step.rank, entropy=round_nats(step.entropy), top=top)


class WrittenTokenAnswer(Answer):
    """One token that was written."""

    id: int = doc("Its number in the vocabulary.", 17)
    text: str = doc(
        'What it added to the text. A character of several tokens stands with the last of them: "" for the'
        " others. A token that a stop text begins in keeps the part before it.",
        "后",
    )
    logprob: float = doc("Natural logarithm of its probability, rounded to 7 decimals.", -1.25)

    @classmethod
    def of(cls, token: WrittenToken) -> Self:
        return cls(id=token.id, text=token.text, logprob=round_nats(token.log_probability))


def usage_fields(usage: Usage, read_tokens: str) -> dict[str, Any]:
    """The fields `usage` and `timing` of a stream's last event. Times count from the request's admission. read_tokens:
    the name of the field for the tokens that the model has read."""
    times = {"queued_ms": usage.queued_s, "first_token_ms": usage.first_token_s, "total_ms": usage.total_s}
    return {
        "usage": {read_tokens: usage.read_tokens, "new_tokens": usage.new_tokens},
        "timing": {name: round(1000 * seconds, 3) for name, seconds in times.items() if seconds is not None},
    }


def round_nats(value: float) -> float:
    return round(value, NATS_DECIMALS) + 0.0  # no -0.0


def round_floats(value: object, decimals: int) -> Any:
    """`value` as JSON has it, with every float rounded, and structs and named tuples as objects."""
    if isinstance(value, float):
        return round(value, decimals) + 0.0
    if isinstance(value, msgspec.Struct):
        value = msgspec.structs.asdict(value)
    elif as_dict := getattr(value, "_asdict", None):
        value = as_dict()
    if isinstance(value, dict):
        return {name: round_floats(each, decimals) for name, each in value.items()}
    return [round_floats(each, decimals) for each in value] if isinstance(value, list | tuple) else value
