"""The settings of the engine, as one section."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from app.engine.dispatch.placement import cpu_workers, inspection_threads, threads_each
from app.engine.protocol import messages as m


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """Times in seconds; see `app.settings` for what each means."""

    checkpoints: Path
    devices: str = "auto"
    cpu_threads: int = 0
    cpu_workers: int = 1  # 0: see `app.engine.dispatch.placement`
    precision: str = "auto"
    slots_per_model: int = 64
    max_inflight_requests: int = 1024
    max_queued_source_tokens: int = 65_536
    max_queue_age_s: float = 30.0
    request_timeout_s: float = 60.0
    stream_interval_ms: float = 20.0
    beam_size: int = 4
    length_penalty: float = 1.0
    max_new_tokens: int = 1024
    drain_timeout_s: float = 20.0
    worker_start_timeout_s: float = 60.0
    worker_hang_timeout_s: float = 10.0
    prefill_tokens: int = 2048
    log_level: str = "info"
    log_format: Literal["text", "json"] = "text"

    def configure(self) -> m.Configure:
        """What every device process is told; `Devices` fills in which device it is."""
        return m.Configure(
            device="",
            threads=threads_each(self.cpu_threads, cpu_workers(self.cpu_workers)),
            slots=self.slots_per_model,
            precision=self.precision,
            beam=self.beam_size,
            prefill_tokens=self.prefill_tokens,
            beat_s=min(1.0, self.worker_hang_timeout_s / 4),
            log_level=self.log_level,
            log_format=self.log_format,
            stream_interval_s=self.stream_interval_ms / 1000,
            inspection_threads=inspection_threads(self.cpu_threads),
        )
