"""The engine's section of the settings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """Fields have the names of the settings that fill them; `app.settings` says what each means. Times in seconds."""

    checkpoints: Path
    devices: str = "auto"
    cpu_threads: int = 0
    cpu_workers: int = 1
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
