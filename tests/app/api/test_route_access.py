"""Who may call what: every route of the server by every method, without a key, with a wrong one, with one of the scope
use and with one of the scope admin. A new route is in no table and fails."""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest
from starlette.routing import BaseRoute, Mount, Route

from tests.app.api.client import Client
from tests.app.api.keyed_client import ADMIN, USE, bearer, keys_file

OPERATOR = "correct-horse-battery"


class Refusals(NamedTuple):
    """The statuses of a missing key, of a wrong one, and of one that may use models; None: the route is open. Each
    protocol has its own statuses, which its clients expect."""

    missing: int | None
    wrong: int | None
    use: int | None = None


OPEN = Refusals(None, None)
KEY = Refusals(401, 401)
LIBRETRANSLATE = Refusals(400, 403)
DEEPL = Refusals(403, 403)
GOOGLE = Refusals(403, 400)
FOR_ADMINS = Refusals(401, 401, 403)

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
    KEY: """
        POST /generate
        POST /attention
        POST /walkthrough
        POST /gates
        POST /score
        GET /models
        GET /models/{name}/curves
        POST /v1/completions
        GET /v1/models
        GET /v1/models/{model}
        GET /v1/responses
        POST /v1/responses
        GET /v1/chat/completions
        POST /v1/chat/completions
        POST /imme
        POST /kiss
        POST /hcfy
        POST /deeplx
    """,
    FOR_ADMINS: """
        POST /models/{name}/load
        POST /models/{name}/reload
        POST /models/{name}/unload
        POST /models/import
        GET /models/imports
        DELETE /models/imports/{number}
    """,
    LIBRETRANSLATE: """
        POST /translate
        POST /detect
        POST /translate_file
        POST /suggest
    """,
    DEEPL: """
        POST /v2/translate
        GET /v2/languages
        POST /v2/languages
        GET /v2/usage
        POST /v2/usage
        GET /v2/glossary-language-pairs
        GET /v2/glossaries
        POST /v2/glossaries
        GET /v2/glossaries/{glossary_id}
        GET /v2/glossaries/{glossary_id}/entries
        DELETE /v2/glossaries/{glossary_id}
        GET /v3/glossaries
        POST /v3/glossaries
        GET /v3/glossaries/{glossary_id}
        PATCH /v3/glossaries/{glossary_id}
        DELETE /v3/glossaries/{glossary_id}
        GET /v3/glossaries/{glossary_id}/entries
        PUT /v3/glossaries/{glossary_id}/dictionaries
        DELETE /v3/glossaries/{glossary_id}/dictionaries
        POST /v2/document
        POST /v2/document/{document_id}
        POST /v2/document/{document_id}/result
        POST /deepl
    """,
    GOOGLE: """
        GET /language/translate/v2
        POST /language/translate/v2
        GET /language/translate/v2/detect
        POST /language/translate/v2/detect
        GET /language/translate/v2/languages
        GET /google/language/translate/v2
        POST /google/language/translate/v2
        GET /google/language/translate/v2/detect
        POST /google/language/translate/v2/detect
        GET /google/language/translate/v2/languages
    """,
}
EXPECTED = {
    tuple(line.split()): refusals for refusals, lines in ACCESS.items() for line in lines.splitlines() if line.strip()
}


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
    return Client(keys_file=str(keys_file(tmp_path_factory.mktemp("keys"))), admin_key=OPERATOR, suggestions=True)


def test_every_route_is_in_the_table_and_none_that_is_no_route(client: Client) -> None:
    assert routes_of(client.app) == set(EXPECTED)


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
