"""What is looked up at each scrape and never kept: so no gauge can drift, and all are 0 when nothing is in work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from app.engine import messages as m
from app.engine.jobs import Engine
from app.engine.series import LABELS, PREFIX


class Gauges(Collector):
    """inflight: (model, device) -> sequences that the front end waits for, exact at any time. lanes: device -> model
    -> the last beat's statistics of each of its versions, up to a beat old. deaths: device -> processes that ended."""

    def __init__(self, inflight: Mapping[tuple[str, str], int]) -> None:
        self.inflight = inflight
        self.lanes: dict[str, dict[str, list[m.LaneStatistics]]] = {}
        self.deaths: Counter[str] = Counter()
        self.engine: Engine | None = None

    def describe(self) -> list[Metric]:
        return []  # so that nothing is collected when this is registered

    def collect(self) -> Iterator[Metric]:
        running = _by_model("num_requests_running", "Sequences in the slots of a device.")
        waiting = _by_model("num_requests_waiting", "Sequences that a device has not begun to read.")
        slots = _by_model("slots", "Sequences that a model can work on at once.")
        used = _by_model("slots_used", "Slots that are taken; a beam of k takes k.")
        usage = _by_model("kv_cache_usage_perc", "Share of the slots that are taken; 1 is all of them.")
        for model, device in sorted(self.loaded()):
            labels, inflight = (model, device), self.inflight.get((model, device), 0)
            lanes = self.lanes.get(device, {}).get(model, [])
            queued = min(inflight, sum(lane.waiting for lane in lanes))
            waiting.add_metric(labels, queued)
            running.add_metric(labels, inflight - queued)
            if lanes:
                room, taken = sum(lane.slots for lane in lanes), sum(lane.rows for lane in lanes)
                taken = taken if inflight else 0  # a beat is old news; nobody waits for what it tells of
                slots.add_metric(labels, room)
                used.add_metric(labels, taken)
                usage.add_metric(labels, taken / room if room else 0)
        yield from (running, waiting, slots, used, usage)
        yield from self._devices()

    def loaded(self) -> set[tuple[str, str]]:
        """Every (model, device) that takes requests or still has some."""
        found = {pair for pair, count in self.inflight.items() if count}
        found |= {(model, device) for device, models in self.lanes.items() for model in models}
        if self.engine is not None:
            found |= {(info.name, device) for info in self.engine.models() for device in info.devices}
        return found

    def _devices(self) -> Iterator[Metric]:
        if self.engine is None:
            return
        ready = GaugeMetricFamily(f"{PREFIX}device_ready", "1: takes requests.", labels=["device"])
        loaded = GaugeMetricFamily(f"{PREFIX}models_loaded", "Models that a device has loaded.", labels=["device"])
        deaths = CounterMetricFamily(f"{PREFIX}device_deaths", "Device processes that ended.", labels=["device"])
        models = self.engine.models()
        for device, state in self.engine.status().devices.items():
            ready.add_metric([device], float(state == "ready"))
            loaded.add_metric([device], sum(device in info.devices for info in models))
            deaths.add_metric([device], self.deaths[device])
        yield from (ready, loaded, deaths)


def _by_model(name: str, text: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(PREFIX + name, text, labels=LABELS)
