"""Backends that step a network on a device: PyTorch on its own modules, or faster C kernels that compute the same."""
