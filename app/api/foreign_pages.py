"""What a page of another origin can make a visitor's browser send without asking first: forms, and POST requests with a
text or without a type. Where the server asks for no key, the visitor's place in the network is enough for that."""

from __future__ import annotations

import ipaddress
import socket
from functools import lru_cache
from urllib.parse import urlsplit

from fastapi import Request
from starlette.exceptions import HTTPException

from app.access.authorization import AccessControl
from app.api.access_control import given_keys
from app.api.request_fields import quotable

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})  # they change nothing (RFC 9110, 9.2.1)
ANY, AUTO = "*", "auto"
# Names that no stranger's DNS answers for: RFC 6761, RFC 6762, RFC 8375, and ICANN's resolution 2024.07.29.06.
_LOCAL_ENDINGS = (".localhost", ".local", ".home.arpa", ".internal")
_FOREIGN = (
    "This request comes from a page of another origin, {origin}: name that in PARLANCE_CORS_ORIGINS to allow it, or, if"
    " it is this server's own behind a proxy, in PARLANCE_PUBLIC_URL; or send a key in a header."
)
_UNKNOWN_HOST = (
    'This server is not known as "{host}": if that name is its own, add it to PARLANCE_ALLOWED_HOSTS, or name it in'
    " PARLANCE_PUBLIC_URL."
)


class ForeignPages:
    """Refuses what a browser sends for pages of other origins, and requests to names that are not this server's.

    origins: allowed ones, separated by commas, or "*". public_url: the server's own address. hosts: its names,
    separated by commas, "*" for any, or "auto". proxied: whether the settings name proxies."""

    def __init__(self, *, origins: str = "", public_url: str = "", hosts: str = AUTO, proxied: bool = False) -> None:
        own = urlsplit(public_url)
        self._origins = frozenset(_listed(origins))
        self._own_origin = f"{own.scheme}://{own.netloc}".lower() if own.netloc else ""
        self._hosts = frozenset({*map(str.lower, _listed(hosts)), own.hostname or "", socket.gethostname().lower()})
        self._checks_hosts = ANY not in self._hosts and not (proxied and AUTO in self._hosts)

    def check(self, request: Request, access: AccessControl) -> None:
        """Raises HTTPException(403)."""
        if request.method not in SAFE_METHODS:
            self._check_origin(request)
        if self._checks_hosts and not access.key_required:
            self._check_host(request)

    def _check_origin(self, request: Request) -> None:
        """The algorithm of Go's net/http.CrossOriginProtection: browsers say since 2023 where a request comes from, to
        HTTPS and to localhost; to others they send the origin with each POST; and other programs send neither.

        A key in a header is enough, since no page can set that without the preflight that `CORSMiddleware` answers."""
        headers = request.headers
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        if site in ("same-origin", "none") or (site is None and origin is None):
            return
        if origin is not None and (
            origin in self._origins
            or ANY in self._origins
            or origin.lower() == self._own_origin
            or _scheme(origin) not in ("http", "https", "")  # an extension's, which its user has let in
            or (site is None and origin.partition("://")[2].lower() == headers.get("host", "").lower())
        ):
            return
        if any(given_keys(request, {}, ())):
            return
        raise HTTPException(403, _FOREIGN.format(origin=quotable(origin or "one that it does not name")))

    def _check_host(self, request: Request) -> None:
        """DNS rebinding: a stranger's name that is made to lead to 127.0.0.1 makes the stranger's page one of this
        origin. Addresses, and names that public DNS does not have, are nobody else's.

        "auto": only connections that this machine makes to itself, as a browser on it would that was led here."""
        if AUTO in self._hosts and not is_loopback((request.scope.get("server") or ("",))[0]):
            return
        given = request.headers.get("host", "")
        name = given.partition(":")[0].rstrip(".").lower()
        if given.startswith("[") or "." not in name or name in self._hosts or name.endswith(_LOCAL_ENDINGS):
            return
        if _address(name) is None:
            raise HTTPException(403, _UNKNOWN_HOST.format(host=quotable(name)))


def _listed(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _scheme(origin: str) -> str:
    """An empty text of "null" and of what is no origin."""
    scheme, separator, _ = origin.partition("://")
    return scheme.lower() if separator else ""


@lru_cache(maxsize=64)
def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The IP address that is written so, None of what is none. Most requests name one of few."""
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def is_loopback(name: str) -> bool:
    address = _address(name)
    return address is not None and address.is_loopback
