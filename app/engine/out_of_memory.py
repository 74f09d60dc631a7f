"""Which failures mean that a device was full."""

from __future__ import annotations

import torch

NO_MEMORY = ("can't allocate memory", "CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED")


def out_of_memory(error: BaseException) -> bool:
    """Whether less work at once could succeed where this failed."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in NO_MEMORY)
