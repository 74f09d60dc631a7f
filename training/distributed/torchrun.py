"""What torchrun says of this process, and `--processes N`: torchrun's work without its logs and tables."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

from training.loop import snapshot


def environment_rank() -> int:
    """Before the process has joined: which one torchrun says that it is."""
    return int(os.environ.get("RANK", "0"))


def restarted_by_torchrun(out: Path | None) -> bool:
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


def launch_processes(count: int, module: str, arguments: Sequence[str]) -> int:
    """Run `python -m module arguments` in so many processes, one group; the exit code for all of them: 0, or 2 where a
    mistake of the user's ended them, or 130 where he did, or 1."""
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, cores // count)))
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)  # the processes speak for themselves
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=count,
        run_id=uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=0,
    )
    try:
        elastic_launch(config, sys.executable)("-m", module, *arguments)
    except ChildFailedError as error:
        return 2 if any(failure.exitcode == 2 for failure in error.failures.values()) else 1
    except (SignalException, KeyboardInterrupt):
        return 130
    return 0
