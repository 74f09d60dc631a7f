"""Backends that step a network on a device: PyTorch on its own modules, or faster kernels that compute the same, in C
for CPUs and in Triton for GPUs."""
