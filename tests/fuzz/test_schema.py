"""Requests made up from the OpenAPI document, against a real server: none ends in a 5xx, and each answer is as the
document says.

make test-fuzz     FUZZ_EXAMPLES=2000 a route (default), FUZZ_SEED=0, FUZZ_ROUTES=a regular expression of "METHOD /path"

503 and 504 are no faults: a server that is asked so much may say so. It runs tiny models with random weights.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
import schemathesis
from schemathesis.checks import CHECKS

from app.main import create_app
from app.settings import Settings
from tests.app.api.fake_engine import FakeEngine
from tests.serving import Server, serving
from tests.tiny import write_lyricist, write_translator

pytestmark = pytest.mark.fuzz
EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "2000"))
SEED = int(os.environ.get("FUZZ_SEED", "0"))
ROUTES = os.environ.get("FUZZ_ROUTES", "")
NAMES = ("response_schema_conformance", "status_code_conformance", "content_type_conformance")
CAN_HAPPEN = (503, 504)
ADMIN_KEY = "fuzz-fuzz-fuzz-fuzz"


def operations() -> list[str]:
    """Operations such as "POST /translate" that FUZZ_ROUTES selects."""
    document = create_app(Settings(), FakeEngine()).openapi()
    results = [f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods]
    return [result for result in results if re.search(ROUTES, result)]


def with_forms(document: dict[str, Any]) -> dict[str, Any]:
    """The document says under a name of its own which forms a route takes beside JSON; here they are bodies too."""
    for methods in document["paths"].values():
        for operation in methods.values():
            body = operation.get("requestBody", {})
            body.get("content", {}).update(body.pop("x-also-takes", {}))
    return document


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("fuzz")
    checkpoints = folder / "checkpoints"
    checkpoints.mkdir()
    write_translator(checkpoints / "tiny-de-en", "de", "en")
    write_translator(checkpoints / "tiny-en-de", "en", "de")
    write_lyricist(checkpoints / "tiny-lyrics")
    with serving(checkpoints, folder, ADMIN_KEY=ADMIN_KEY, LOG_LEVEL="error") as running:
        yield running


@pytest.mark.parametrize("label", operations())
def test_answers_conform_to_the_openapi_document(label: str, server: Server) -> None:
    method, path = label.split(" ", 1)
    schema: Any = schemathesis.openapi.from_dict(with_forms(server.ask("/openapi.json")))
    schema.config.update(base_url=server.base)
    operation = schema[path][method]
    checks = CHECKS.get_by_names(list(NAMES))
    asked = 0

    @hypothesis.seed(SEED)
    @hypothesis.settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
        print_blob=False,
    )
    @hypothesis.given(case=operation.as_strategy())
    def ask(case: Any) -> None:
        nonlocal asked
        asked += 1
        response = case.call(timeout=60, headers={"Authorization": f"Bearer {ADMIN_KEY}"})
        assert response.status_code < 500 or response.status_code in CAN_HAPPEN, (response.status_code, response.text)
        case.validate_response(response, checks=checks)

    ask()
    print(f"{label}: {asked} requests")
    assert asked >= 1
