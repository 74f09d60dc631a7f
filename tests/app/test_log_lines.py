"""A log line is one line, and shows in a terminal what it says (CWE-117)."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator

import pytest
import uvicorn
from uvicorn.config import LOGGING_CONFIG

from app.errors import EngineError
from app.logs import JsonFormatter, TextFormatter, set_up_logging
from tests.app.api.client import Client

# every control character, both separators of lines, every sign that has an effect on direction, one half of a pair
CONTROLS = [
    *map(chr, (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029)),  # Cc, Zl and Zp, which Unicode never adds to
    *"\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ud800\udfff",
]
KEY = "a-key-of-the-operators"
FORGED = "x\n2026-01-01 00:00:00,000 INFO app.requests: POST /translate 200\x1b[2K\x9b2K\u202e"


@pytest.fixture(params=[TextFormatter, JsonFormatter])
def formatter(request: pytest.FixtureRequest) -> logging.Formatter:
    made: logging.Formatter = request.param()
    return made


@pytest.fixture
def written(formatter: logging.Formatter) -> Iterator[io.StringIO]:
    """What every logger but the client's says."""
    stream, root = io.StringIO(), logging.getLogger()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    handler.addFilter(lambda record: not record.name.startswith("httpx"))
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield stream
    root.removeHandler(handler)
    root.setLevel(level)


def controls_in(text: str) -> list[str]:
    return [character for character in text if character in CONTROLS]


def record_of(
    message: str, *arguments: object, error: BaseException | None = None, name: str = "app"
) -> logging.LogRecord:
    raised = (type(error), error, None) if error else None
    return logging.LogRecord(name, logging.INFO, __file__, 1, message, arguments, raised)


@pytest.mark.parametrize("name", ["app.engine", "uvicorn.error"])
def test_a_line_has_no_control_character(formatter: logging.Formatter, name: str) -> None:
    assert len(CONTROLS) > 75
    for control in CONTROLS:
        record = record_of("loads %s", f"a{control}b", name=name)
        record.fields = {"model": f"a{control}b"}
        line = formatter.format(record)
        assert controls_in(line) == [], ascii(control)
        assert "a\\" in line
        if isinstance(formatter, JsonFormatter):
            assert [controls_in(value) for value in json.loads(line).values()] == [[]] * 5


@pytest.mark.parametrize(
    "error", [RuntimeError(FORGED), OSError(FORGED), EngineError(FORGED)], ids=lambda each: type(each).__name__
)
def test_what_an_error_says_adds_no_line(formatter: logging.Formatter, error: Exception) -> None:
    line = formatter.format(record_of("failed", error=error))
    assert set(controls_in(line)) <= {"\n"}
    *_, said = json.loads(line)["traceback"].splitlines() if line.startswith("{") else line.splitlines()
    assert re.fullmatch(r"[\w.]+: x\\n2026.*\\x1b\[2K\\x9b2K\\u202e", said)


def test_what_clients_name_adds_no_line(written: io.StringIO) -> None:
    client = Client(admin_key=KEY)
    headers = {"Authorization": f"Bearer {KEY}", "User-Agent": b"\x9b2K", "X-Request-Id": b"a\x85b\x9b2K"}
    for name in ("%0A%1B%5B2K", "%C2%9B2K", "%E2%80%AE", "%E2%80%A8"):
        for method, path in (("GET", "curves"), ("POST", "load"), ("POST", "reload"), ("POST", "unload")):
            client.request(method, f"/models/{name}/{path}", headers=headers)
        client.post(f"/models/import?model={name}/{name}", headers=headers)
        client.get(f"/{name}?{name}", headers=headers)
    for body in ({"prompt": FORGED, "model": FORGED}, {"prompt": "a"}, {FORGED: FORGED}):
        client.post("/generate", json=body, headers=headers)
        client.post("/v1/completions", json=body, headers=headers)
    text = written.getvalue()
    assert text.count("app.requests") == 30
    assert set(controls_in(text)) == {"\n"}
    assert "2026-01-01" not in text


@pytest.mark.parametrize("style", ["text", "json"])
def test_lines_of_the_uvicorn_command_have_the_same_form(style: str) -> None:
    """Which sets up handlers of its own before it makes the app."""
    logger = logging.getLogger("uvicorn")
    before = (logger.handlers[:], logger.propagate, logger.level)
    try:
        uvicorn.Config("app.main:create_app", factory=True, log_config=LOGGING_CONFIG)
        (handler,) = logger.handlers
        assert isinstance(handler, logging.StreamHandler)
        stream = handler.stream = io.StringIO()
        set_up_logging("info", "json" if style == "json" else "text")
        logging.getLogger("uvicorn.error").info("Started %s", FORGED)
        line = stream.getvalue()
    finally:
        logger.handlers[:], logger.propagate, logger.level = before
    assert (controls_in(line), line.startswith("{")) == (["\n"], style == "json")
