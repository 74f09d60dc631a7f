"""Beam search in C over the arrays of `models.interface.BeamTable`: beam.c's structures, and a call of it."""

from __future__ import annotations

import ctypes
from ctypes import c_int64, c_void_p

import numpy as np

from models.backends.native.build import address_of
from models.backends.native.logit_kernels import MOST
from models.interface import BeamTable, EndedBeam

MOST_STEPS = 32  # of a call
ENDED = np.dtype(
    [*((name, np.int64) for name in ("beam", "row", "length")), ("log_probability", "f8"), ("score", "f8")]
)
ARRAYS = (  # in the order of beam.c's `Beams`
    *("tokens", "parents", "log_probabilities", "lengths", "limits", "shared", "full", "done"),
    *("worst", "ended_scores", "ended_counts", "divisors"),
)


class Arrays(ctypes.Structure):
    _fields_ = [*((name, c_int64) for name in ("width", "longest")), *((name, c_void_p) for name in ARRAYS)]


class Search(ctypes.Structure):
    _fields_ = [
        *((name, c_int64) for name in ("eos", "forced_end", "renormalise")),
        *(("suppressed", c_void_p), ("suppressed_count", c_int64), ("most_steps", c_int64), ("nanoseconds", c_int64)),
        *(("ended", c_void_p), ("ended_count", c_int64), ("steps", c_int64)),
    ]


class BeamCall:
    """What calls of `advance_beams` with one table have in common. The structures point into the table's arrays."""

    def __init__(self, table: BeamTable) -> None:
        room, longest, width = table.tokens.shape
        self.table = table
        self.suppressed = np.array(table.suppressed, dtype=np.int64)
        self._ended = np.empty(MOST_STEPS * room * width, dtype=ENDED)
        self.arrays = Arrays(width, longest, *(getattr(table, name).ctypes.data for name in ARRAYS))
        eos = -1 if table.eos is None else table.eos
        self.search = Search(
            *(eos, table.forced_end, table.renormalise, self.suppressed.ctypes.data, len(self.suppressed)),
            *(MOST_STEPS, 0, address_of(self._ended), 0, 0),
        )
        self.addresses = ctypes.addressof(self.arrays), ctypes.addressof(self.search)

    @staticmethod
    def suits(table: BeamTable, outputs: int) -> bool:
        """Whether the kernels rank as many candidates of a row as the beams need."""
        width: int = table.tokens.shape[2]
        return 2 * width <= min(MOST, outputs)

    def ended(self) -> list[EndedBeam]:
        """The hypotheses that the last call has ended, in the order in which they ended."""
        if not (count := self.search.ended_count):
            return []
        return [EndedBeam(*values) for values in self._ended[:count].tolist()]
