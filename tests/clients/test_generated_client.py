"""A client that openapi-python-client makes from /openapi.json, with every route that there is."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis

from tests.serving import Server

pytestmark = pytest.mark.clients
NAME = "generated_parlance"


@pytest.fixture(scope="module")
def package(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Its name; it can be imported."""
    folder = tmp_path_factory.mktemp("generated")
    (folder / "openapi.json").write_text(json.dumps(server.ask("/openapi.json")), encoding="utf-8")
    command = ["openapi-python-client", "generate", "--path", "openapi.json", "--output-path", NAME, "--meta", "none"]
    here = {**os.environ, "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}
    done = subprocess.run(command, cwd=folder, env=here, capture_output=True, text=True, timeout=300)
    output = done.stdout + done.stderr
    assert done.returncode == 0, output
    assert "WARNING" not in output and "will not be generated" not in output, output
    sys.path.insert(0, str(folder))
    yield NAME
    sys.path.remove(str(folder))


def call(package: str, route: str, base: str, **given: Any) -> Any:
    """The status and the parsed answer. route: its group and its function, such as "translate.translate"."""
    with importlib.import_module(package).Client(base_url=base) as client:
        answer = importlib.import_module(f"{package}.api.{route}").sync_detailed(client=client, **given)
    return answer.status_code.value, answer.parsed


def of(package: str, name: str, fields: dict[str, Any]) -> Any:
    return getattr(importlib.import_module(f"{package}.models"), name).from_dict(fields)


def test_openapi_document_is_valid(server: Server) -> None:
    document = server.ask("/openapi.json")
    assert document["openapi"].startswith("3.1.")
    schemathesis.openapi.from_dict(document).validate()


def test_generated_client_has_every_route(package: str, server: Server) -> None:
    operations = [each for path in server.ask("/openapi.json")["paths"].values() for each in path.values()]
    folder = Path(next(each for each in sys.path if (Path(each) / package).is_dir())) / package / "api"
    made = {path.stem for path in folder.glob("*/*.py") if path.stem != "__init__"}
    assert len(made) == len(operations) > 50


def test_translates(package: str, server: Server) -> None:
    body = {"q": ["a b", "b c"], "source": "de", "target": "en", "alternatives": 1}
    status, result = call(package, "translate.translate", server.base, body=of(package, "TranslateRequest", body))
    assert (status, result.to_dict()) == (200, server.ask("/translate", body))


def test_continues_a_text(package: str, server: Server) -> None:
    body = {"prompt": "分开", "max_new_tokens": 12, "seed": 5, "logprobs": True}
    status, result = call(package, "generate.generate", server.base, body=of(package, "GenerateRequest", body))
    assert (status, result.to_dict()) == (200, server.ask("/generate", body))
    body = {"prompt": "分开", "max_tokens": 12, "seed": 5}
    status, result = call(package, "open_ai.completions", server.base, body=of(package, "CompletionRequest", body))
    assert (status, result.choices[0].text) == (200, server.ask("/v1/completions", body)["choices"][0]["text"])


def test_inspection_endpoints(package: str, server: Server) -> None:
    body = {"source": "a b", "model": "tiny-de-en"}
    status, result = call(package, "inspect.attention", server.base, body=of(package, "AttentionRequest", body))
    expected = server.ask("/attention", body)
    answer = result.to_dict()
    assert (status, answer["source"], answer["target"]) == (200, expected["source"], expected["target"])
    assert answer["attention"] == expected["attention"]


def test_errors_have_fields(package: str, server: Server) -> None:
    request = of(package, "TranslateRequest", {"q": "a b", "source": "de", "target": "xx"})
    status, result = call(package, "translate.translate", server.base, body=request)
    assert (status, result.field, result.code) == (400, "target", "unknown_pair")
    assert "xx" in result.error
