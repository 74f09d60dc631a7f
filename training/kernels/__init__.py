"""Optional C kernels that train Transformers and GRUs on a CPU in fp32; training is whole without them."""
