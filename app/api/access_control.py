"""API keys and rate limits over HTTP: where a key is read from, what a request costs, the RateLimit headers.

RateLimit-Limit, -Remaining and -Reset are what clients know; RateLimit and RateLimit-Policy are the fields of the
IETF's draft (draft-ietf-httpapi-ratelimit-headers). Where several rates apply, the first three describe the rate with
the least remaining.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl

from fastapi import Request

from app.access.authorization import AccessControl, KeyMissing, KeyWrong
from app.access.key_file import ANONYMOUS, Caller
from app.access.rate_limits import Rate, Window

OPEN_PATHS = frozenset(
    {
        "/health",
        "/health/live",
        "/health/ready",
        "/metrics",
        "/languages",
        "/frontend/settings",
        "/download_file/{name}",  # whoever was told the name may fetch it, and LibreTranslate's clients send no key
    }
)
RATE_LIMIT_HEADERS = ("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset", "RateLimit", "RateLimit-Policy")
_NAMES = tuple(name.lower().encode() for name in RATE_LIMIT_HEADERS)
_SCHEMES = (b"bearer", b"deepl-auth-key")
_BARE = (b"x-api-key", b"key")
_MAX_FIELDS = 1000


def caller_of(request: Request) -> Caller:
    """Who asks; known once the gate has let the request through."""
    found = request.scope["state"].get("caller", ANONYMOUS)
    assert isinstance(found, Caller)
    return found


async def identify(request: Request, fields: Mapping[str, Any], key_fields: Sequence[str]) -> Caller:
    """Whoever's key the request has. Keys that are wrong or missing cost their address a request, so that nobody tries
    millions of them."""
    gate: AccessControl = request.app.state.services.gate
    if gate.idle:
        return ANONYMOUS
    try:
        caller = gate.caller(given_keys(request, fields, key_fields), _place(tuple(key_fields)))
    except (KeyMissing, KeyWrong):
        await charge(request, 1, 0)
        raise
    request.scope["state"]["caller"] = caller
    return caller


async def charge(request: Request, requests: int, characters: int) -> None:
    """Take the cost from whoever `identify` has found, and keep the headers for the answer, whatever it will be."""
    gate: AccessControl = request.app.state.services.gate
    if gate.idle:
        return
    client = request.scope.get("client")
    verdict = await gate.charge(caller_of(request), client[0] if client else "", requests, characters)
    if verdict.windows:
        request.scope["state"]["limit_headers"] = rate_limit_headers(verdict.windows)
    if verdict.refusal is not None:
        raise verdict.refusal


def given_keys(request: Request, fields: Mapping[str, Any], key_fields: Sequence[str]) -> Iterator[str]:
    """Every key of the request: from its headers, its body and its query."""
    for name, value in request.headers.raw:
        if name in _BARE and (key := value.strip()):
            yield key.decode("latin-1")
        elif name == b"authorization":
            scheme, _, rest = value.strip().partition(b" ")
            if scheme.lower() in _SCHEMES and (key := rest.strip()):
                yield key.decode("latin-1")
    query = _query(request) if key_fields and request.scope["query_string"] else {}
    for found in (fields, query):
        for field in key_fields:
            if isinstance(sent := found.get(field), str) and sent:
                yield sent


def rate_limit_headers(windows: Sequence[Window]) -> list[tuple[bytes, bytes]]:
    left = [(each.rate, each.remaining, each.wait_s(each.rate.requests)) for each in windows]
    rate, remaining, reset = left[0] if len(left) == 1 else min(left, key=_tightest)
    now = ", ".join([f'"{each.unit}";r={rest};t={until}' for each, rest, until in left])
    values = (rate.requests, remaining, reset, now, _policy(tuple([each for each, *_ in left])))
    return [(name, str(value).encode()) for name, value in zip(_NAMES, values, strict=True)]


def _tightest(one: tuple[Rate, int, int]) -> tuple[int, int]:
    rate, remaining, _ = one
    return remaining, -rate.window_s


@lru_cache(maxsize=1024)
def _policy(rates: tuple[Rate, ...]) -> str:
    return ", ".join(f'"{rate.unit}";q={rate.requests};w={rate.window_s}' for rate in rates)


def _query(request: Request) -> dict[str, str]:
    try:
        return dict(parse_qsl(request.url.query, errors="replace", max_num_fields=_MAX_FIELDS))
    except ValueError:
        return {}


@lru_cache(maxsize=64)
def _place(key_fields: tuple[str, ...]) -> str:
    fields = "".join(f', or as "{field}"' for field in key_fields)
    return f"as the header Authorization: Bearer KEY{fields}"


def owner_of(request: Request) -> str:
    """The name of the key that was accepted; all who ask without one are one."""
    return caller_of(request).name
