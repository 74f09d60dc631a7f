"""The way of every request through the API: find the route, read the body, identify, validate, charge, call, encode.
FastAPI documents the routes, and serves those without a body. It does not serve the others: its search through all
routes, its solving of dependencies, its exit stacks and its validation of our own answers took 0.3 ms of the 1 ms of a
short translation, as much as everything else outside the engine."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from functools import cached_property, partial
from inspect import iscoroutinefunction
from typing import ClassVar, TypeVar

import msgspec
from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.access.authorization import KeyMissing, KeyWrong, address_id
from app.api.access_control import OPEN_PATHS, charge, identify, refund
from app.api.errors import ErrorAnswer, FamilyError, Statuses, handle_error
from app.api.event_stream import EventStream
from app.api.foreign_pages import ForeignPages
from app.api.request_body import Fields, RequestLimits, UploadRoom, parse_fields, read_body
from app.api.request_fields import RequestFields
from app.engine.admission import ORIGIN, RequestOrigin
from app.errors import EngineError

Model = TypeVar("Model", bound=BaseModel)
T = TypeVar("T")
STARTS_PER_ITERATION = 4
LARGE_BODY_BYTES = 65_536  # parsing and validating a body of this size takes a few milliseconds
Handler = Callable[[Request], Coroutine[object, object, Response]]


class ApiRoute(APIRoute):
    """A route of our own families: JSON objects alone. The endpoint of a route with a body is called as (body, request,
    services) and the parameters of its path, and returns a model, its fields or a response. Subclasses are families."""

    statuses: ClassVar[Statuses] = {}  # of errors, where they differ from the errors' own
    error_schema: ClassVar[type[FamilyError] | None] = None  # None: `errors.ErrorAnswer` itself
    takes_forms: ClassVar[bool] = False
    # of a form or query, that may come several times, as a list
    repeated_fields: ClassVar[frozenset[str]] = frozenset()
    for_admins: ClassVar[bool] = False  # for the OpenAPI document: it takes a key of the scope admin
    key_fields: ClassVar[tuple[str, ...]] = ()  # of the body or query, that may hold a key; headers always may

    @property
    def family_error(self) -> type[FamilyError]:
        return self.error_schema or ErrorAnswer

    @cached_property
    def body_model(self) -> type[RequestFields]:
        assert self.body_field is not None
        model = self.body_field.field_info.annotation
        assert isinstance(model, type) and issubclass(model, RequestFields)
        return model

    @cached_property
    def call(self) -> Callable[..., Awaitable[object]]:
        """The endpoint; one without `async` runs in a thread, as FastAPI has it."""
        return self.endpoint if iscoroutinefunction(self.endpoint) else partial(run_in_threadpool, self.endpoint)

    def get_route_handler(self) -> Handler:
        if self.body_field is not None:
            return self.answer
        handler = super().get_route_handler()
        return handler if self.path in OPEN_PATHS else partial(self._charged_without_body, handler)

    async def _charged_without_body(self, handler: Handler, request: Request) -> Response:
        request.scope["route"] = self
        await identify(request, {}, self.key_fields)
        await charge(request, 1, 0)
        return await handler(request)

    async def answer(self, request: Request) -> Response:
        """Parse, validate, charge, call, encode. `app.api.errors` answers what this raises."""
        services = request.app.state.services
        if services.access.idle:
            body = await self._beside_the_loop(request, lambda: validate(self.body_model, self.fields(request)))
            answer = await self.call(body=body, request=request, services=services, **request.path_params)
        else:
            answer = await self._charged_answer(request)
        if isinstance(answer, Response):
            return answer
        content = msgspec.json.encode(answer) + b"\n"
        return Response(content, status_code=self.status_code or 200, media_type="application/json")

    def fields(self, request: Request) -> Fields:
        body = request.scope["state"]["body"]
        blank = self.body_model.blank_fields
        return parse_fields(request, body, takes_forms=self.takes_forms, repeated=self.repeated_fields, blank=blank)

    async def _beside_the_loop(self, request: Request, work: Callable[[], T]) -> T:
        """`work` on the body: of a large one in a thread. A form of 10 MB takes 150 ms."""
        large = len(request.scope["state"]["body"]) > LARGE_BODY_BYTES
        return await run_in_threadpool(work) if large else work()

    async def _charged_answer(self, request: Request) -> object:
        """A request counts once for each of its texts, and costs their characters. An invalid or unreadable one counts
        once, for the key in a header or else for the address; a failed one costs no characters."""
        try:
            fields = await self._beside_the_loop(request, lambda: self.fields(request))
        except (EngineError, HTTPException):
            with suppress(KeyMissing, KeyWrong):  # the key may be in the unreadable body; `identify` has charged it
                await identify(request, {}, self.key_fields)
                await charge(request, 1, 0)
            raise
        await identify(request, fields, self.key_fields)
        try:
            body = await self._beside_the_loop(request, lambda: validate(self.body_model, fields))
        except RequestValidationError:
            await charge(request, 1, 0)
            raise
        texts = list(body.charged_texts())
        await charge(request, max(1, len(texts)), sum(map(len, texts)))
        services = request.app.state.services
        try:
            answer = await self.call(body=body, request=request, services=services, **request.path_params)
        except Exception:
            await refund(request)
            raise
        if isinstance(answer, EventStream):
            answer.on_refusal = partial(refund, request)
        return answer


def validate(model: type[Model], fields: Mapping[str, object]) -> Model:
    """`fields` as a `model`, or RequestValidationError."""
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        problems = error.errors(include_url=False)
        raise RequestValidationError([{**each, "loc": ("body", *each["loc"])} for each in problems]) from None


class ApiRouting:
    """The innermost middleware. Reads every body, and calls routes with a body and a fixed path without FastAPI."""

    def __init__(
        self, app: ASGIApp, *, routes: Iterable[BaseRoute], limits: RequestLimits, foreign: ForeignPages
    ) -> None:
        self.app, self.all_routes, self.limits, self.foreign = app, list(routes), limits, foreign
        self.room = UploadRoom(limits)
        self.routes: dict[tuple[str, str], ApiRoute] = {
            (method, route.path): route
            for route in self.all_routes
            if isinstance(route, ApiRoute) and route.body_field is not None and not route.param_convertors
            for method in route.methods or ()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if scope["method"] == "HEAD":  # wherever there is a GET (RFC 9110, 9.1): monitors and load balancers send it
            scope["method"], send = "GET", _without_body(scope, send)
        client = scope.get("client")
        origin = ORIGIN.set(RequestOrigin(address_id(client[0]) if client else ""))
        try:
            await self._answer(scope, receive, send)
        finally:
            ORIGIN.reset(origin)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = self.routes.get((scope["method"], scope["path"]))
        request, limits = Request(scope, receive, send), self.limits
        max_bytes = limits.max_file_bytes if route and route.body_model.takes_files else limits.max_body_bytes
        try:
            self.foreign.check(request, request.app.state.services.access)
            scope["state"]["body"] = await read_body(request, max_bytes, limits, self.room)
            if route is None or scope.get("fastapi.telemetry") is not None:
                await self.app(scope, receive, send)
                return
            scope["route"] = route
            if route.body_model.starts_work:
                request.app.state.services.engine.check_room()  # before parsing: a refusal has to be cheap
            response = await route.answer(request)
            await response(scope, receive, send)
        except Exception as error:
            if "route" not in scope:  # of a body that could not be read: its family's clients expect their own form
                scope["route"] = next((each for each in self.all_routes if each.matches(scope)[0] is Match.FULL), None)
            response = await handle_error(request, error)
            if "body" not in scope["state"]:  # its rest would be read as the next request
                response.headers["Connection"] = "close"
            await response(scope, receive, send)
        finally:
            self.room.release(scope)


def _without_body(scope: Scope, send: Send) -> Send:
    async def send_head(message: Message) -> None:
        scope["method"] = "HEAD"  # again: the server compares the length of the answer with that of its body
        await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

    return send_head


class FairStart:
    """Pure ASGI. At most `at_once` POST requests start in one iteration of the event loop, in order of arrival, so that
    finished answers are written first. An event loop runs every ready callback before it polls its sockets again: when
    300 requests arrive at once, all of them would be parsed, checked and tokenized before the results of running
    requests are even read."""

    def __init__(self, app: ASGIApp, *, at_once: int = STARTS_PER_ITERATION) -> None:
        self.app, self.at_once = app, at_once
        self._started = 0  # in this iteration
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "POST":
            loop = asyncio.get_running_loop()
            if self._started < self.at_once and not self._waiting:
                self._started += 1
                if self._started == 1:
                    loop.call_soon(self._next_iteration, loop)
            else:
                turn = loop.create_future()
                self._waiting.append(turn)
                await turn
        await self.app(scope, receive, send)

    def _next_iteration(self, loop: asyncio.AbstractEventLoop) -> None:
        self._started = 0
        while self._waiting and self._started < self.at_once:
            turn = self._waiting.popleft()
            if not turn.done():  # its request was not cancelled
                turn.set_result(None)
                self._started += 1
        if self._started:
            loop.call_soon(self._next_iteration, loop)
