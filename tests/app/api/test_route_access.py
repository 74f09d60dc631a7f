"""Who may call what: every route of the server by every method, without a key, with a wrong one, with one of the scope
use and with one of the scope admin. Routes that are open, and those for admins, stand in these tables; any other takes
a key, and refuses others with the statuses of its family."""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest
from starlette.routing import BaseRoute, Mount, Route

from app.access.authorization import KeyMissing, KeyWrong
from app.api.errors import status_of
from app.api.families import FAMILIES
from app.api.route import ApiRoute
from tests.app.api.client import Client
from tests.app.api.keyed_client import ADMIN, USE, bearer, keys_file

OPERATOR = "correct-horse-battery"


class Refusals(NamedTuple):
    """The statuses of a missing key, of a wrong one, and of one that may use models; None: the route is open. Each
    protocol has its own statuses, which its clients expect."""

    missing: int | None
    wrong: int | None
    use: int | None = None


OPEN, FOR_ADMINS = Refusals(None, None), Refusals(401, 401, 403)
ACCESS: dict[Refusals, str] = {
    OPEN: """
        GET /
        GET /assets/{path:path}
        GET /docs
        GET /docs/docs.js
        GET /docs-assets
        GET /redoc
        GET /openapi.json
        GET /spec
        GET /health
        GET /health/live
        GET /health/ready
        GET /metrics
        GET /languages
        POST /languages
        GET /frontend/settings
        GET /download_file/{name}
    """,
    FOR_ADMINS: """
        POST /models/{name}/load
        POST /models/{name}/reload
        POST /models/{name}/unload
        POST /models/import
        GET /models/imports
        DELETE /models/imports/{number}
    """,
}
TABLE = {
    tuple(line.split()): refusals for refusals, lines in ACCESS.items() for line in lines.splitlines() if line.strip()
}
STATUSES = {  # of a missing and of a wrong key, as the clients of these protocols expect it
    "Translate": Refusals(400, 403),
    "LibreTranslate": Refusals(400, 403),
    "OpenAI": Refusals(401, 401),
    "DeepL": Refusals(403, 403),
    "Google": Refusals(403, 400),
}


def refusals_of(route: ApiRoute) -> Refusals:
    return Refusals(*(status_of(kind, route.statuses) for kind in (KeyMissing, KeyWrong)))


EXPECTED = {
    (method, route.path): refusals_of(route)
    for family in FAMILIES
    for route in family.routes
    for method in sorted(route.methods or ())
} | TABLE


def routes_of(app: object) -> set[tuple[str, str]]:
    """(method, path) of all routes, however deep they are included; a mounted app as one GET."""
    found: set[tuple[str, str]] = set()
    waiting: list[BaseRoute] = list(app.routes)  # type: ignore[attr-defined]
    while waiting:
        route = waiting.pop()
        if isinstance(route, Mount):
            found.add(("GET", route.path))
        elif isinstance(route, Route) or hasattr(route, "methods"):
            found |= {(method, route.path) for method in (route.methods or ()) if method != "HEAD"}
        else:
            waiting += route.original_router.routes  # as FastAPI includes a router
    return found


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Client:
    return Client(keys_file=str(keys_file(tmp_path_factory.mktemp("keys"))), admin_key=OPERATOR)


def test_open_routes_are_in_the_table_and_none_that_is_no_route(client: Client) -> None:
    assert routes_of(client.app) == set(EXPECTED), (
        "an open route, and one for admins, stands in ACCESS; a route of a family needs no line"
    )


def test_families_keep_the_statuses_that_their_clients_expect() -> None:
    families = {family.name: family for family in FAMILIES}
    for name, statuses in STATUSES.items():
        assert {refusals_of(route) for route in families[name].routes} == {statuses}, name


@pytest.mark.parametrize(("method", "path"), EXPECTED, ids=str)
def test_route_is_open_to_those_of_the_table_alone(client: Client, method: str, path: str) -> None:
    refusals = EXPECTED[method, path]
    asked = path if path != "/docs-assets" else "/docs-assets/swagger-ui.css"
    asked = re.sub(r"\{[^}]+\}", "1", asked)
    body = {"json": {}} if method in ("POST", "PUT", "PATCH") else {}
    senders = (
        ({}, refusals.missing),
        (bearer("plk_wrong"), refusals.wrong),
        (bearer(f"{USE} "), refusals.use),
        (bearer(USE.upper()), refusals.wrong),
        (bearer(USE[:-1]), refusals.wrong),
        (bearer(ADMIN), None),
        (bearer(OPERATOR), None),
    )
    for headers, refused in senders:
        answers = [client.request(method, asked, headers=headers, **body)]
        if method == "GET":
            answers.append(client.request("HEAD", asked, headers=headers))
        for answer in answers:
            if refused is None:
                assert answer.status_code not in (401, 403) and answer.status_code < 500, headers
                assert answer.status_code < 400 or "API key" not in answer.text, headers
            else:
                assert answer.status_code == refused, headers
                assert answer.request.method == "HEAD" or re.search("API key|admin key|This key may", answer.text)


@pytest.mark.parametrize(("method", "path"), EXPECTED, ids=str)
def test_other_methods_and_spellings_open_no_route(client: Client, method: str, path: str) -> None:
    """Without a key, whatever the method, a slash too many, other capitals, or an encoded path: never an answer. A body
    that cannot be read is said to be that, for it may hold the key."""
    if EXPECTED[method, path] == OPEN:
        return
    asked = re.sub(r"\{[^}]+\}", "1", path)
    encoded = f"/{asked[1:].replace('/', '%2f')}", f"/%{ord(asked[1]):02x}{asked[2:]}"
    for spelling in (
        f"{asked}/",
        f"/{asked}",
        asked.upper(),
        f"/x/..{asked}",
        f"/x/%2e%2e{asked}",
        f"{asked};x",
        *encoded,
    ):
        answer = client.request(method, f"http://parlance{spelling}")
        assert answer.status_code in (400, 401, 403, 404, 405, 422), spelling
        assert "error" in answer.text or "message" in answer.text
    for other in ("OPTIONS", "TRACE", "CONNECT", "PROPFIND"):
        assert client.request(other, asked).status_code in (400, 401, 403, 404, 405), other


def test_keyless_server_changes_no_model_for_anybody() -> None:
    """Neither without a key nor with one that nobody has given out."""
    for settings, expected in (({}, 403), ({"admin_key": OPERATOR}, 401)):
        client = Client(**settings)
        for (method, path), refusals in EXPECTED.items():
            if refusals == FOR_ADMINS:
                asked = re.sub(r"\{[^}]+\}", "1", path)
                for headers in ({}, bearer("plk_wrong"), bearer(""), {"X-API-Key": ""}):
                    assert client.request(method, asked, headers=headers).status_code == expected
        assert client.engine.calls == 0
