"""A served app keeps what it was built of out of the garbage collector's way."""

from __future__ import annotations

import asyncio
import gc

from app.main import create_app
from app.settings import Settings
from tests.app.api.fake_engine import FakeEngine


def test_what_is_there_at_the_start_is_not_walked_through_again() -> None:
    async def run() -> tuple[int, int]:
        app = create_app(Settings(), FakeEngine())
        async with app.router.lifespan_context(app):
            return gc.get_freeze_count(), len(gc.get_objects())

    gc.unfreeze()  # by apps of other tests
    try:
        frozen, walked = asyncio.run(run())
    finally:
        gc.unfreeze()
    assert frozen > 10 * walked
