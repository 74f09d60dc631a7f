"""How many threads a look computes with. A step of decoding is best on one, and several workers share the cores; a look
is one large pass that somebody waits for, and takes them all for a tenth of a second."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def threads(count: int) -> Iterator[None]:
    """0: as it is."""
    before = torch.get_num_threads()
    if count:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
