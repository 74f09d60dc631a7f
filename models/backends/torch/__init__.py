"""Steps in PyTorch: the network's own modules over static caches, and CUDA graphs of them."""
