"""Copies between the host and a device that the host does not wait for. On a CPU they are plain copies."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Array = npt.NDArray[Any]


def upload(array: Array, device: torch.device) -> Tensor:
    """The array on the device. It is staged in pinned memory, which PyTorch's allocator keeps until the copy is done:
    the caller may overwrite the array at once."""
    if device.type == "cpu":
        return torch.from_numpy(array.copy())
    return torch.from_numpy(array).pin_memory().to(device, non_blocking=True)


class Readback:
    """Reads results of a device in turn: `start` begins a copy into the next of two pinned buffers, `wait` returns the
    oldest copy that has not been waited for. At most two copies are under way."""

    def __init__(self, device: torch.device) -> None:
        self._device, self._cuda = device, device.type == "cuda"
        self._buffers = [torch.empty(0, pin_memory=self._cuda) for _ in range(2)]
        self._arrays: list[npt.NDArray[np.float32]] = [buffer.numpy() for buffer in self._buffers]
        self._events = [torch.cuda.Event() for _ in range(2 * self._cuda)]  # type: ignore[no-untyped-call]
        self._sizes = [0, 0]
        self._started = self._waited = 0

    def start(self, result: Tensor) -> None:
        """result [N], float32, on the device; it may be overwritten by later work on the current stream."""
        turn, size = self._started & 1, result.numel()
        if len(self._arrays[turn]) < size:
            self._buffers[turn] = torch.empty(size, pin_memory=self._cuda)
            self._arrays[turn] = self._buffers[turn].numpy()
        self._buffers[turn][:size].copy_(result, non_blocking=True)
        if self._cuda:
            self._events[turn].record(torch.cuda.current_stream(self._device))  # another device may be the current one
        self._sizes[turn] = size
        self._started += 1

    def wait(self) -> npt.NDArray[np.float32]:
        """[N]: valid until the second `start` from here. RuntimeError if the device failed."""
        turn = self._waited & 1
        self._waited += 1
        if self._cuda:
            self._events[turn].synchronize()
        return self._arrays[turn][: self._sizes[turn]]

    def drop(self) -> None:
        """Forgets the copies under way, which may still write into their buffers: later ones are ordered after them."""
        self._waited = self._started
