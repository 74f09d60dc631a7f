"""A simulator of CUDA for machines without a GPU: see `tests.cuda_simulator.simulator`."""

from tests.cuda_simulator.counts import Copy, Counts
from tests.cuda_simulator.simulator import SimulatedCuda, simulated_cuda

__all__ = ["Copy", "Counts", "SimulatedCuda", "simulated_cuda"]
