"""python -m app: serve on --host and --port. From SIGTERM on /health/ready is 503, and everything else is answered as
before for PARLANCE_SHUTDOWN_DELAY_S, in which load balancers notice. Then, and at once after Ctrl-C, the server drains:
new connections are refused, requests in flight have PARLANCE_DRAIN_TIMEOUT_S to end and are then refused with 503. The
exit status is 0. A second signal ends at once."""

from __future__ import annotations

import sys

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
    if settings.front_ends > 1:
        from app.front_ends.engine_process import serve_front_ends  # few services have several

        serve_front_ends(settings)
        return
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


if __name__ == "__main__":
    main()
