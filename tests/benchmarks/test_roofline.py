"""The work of a decoding cell, counted from the network's own parameters, and the probes of the CPU's peaks."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.processes import Work
from benchmarks.roofline import demand, int8_peak, library, read_bandwidth, shares
from benchmarks.shapes import SHAPES, random_network

SHAPE = SHAPES["smoke"]
NEEDS_INT8 = pytest.mark.skipif(library() is None, reason="this CPU, or a compiler for it, is missing")


def weights(part: str) -> int:
    """The numbers of all matrices whose name has `part`."""
    parameters = random_network(SHAPE).named_parameters()
    return sum(parameter.numel() for name, parameter in parameters if parameter.ndim == 2 and part in name)


def test_one_token_read_and_one_written_multiply_each_weight_once() -> None:
    work = Work(((5,),), (1,), beam=1, concurrent=1, forced=True)
    output = SHAPE.vocabulary * SHAPE.width  # the embedding's table, tied
    assert weights("encoder") and weights("decoder")
    assert demand(SHAPE.config(), work, 1).multiply_adds == weights("encoder") + weights("decoder") + output


def test_rows_multiply_the_decoder_and_processes_read_their_own_weights() -> None:
    config = SHAPE.config()
    one = Work(((5,),), (1,), beam=1, concurrent=1, forced=True)
    beam = Work(((5,),) * 8, (3,) * 8, beam=4, concurrent=8, forced=True)
    row = demand(config, Work(((5,),), (2,), beam=1, concurrent=1, forced=True), 1).multiply_adds
    row -= demand(config, one, 1).multiply_adds
    source = demand(config, one, 1).multiply_adds - row
    assert demand(config, beam, 1).multiply_adds == 8 * source + 8 * 3 * 4 * row
    keys = 2 * 2 * SHAPE.layers * SHAPE.width  # bytes of a position's keys and values
    # two processes read all weights twice, and the same keys and values
    position_reads = 3 * (8 * 4 * (2 + 1) + 8 * 1) * keys
    assert demand(config, beam, 2).bytes == pytest.approx(2 * demand(config, beam, 1).bytes - position_reads)


@NEEDS_INT8
def test_the_probe_computes_every_product_that_it_counts() -> None:
    probe, sums = library(), np.zeros(16, np.int32)
    assert probe is not None
    count = probe.multiply_adds(1000, sums.ctypes.data)
    lanes = np.count_nonzero(sums)
    assert (sums[:lanes] == sums[0]).all()
    assert sums[0] * lanes * 12 == 3 * count  # twelve sums of products of 3 and 1


@NEEDS_INT8
def test_a_cell_that_takes_twice_as_long_has_half_the_share() -> None:
    work = Work(((5,) * 20,) * 4, (8,) * 4, beam=1, concurrent=4, forced=True)
    assert int8_peak(1) and read_bandwidth(1 << 20, 1, 1)
    fast, slow = (shares(SHAPES["tiny"].config(), work, seconds, 1, 1) for seconds in (0.001, 0.002))
    assert fast["int8_share"] == pytest.approx(2 * slow["int8_share"], rel=0.05)
    assert fast["int8_share"] > 0
