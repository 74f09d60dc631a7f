"""A served app freezes the objects of its start, so that garbage collections skip them."""

from __future__ import annotations

import asyncio
import gc

from app.main import create_app
from app.settings import Settings
from tests.app.api.fake_engine import FakeEngine


def test_objects_of_the_start_are_frozen_for_the_garbage_collector() -> None:
    async def run() -> tuple[int, int]:
        app = create_app(Settings(), FakeEngine())
        async with app.router.lifespan_context(app):
            return gc.get_freeze_count(), len(gc.get_objects())

    before = gc.get_freeze_count()  # the modules of all tests, and apps of others
    frozen, walked = asyncio.run(run())
    assert frozen - before > 10 * walked
