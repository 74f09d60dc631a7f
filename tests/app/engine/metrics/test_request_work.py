"""What the engine's tasks add to the record of an HTTP request."""

from __future__ import annotations

from app.engine.metrics import CURRENT_WORK, RequestWork
from tests.app.engine.engine_thread import Running, generate
from tests.request_builders import translation_request


def test_tasks_record_their_work(running: Running) -> None:
    async def recorded() -> RequestWork:
        work = RequestWork()
        CURRENT_WORK.set(work)
        await running.pool.translate([translation_request("ich", "de", "en"), translation_request("ein", "de", "en")])
        assert (work.model, work.sequences, work.failed) == ("tiny-de-en", 2, "")
        assert work.read_tokens > 0 and work.new_tokens > 0
        await running.pool.generate(generate(n=3, max_new_tokens=2))
        return work

    work = running.do(recorded())
    assert (work.model, work.sequences) == ("tiny-lyrics", 5)
