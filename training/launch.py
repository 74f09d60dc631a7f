"""`--processes N`: what `torchrun --standalone --nproc-per-node=N` does, without its logs and tables."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from uuid import uuid4


def launch(count: int, module: str, arguments: Sequence[str]) -> int:
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
