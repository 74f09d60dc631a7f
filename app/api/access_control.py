"""API keys and rate limits over HTTP: where a key is read from, what a request costs, the RateLimit headers. RateLimit
and RateLimit-Policy: draft-ietf-httpapi-ratelimit-headers. RateLimit-Limit, -Remaining and -Reset, which clients know,
describe the limit that refuses the request, or else the rate with the least remaining. The seconds of a limit that is
used up are those until the next request fits, as in Retry-After; of any other, those until all of it is free again, but
at most the window of the policy, over which clients pace the requests that remain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import parse_qsl

from fastapi import Request

from app.access.authorization import AccessControl, KeyMissing, KeyWrong, QuotaExceeded, RateLimited
from app.access.key_file import ANONYMOUS, Caller
from app.access.rate_limits import Rate, Window
from app.api.request_log import MONITORED_PATHS
from app.engine.admission import ORIGIN
from app.errors import EngineError

# LibreTranslate's clients send no key to these; the name of a download is secret.
OPEN_PATHS = MONITORED_PATHS | {"/languages", "/frontend/settings", "/download_file/{name}"}
RATE_LIMIT_HEADERS = ("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset", "RateLimit", "RateLimit-Policy")
_NAMES = tuple(name.lower().encode() for name in RATE_LIMIT_HEADERS)
_SCHEMES = (b"bearer", b"deepl-auth-key")
_KEY_HEADERS = (b"x-api-key", b"key", b"x-goog-api-key")


def caller_of(request: Request) -> Caller:
    """The caller that `identify` has found, or ANONYMOUS."""
    caller: Caller = request.scope["state"].get("caller", ANONYMOUS)
    return caller


def owner_of(request: Request) -> str:
    """The name of the caller's key, under which glossaries and files are stored; one name for all without a key."""
    return caller_of(request).name


async def identify(request: Request, fields: Mapping[str, object], key_fields: Sequence[str]) -> None:
    """Finds the caller of the request's key. A wrong or missing key costs its address one request: guessing is slow."""
    access: AccessControl = request.app.state.services.access
    if access.idle:
        return
    try:
        caller = access.caller(given_keys(request, fields, key_fields), _key_places(tuple(key_fields)))
    except (KeyMissing, KeyWrong):
        await charge(request, 1, 0)
        raise
    request.scope["state"]["caller"] = caller
    if caller.key_id:
        ORIGIN.set(replace(ORIGIN.get(), client=f"key {caller.key_id}"))


async def charge(request: Request, requests: int, characters: int) -> None:
    """Charge the caller, and set the RateLimit headers of the answer, whatever it will be."""
    access: AccessControl = request.app.state.services.access
    if access.idle:
        return
    client = request.scope.get("client")
    windows, refusal = await access.charge(caller_of(request), client[0] if client else "", requests, characters)
    if windows or isinstance(refusal, QuotaExceeded):
        request.scope["state"]["limit_headers"] = rate_limit_headers(windows, refusal)
    if refusal is not None:
        raise refusal
    state = request.scope["state"]
    state["charged_characters"] = state.get("charged_characters", 0) + characters


async def refund(request: Request) -> None:
    """Gives back the characters of a request that failed; the request itself stays counted."""
    access: AccessControl = request.app.state.services.access
    await access.give_back(caller_of(request), request.scope["state"].pop("charged_characters", 0))


def given_keys(request: Request, fields: Mapping[str, object], key_fields: Sequence[str]) -> Iterator[str]:
    """Every key of the request: from its headers, its body and its query."""
    for name, value in request.headers.raw:
        if name in _KEY_HEADERS and (key := value.strip()):
            yield key.decode("latin-1")
        elif name == b"authorization":
            scheme, _, rest = value.strip().partition(b" ")
            if scheme.lower() in _SCHEMES and (key := rest.strip()):
                yield key.decode("latin-1")
    # without blank values, which would hide a key of the same name
    query = dict(parse_qsl(request.scope["query_string"].decode("latin-1"))) if key_fields else {}
    for source in (fields, query):
        for field in key_fields:
            if isinstance(sent := source.get(field), str) and sent:
                yield sent


class _Limit(NamedTuple):
    """How much of a limit is left, and when there is more. policy: the limit's item of RateLimit-Policy."""

    name: str
    most: int
    remaining: int
    reset_s: int
    policy: str


def rate_limit_headers(windows: Sequence[Window], refusal: EngineError | None = None) -> list[tuple[bytes, bytes]]:
    """The RateLimit headers of an answer. refusal: the error if the request is refused; the limit that refuses it gets
    the seconds of Retry-After."""
    limits: list[_Limit] = []
    binding: _Limit | None = None
    for window in windows:
        rate, remaining = window.rate, window.remaining
        reset_s = min(window.wait_s(rate.requests), rate.window_s) if remaining else window.wait_s(1)
        limits.append(_Limit(rate.unit, rate.requests, remaining, reset_s, _policy(rate)))
        if isinstance(refusal, RateLimited) and refusal.rate == rate:
            binding = limits[-1] = limits[-1]._replace(reset_s=refusal.retry_after_s)
    if isinstance(refusal, QuotaExceeded):
        quota, name = refusal.quota, f"characters-{refusal.quota.period}"
        policy = f'"{name}";q={quota.characters};qu="characters"'
        binding = _Limit(name, quota.characters, refusal.remaining, refusal.retry_after_s, policy)
        limits.append(binding)
    tightest = binding or min(limits, key=lambda limit: (limit.remaining, -limit.reset_s))
    now = ", ".join([f'"{limit.name}";r={limit.remaining};t={limit.reset_s}' for limit in limits])
    values = (tightest.most, tightest.remaining, tightest.reset_s, now, ", ".join([limit.policy for limit in limits]))
    return [(name, str(value).encode()) for name, value in zip(_NAMES, values, strict=True)]


@lru_cache(maxsize=1024)
def _policy(rate: Rate) -> str:
    return f'"{rate.unit}";q={rate.requests};w={rate.window_s}'


@lru_cache(maxsize=64)
def _key_places(key_fields: tuple[str, ...]) -> str:
    fields = "".join(f', or as "{field}"' for field in key_fields)
    return f"as the header Authorization: Bearer KEY{fields}"
