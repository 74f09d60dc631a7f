"""The table of families: every router has a row, and what a row says is what its clients get. A new family needs no
line here."""

from __future__ import annotations

import importlib
import pkgutil
from functools import partial
from pathlib import Path

import msgspec
import pytest
from fastapi import APIRouter

import app.api
from app.access.authorization import KeyMissing, KeyWrong
from app.api.errors import ErrorAnswer, status_of
from app.api.families import FAMILIES, Family, all_routes
from tests.app.api.client import Client
from tests.app.api.keyed_client import USE, bearer, keys_file
from tests.app.api.smallest_bodies import BODIES, ROUTES
from tests.readme import ROOT

PROTOCOLS = (ROOT / "docs/protocols.md").read_text(encoding="utf-8")


def section(heading: str) -> str:
    return PROTOCOLS.partition(f"## {heading}\n")[2].partition("\n## ")[0]


def test_every_router_of_the_api_is_in_a_row() -> None:
    rows = {id(router) for family in FAMILIES for router in family.routers}
    forgotten = [
        module.name
        for module in pkgutil.walk_packages(app.api.__path__, "app.api.")
        for value in vars(importlib.import_module(module.name)).values()
        if isinstance(value, APIRouter) and id(value) not in rows
    ]
    assert not forgotten, "give the routers of these modules a row in app/api/families.py"


def test_routes_differ_in_path_or_method() -> None:
    served = [(method, route.path) for route in all_routes() for method in route.methods or ()]
    assert len(set(served)) == len(served)


@pytest.mark.parametrize(("family", "prefix"), [(each, prefix) for each in FAMILIES for prefix in each.prefixes])
def test_unknown_path_below_a_prefix_has_the_form_of_the_family(family: Family, prefix: str) -> None:
    answer = Client().get(f"{prefix}/nothing")
    sentence = f"There is nothing at {prefix}/nothing; /docs lists every path."
    form = family.error.from_error(404, ErrorAnswer(error=sentence, code="not_found", field=None, request_id=""))
    assert (answer.status_code, answer.json().keys()) == (404, msgspec.to_builtins(form).keys())
    assert sentence in answer.text


PROTOCOL = pytest.mark.parametrize("family", [row for row in FAMILIES if row.protocol], ids=lambda row: row.name)


@PROTOCOL
def test_keys_are_taken_where_the_family_has_them(family: Family, tmp_path: Path) -> None:
    client = Client(keys_file=str(keys_file(tmp_path)), data=tmp_path)
    for route in (route for route in ROUTES.values() if route in family.routes):
        if "{" in route.path or route.body_model.takes_files:
            continue
        post, body = partial(client.post, route.path), BODIES[route.path]
        missing, wrong = post(json=body), post(json=body, headers={"X-Api-Key": "wrong"})
        assert (missing.status_code, wrong.status_code) == tuple(
            status_of(kind, route.statuses) for kind in (KeyMissing, KeyWrong)
        ), route.path
        assert "This server needs an API key" in missing.text and "Invalid API key" in wrong.text
        answers = [post(json=body, headers=headers) for headers in (bearer(USE), {"X-Api-Key": USE}, {"KEY": USE})]
        for field in route.key_fields:
            answers += [post(json=body, params={field: USE}), post(json=body | {field: USE})]
        assert {answer.status_code for answer in answers} <= {200, 201}, route.path


@PROTOCOL
def test_protocol_is_documented(family: Family) -> None:
    assert family.name.lower() in PROTOCOLS.partition("## Keys")[0].lower(), (
        "docs/protocols.md: a row of the first table"
    )
    keys, paths = section("Keys"), section("Unknown fields and paths")
    for field in {field for route in family.routes for field in route.key_fields}:
        assert field in keys, f'docs/protocols.md: "Keys" says that {family.name} takes {field}'
    for prefix in family.prefixes:
        assert f"`{prefix}`" in paths, f'docs/protocols.md: "Unknown fields and paths" names {prefix}'
