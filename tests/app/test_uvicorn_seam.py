"""What `app.connection_limits` takes from uvicorn's inside, which may change in any version of uvicorn without a word.
Where a test here fails after an update: read what has changed in `uvicorn/protocols/http/httptools_impl.py` and in
`Server.startup`, let `test_framings.py`, `test_connection_*.py` and `test_other_servers.py` pass, renew the table, and
move the range in `pyproject.toml`."""

from __future__ import annotations

import ast
import asyncio
import hashlib
import inspect
import tomllib
from typing import Any

import pytest
import uvicorn
from packaging.requirements import Requirement
from uvicorn.protocols.http import httptools_impl
from uvicorn.server import ServerState

from app.connection_limits import Connection
from tests.app.test_connection_writes import RecordingTransport
from tests.app.test_framings import LAST, Listener
from tests.readme import ROOT

# of `httptools_impl`, the same in 0.53 and 0.54
DIGEST = "1d4e1c579df41684"
# The callbacks of the parser and of asyncio, and uvicorn's own methods, that `Connection` overrides or calls
SIGNATURES = {
    "__init__": "(self, config, server_state, app_state, _loop=None)",
    "connection_made": "(self, transport)",
    "connection_lost": "(self, exc)",
    "data_received": "(self, data)",
    "pause_writing": "(self)",
    "resume_writing": "(self)",
    "on_message_begin": "(self)",
    "on_url": "(self, url)",
    "on_header": "(self, name, value)",
    "on_headers_complete": "(self)",
    "on_body": "(self, body)",
    "on_message_complete": "(self)",
    "on_response_complete": "(self)",
    "_start_asgi_task": "(self, cycle, app)",
    "_unset_keepalive_if_required": "(self)",
}
CONNECTION = {"cycle", "flow", "headers", "loop", "parser", "pipeline", "server_state", "transport", "url", "client"}
CYCLE = {
    *("scope", "keep_alive", "disconnected", "message_event"),
    *("response_started", "response_complete", "chunked_encoding", "expected_content_length"),
}
INTAKE = ast.parse(inspect.getsource(inspect.getmodule(Connection) or Connection))


def attributes(tree: ast.AST, *owners: str) -> set[str]:
    """The attributes of `self`, or of another name, that the code speaks of."""
    return {
        node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and ast.unparse(node.value) in owners
    }


def test_the_code_is_that_which_the_guards_were_written_for() -> None:
    source = inspect.getsource(httptools_impl)
    assert hashlib.sha256(source.encode()).hexdigest()[:16] == DIGEST, f"uvicorn {uvicorn.__version__} has changed it"
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    (required,) = (needed for needed in map(Requirement, dependencies) if needed.name == "uvicorn")
    pinned = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)
    assert pinned["uvicorn"] == uvicorn.__version__
    assert required.specifier.contains(uvicorn.__version__)
    assert not required.specifier.contains("1.0"), "a version that nobody has read"


def test_only_connection_limits_knows_the_inside() -> None:
    """Elsewhere uvicorn's documented names: Config, Server, the middleware of proxies."""
    inside = []
    for path in sorted((ROOT / "app").rglob("*.py")):
        source = path.read_text()
        for node in ast.walk(ast.parse(source)) if "uvicorn." in source else ():
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [name.name for name in node.names] if isinstance(node, ast.Import) else []
            inside += [(path.name, name) for name in names if name.startswith(("uvicorn.", "uvicorn._"))]
    assert inside == [
        ("connection_limits.py", "uvicorn.protocols.http.httptools_impl"),
        ("connection_limits.py", "uvicorn.server"),
        ("main.py", "uvicorn.middleware.proxy_headers"),
    ]


@pytest.mark.parametrize("name", SIGNATURES)
def test_methods_take_what_they_took(name: str) -> None:
    signature = inspect.signature(getattr(httptools_impl.HttpToolsProtocol, name))
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values()]
    assert str(inspect.Signature(bare)) == SIGNATURES[name]


def test_the_table_has_every_name_that_is_used() -> None:
    (connection,) = (node for node in INTAKE.body if isinstance(node, ast.ClassDef) and node.name == "Connection")
    own = {name for name in vars(Connection) if not name.startswith("__")}
    inherited = {*SIGNATURES, *dir(httptools_impl.HttpToolsProtocol)}
    assert {name for name in own if name in inherited} | {"__init__"} <= set(SIGNATURES)
    assert attributes(connection, "super()") <= set(SIGNATURES)
    assert attributes(INTAKE, "cycle", "self.cycle", "self._running") == CYCLE
    held = vars(_protocol(httptools_impl.HttpToolsProtocol))
    used = attributes(INTAKE, "self", "connection") & {*held, *inherited}
    assert used - own - {"ws_protocol_class"} <= {*CONNECTION, *SIGNATURES}
    assert set(held) >= CONNECTION | {"ws_protocol_class"}


def test_what_connections_hold_is_there() -> None:
    cycle = _protocol(Connection)._running
    assert isinstance(cycle, httptools_impl.RequestResponseCycle)
    assert set(vars(cycle)) >= CYCLE


def _protocol(kind: Any) -> Any:
    """One connection that has a request."""

    async def made() -> Any:
        listener = Listener()
        arguments = (listener.config, ServerState(), {}, asyncio.get_running_loop())
        connection = kind(listener.limiter, *arguments) if kind is Connection else kind(*arguments)
        connection.connection_made(RecordingTransport())
        connection.data_received(LAST)
        while not listener.requests:
            await asyncio.sleep(0)
        return connection

    return asyncio.run(made())


def test_a_server_starts_its_app_before_it_listens_and_asks_for_the_class_then() -> None:
    """For `guard_running_server`."""
    source = inspect.getsource(uvicorn.Server.startup)
    started, listening = source.index("await self.lifespan.startup()"), source.index("create_server")
    asked = source.index("return config.http_protocol_class(")
    assert started < asked < listening
