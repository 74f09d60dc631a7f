"""python -m app: serve on --host and --port. From SIGTERM, or SIGHUP of a closed terminal, on /health/ready is 503, and
everything else is answered as before for PARLANCE_SHUTDOWN_DELAY_S, in which load balancers notice. Then, and at once
after Ctrl-C, the server drains: new connections are refused, requests in flight have PARLANCE_DRAIN_TIMEOUT_S to end
and are then refused with 503. The exit status is 0. A second SIGTERM or Ctrl-C ends at once."""

from __future__ import annotations

import logging
import sys

from app import logs
from app.api.foreign_pages import is_loopback
from app.main import create_app
from app.server import Server, check_address, server_config
from app.settings import Settings, SettingsParser, mistakes_end_with_status_2


def main() -> None:
    with mistakes_end_with_status_2():
        settings, _ = SettingsParser("python -m app").settings(None)
        check_address(settings.host, settings.port)
        serve(settings)


def serve(settings: Settings) -> None:
    """Returns after a drained end; SystemExit where the server could not start."""
    warn_of_open_address(settings)
    app = create_app(settings)
    engine = app.state.services.engine
    server = Server(
        server_config(app, settings),
        announce=engine.announce_shutdown,
        drain=engine.drain,
        delay_s=settings.shutdown_delay_s,
    )
    server.run()
    if not server.started:
        sys.exit(3)  # uvicorn's own status for this; it has said why


def warn_of_open_address(settings: Settings) -> None:
    """Logs a warning where other machines may use the server without a key."""
    keys_needed = settings.keys_file and settings.key_required
    if settings.host == "localhost" or is_loopback(settings.host) or keys_needed:
        return
    logs.set_up_logging(settings.log_level, settings.log_format)
    logging.getLogger(__name__).warning(
        "Listening on %s without keys: every machine that reaches port %d may use this server. Make a key with"
        " `parlance keys add` and set PARLANCE_KEYS_FILE (and PARLANCE_KEY_REQUIRED=true), or listen on 127.0.0.1.",
        settings.host,
        settings.port,
    )


if __name__ == "__main__":
    main()
