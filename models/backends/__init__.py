"""What steps a network on a device: PyTorch on its own modules, or kernels in C that compute the same faster."""
