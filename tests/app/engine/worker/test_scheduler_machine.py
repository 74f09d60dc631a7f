"""A few made-up lives of a scheduler; `tests/fuzz/test_scheduler.py` makes up thousands."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.app.engine.worker.scheduler_machine import SchedulerMachine
from tests.combinations import slow_but


@pytest.mark.parametrize("lives", slow_but([3, 60], 3))
def test_made_up_lives_of_a_scheduler(lives: int) -> None:
    run_state_machine_as_test(
        SchedulerMachine,
        settings=settings(max_examples=lives, stateful_step_count=40, deadline=None, derandomize=True, database=None),
    )
