"""Made-up lives of a scheduler: FUZZ_EXAMPLES of up to 80 rules each."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.app.engine.worker.scheduler_machine import SchedulerMachine
from tests.fuzz.examples import EXAMPLES, SEED

pytestmark = pytest.mark.fuzz


def test_made_up_lives_of_a_scheduler() -> None:
    run_state_machine_as_test(
        seed(SEED)(SchedulerMachine),
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=80,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
