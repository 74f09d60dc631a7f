"""The queueing simulation against loads whose answer is known by arithmetic."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.capacity import Costs, Loop, Simulation, fit, plan, scale

COSTS = Costs(
    front_end_s=0.001, client_s=0.0002, step_s=0.0005, request_s=0.002, tokens=1, cores=8.0, devices=2
)  # fmt: skip


def test_one_client_waits_for_every_part_in_turn() -> None:
    rate = Simulation(COSTS).closed(1, 200)
    assert rate == pytest.approx(
        1 / (0.0002 + 0.001 + 0.0005 + 0.002), rel=0.02
    )  # one sentence in fifteen takes a second step


def test_a_front_end_that_is_busy_all_the_time_is_the_limit() -> None:
    """Two devices, with requests joining one by one, could answer more than the front end."""
    assert Simulation(replace(COSTS, request_s=0.0001)).closed(64, 2000) == pytest.approx(1000, rel=0.02)


def test_fewer_cores_than_processes_share_their_work() -> None:
    """With steps that cost nothing, a request takes 3.2 ms of a processor wherever it runs."""
    costs = replace(COSTS, step_s=0.0, cores=1.0)
    assert Simulation(costs).closed(64, 2000) == pytest.approx(1 / 0.0032, rel=0.02)


def test_batches_make_steps_cheaper() -> None:
    costs = replace(COSTS, front_end_s=1e-5, client_s=1e-5, request_s=1e-5, step_s=0.001, tokens=10, devices=1)
    assert Simulation(costs).closed(64, 2000) > 20 * Simulation(costs).closed(1, 100)


def test_front_ends_share_requests_until_the_engine_process_is_the_limit() -> None:
    costs = replace(COSTS, request_s=0.0001, step_s=0.0001, cores=64.0, devices=32, engine_s=0.0004)
    two, eight = (Simulation(replace(costs, front_ends=n)).closed(256, 4000) for n in (2, 8))
    assert two == pytest.approx(2000, rel=0.05)  # 1 ms a request in each front end
    assert eight == pytest.approx(2500, rel=0.05)  # 0.4 ms a request in the one engine process


def test_scale_takes_the_split_of_the_cores_that_answers_most() -> None:
    heavy = replace(COSTS, step_s=0.0, request_s=0.01, engine_s=0.0)  # ten times the work of the front end
    by_cores = {row["cores"]: row for row in scale(heavy, None)}
    assert by_cores[1]["requests_a_second"] == pytest.approx(1 / 0.011, rel=0.05)
    assert by_cores[8]["requests_a_second"] == pytest.approx(700, rel=0.05)  # seven devices
    assert by_cores[64]["requests_a_second"] == pytest.approx(1000, rel=0.05)  # one front end
    several = {row["cores"]: row for row in scale(heavy, replace(heavy, engine_s=0.0001))}
    assert several[64]["front_ends"] > 1
    assert several[64]["requests_a_second"] > 4000


def test_latency_grows_with_the_load() -> None:
    limit = 1 / COSTS.front_end_s
    low, high = (sorted(Simulation(COSTS).open(share * limit, 2000))[1980] for share in (0.2, 0.9))
    assert high > 1.5 * low
    assert low >= 0.0037 / 2


def test_costs_are_recovered_from_loops_that_have_them() -> None:
    def loop(clients: int, requests: int, steps: int) -> Loop:
        device_s = steps * 0.0005 + requests * 0.002
        return Loop(clients, requests, 10.0, requests * 0.001, device_s, requests * 0.0002, steps, requests * 5.0)

    costs = fit(loop(8, 1000, 4000), loop(64, 3000, 2000), 2, 1.5)
    found = (costs.step_s, costs.request_s, costs.front_end_s, costs.client_s, costs.tokens, costs.cores)
    assert found == pytest.approx((0.0005, 0.002, 0.001, 0.0002, 5.0, 1.5))
    noisy = fit(loop(8, 1000, 4000), replace(loop(64, 3000, 2000), device_s=0.1), 2, 1.5)
    assert noisy.request_s >= 0 and noisy.request_s * 3000 + noisy.step_s * 2000 == pytest.approx(0.1)


def test_a_million_requests_a_day_are_planned_for_the_busiest_hour() -> None:
    day = plan(0.001, 0.002, 1e6)
    assert day["requests_a_second_peak"] == pytest.approx(34.72)
    assert day["cores"] == pytest.approx(34.72 * 0.003 / 0.7, abs=0.01)
    assert day["front_end_saturates_at_requests_a_second"] == 1000
    assert day["device_cores_that_saturate_it"] == 2
