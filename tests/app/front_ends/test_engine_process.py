"""What the engine process gives its front ends, and the address that it holds for them."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from app.front_ends import codec, engine_process
from app.front_ends.engine_process import hold_address, serve_front_ends, settings_of_front_end
from app.server import bound_sockets
from app.settings import Settings


def arrived(settings: Settings) -> Settings:
    """The settings of a front end, after their way through a socket."""
    message = codec.encode_value(codec.Start(settings_of_front_end(settings)))
    (start,) = codec.to_front_end(codec.frame([message])[4:])
    assert isinstance(start, codec.Start)
    return Settings(**json.loads(start.settings))


@pytest.mark.parametrize(
    "values",
    [
        {},
        {
            "checkpoints": Path("elsewhere"),
            "data": Path("/data"),
            "devices": "cpu",
            "slots_per_model": 9,
            "admin_key": "correct-horse-battery",
            "redis_url": "redis://:secret@redis:6379/0",
            "rate_limit": "60/minute;1000/hour",
            "quota": "500000/month",
            "cors_origins": "https://example.org,chrome-extension://abc",
            "trusted_proxies": "10.0.0.0/8",
            "public_url": "https://example.org/mt",
            "keep_alive_timeout_s": 0.5,
            "log_format": "json",
            "pivot": False,
            "max_url_bytes": 10**20,
        },
    ],
)
def test_settings_arrive_as_they_were_given(values: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(**values)
    monkeypatch.setenv("PARLANCE_PORT", "9")  # an option of the command line wins over the environment here too
    assert arrived(settings) == settings


def test_limits_of_a_process_are_divided() -> None:
    settings = Settings(front_ends=4, max_connections=10, max_connections_per_client=2, cache_mb=100)
    share = arrived(settings)
    assert (share.max_connections, share.max_connections_per_client, share.cache_mb) == (3, 1, 25)
    assert share.max_uploaded_bytes == settings.max_uploaded_bytes // 4
    kept = {"max_connections", "max_connections_per_client", "cache_mb", "max_uploaded_bytes"}
    assert settings.model_dump(exclude=kept) == share.model_dump(exclude=kept)


def test_share_of_uploads_takes_the_largest_body() -> None:
    share = arrived(Settings(front_ends=8, max_uploaded_bytes=12_000_000, max_file_bytes=10_000_000))
    assert share.max_uploaded_bytes == 10_000_000


def test_held_address_is_shared_with_front_ends_and_with_no_other_service() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    held = hold_address("127.0.0.1", port)
    front_ends = [*bound_sockets("127.0.0.1", port, shared=True), *bound_sockets("127.0.0.1", port, shared=True)]
    try:
        with pytest.raises(SystemExit, match=f"port {port} of 127.0.0.1 is in use"):
            hold_address("127.0.0.1", port)
        with pytest.raises(ConnectionRefusedError):  # nobody listens yet
            socket.create_connection(("127.0.0.1", port), 5)
        front_ends[0].listen()
        for _ in range(8):  # what is held, and does not listen, gets no connection
            socket.create_connection(("127.0.0.1", port), 5).close()
    finally:
        for bound in (*held, *front_ends):
            bound.close()


def test_of_two_services_that_start_at_once_one_gets_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have checked the address before either holds it."""
    monkeypatch.setattr(engine_process, "check_address", lambda host, port: None)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    held = hold_address("127.0.0.1", port)
    try:
        with pytest.raises(SystemExit, match="is in use"):
            hold_address("127.0.0.1", port)
        for listening in bound_sockets("127.0.0.1", port, shared=True):
            with listening:
                listening.listen()
    finally:
        for bound in held:
            bound.close()


def test_other_systems_have_one_front_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(SystemExit, match="on Linux alone"):
        serve_front_ends(Settings(front_ends=2))
