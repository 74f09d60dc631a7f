"""Messages between a front-end process and the engine process: msgspec structs in msgpack, never pickle. The methods
that a front end can call, and the types of their arguments and results, are read from the annotations of two
protocols, `Engine` and `ServiceParts`. Frames are those of `app.engine.protocol.messages`; deadlines are
CLOCK_MONOTONIC seconds, which all processes of a machine share."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol, get_args, get_origin, get_type_hints

import msgspec
import numpy as np

from app import errors
from app.access.memory_store import Charge, ChargeResult
from app.access.rate_limits import Period, Quota
from app.engine.interface import Engine, ModelInfo, PoolStatus
from app.engine.metrics.collector import HttpSeries
from app.engine.output.text_stream import TextDelta
from app.engine.protocol.messages import HEADER
from app.engine.registry.model_import import ModelImport
from app.errors import EngineError


class ServiceParts(Protocol):
    """What front ends share beside the engine, as they call it in the engine process."""

    async def take(self, charge: Charge) -> ChargeResult:
        """As `MemoryStore.take`; so of the next two."""

    async def give_back(self, caller: str, quotas: Sequence[Quota], characters: int) -> None: ...

    async def characters(self, caller: str, period: Period) -> int: ...

    async def add_keyless(self, characters: int) -> int:
        """As `KeylessUsage.add`."""

    async def imports(self) -> list[ModelImport]: ...

    async def start_import(self, model: str) -> ModelImport:
        """As `ModelImports.start`."""

    async def cancel_import(self, number: int) -> ModelImport:
        """As `ModelImports.cancel`."""

    async def metrics_page(self, open_metrics: bool) -> bytes:
        """As `Metrics.page`, of the whole service."""


# Values -------------------------------------------------------------------------------------------------------


def _encode_value(value: object) -> object:
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    raise NotImplementedError(f"{type(value).__qualname__} cannot be sent to another process")


def _decode_value(kind: object, value: Any) -> object:
    if get_origin(kind) is np.ndarray:
        dtype, shape, data = value
        return np.frombuffer(data, dtype).reshape(shape)
    if kind is object:
        return value
    raise NotImplementedError(f"{kind} cannot come from another process")


encode_value = msgspec.msgpack.Encoder(enc_hook=_encode_value).encode


def _decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(kind, dec_hook=_decode_value)


@dataclass(frozen=True, slots=True)
class Method:
    """A method that a front end can call. streamed: its result is that of a `TextStream`."""

    arguments: msgspec.msgpack.Decoder[Any]
    result: msgspec.msgpack.Decoder[Any]
    streamed: bool


def _methods(protocol: type) -> dict[str, Method]:
    """The methods of a protocol that are coroutines or open a text stream."""
    methods = dict[str, Method]()
    for name, function in vars(protocol).items():
        if name.startswith("_") or not inspect.isfunction(function):
            continue
        hints = get_type_hints(function)
        result = hints.pop("return")
        streamed = get_origin(result) is AbstractAsyncContextManager
        if streamed:
            (stream, *_) = get_args(result)
            (result,) = get_args(stream)
        if streamed or inspect.iscoroutinefunction(function):
            methods[name] = Method(_decoder(tuple[tuple(hints.values())]), _decoder(result), streamed)  # type: ignore[misc]
    return methods


ENGINE_METHODS, PARTS_METHODS = _methods(Engine), _methods(ServiceParts)
METHODS = ENGINE_METHODS | PARTS_METHODS

_ERRORS: dict[str, type[EngineError]] = {
    kind.__name__: kind for kind in vars(errors).values() if inspect.isclass(kind) and issubclass(kind, EngineError)
}


class Failure(msgspec.Struct, frozen=True, array_like=True):
    """An `EngineError`: the name of its class in `app.errors`, or of the nearest base there, its message and fields."""

    kind: str
    message: str
    fields: dict[str, Any]

    @classmethod
    def of(cls, error: EngineError) -> Failure:
        kind = next(base for base in type(error).__mro__ if _ERRORS.get(base.__name__) is base)
        return cls(kind.__name__, error.message, vars(error))

    def error(self) -> EngineError:
        kind = _ERRORS[self.kind]
        error = kind.__new__(kind, self.message)
        vars(error).update(self.fields)
        return error


# Messages to a front end --------------------------------------------------------------------------------------


class Message(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Base of all messages. number: of a call, unique on its connection."""


class Start(Message, frozen=True, tag=True, array_like=True):
    """The first message. settings: the JSON object of this front end's settings by their names, whose integers may have
    more than 64 bits."""

    settings: str


class StatusChanged(Message, frozen=True, tag=True, array_like=True):
    """Sent when it has changed and each second, as a sign of life. refusal: of every request, while the service drains
    or is full."""

    status: PoolStatus
    refusal: Failure | None


class ModelsChanged(Message, frozen=True, tag=True, array_like=True):
    models: list[ModelInfo]


class Answered(Message, frozen=True, tag=True, array_like=True):
    number: int
    value: msgspec.Raw


class Failed(Message, frozen=True, tag=True, array_like=True):
    """full: the refusal that the smallest request of this client would get now, where this call was refused for want of
    room; of_client: no other client would."""

    number: int
    failure: Failure
    full: Failure | None = None
    of_client: bool = False


class Broken(Message, frozen=True, tag=True, array_like=True):
    """The call ended with an exception that is no `EngineError`; the log of the engine process shows it."""

    number: int


class Streamed(Message, frozen=True, tag=True, array_like=True):
    """New text of a streamed call."""

    number: int
    deltas: list[TextDelta]


class Report(Message, frozen=True, tag=True, array_like=True):
    """Asks for `Counted` with this number."""

    number: int


class Drain(Message, frozen=True, tag=True, array_like=True):
    """Take no new connections, answer what is in flight, and end."""


# Messages of a front end --------------------------------------------------------------------------------------


class Listening(Message, frozen=True, tag=True, array_like=True):
    """Sent once, when connections are accepted."""


class Call(Message, frozen=True, tag=True, array_like=True):
    """client, deadline: as in `app.engine.admission.RequestOrigin`. arguments: a tuple."""

    number: int
    method: str
    client: str
    deadline: float
    arguments: msgspec.Raw


class Cancel(Message, frozen=True, tag=True, array_like=True):
    number: int


class Counted(Message, frozen=True, tag=True, array_like=True):
    """What `Metrics.http_counts` has grown by since the last message. number: of the `Report` that asked for it; 0:
    sent unasked, each second, also as a sign of life."""

    number: int
    increments: list[tuple[HttpSeries, float]]


model_infos = _decoder(list[ModelInfo]).decode

ToFrontEnd = Start | StatusChanged | ModelsChanged | Answered | Failed | Broken | Streamed | Report | Drain
FromFrontEnd = Listening | Call | Cancel | Counted

to_front_end = msgspec.msgpack.Decoder(list[ToFrontEnd], dec_hook=_decode_value).decode  # the body of a frame
from_front_end = msgspec.msgpack.Decoder(list[FromFrontEnd], dec_hook=_decode_value).decode


def frame(messages: Sequence[bytes]) -> bytes:
    """A frame of messages that `encode_value` has encoded one by one, so that each is refused where it is sent."""
    body = b"".join([b"\xdd", len(messages).to_bytes(4, "big"), *messages])  # msgpack's array 32
    return HEADER.pack(len(body)) + body
