"""What this process can know of the torchrun that has started it, before it meets the others."""

from __future__ import annotations

import os
from pathlib import Path

from training import snapshot


def environment_rank() -> int:
    """Before the process has joined: which one torchrun says that it is."""
    return int(os.environ.get("RANK", "0"))


def restarted(out: Path | None) -> bool:
    """Whether `out` holds what this very torchrun had trained before it lost a process and started all again."""
    if out is None or not launch_name() or not snapshot.exists(out):
        return False
    return bool(snapshot.load(out).get("launch") == launch_name())


def launch_name() -> str:
    """Which torchrun has started this process, and started it again if it has; "" for none."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return ""
    parent = os.getppid()
    stat = Path(f"/proc/{parent}/stat")  # a process id alone comes again one day
    started = stat.read_text().rpartition(")")[2].split()[19] if stat.exists() else ""
    return f"{os.environ['TORCHELASTIC_RUN_ID']} {parent} {started}"
