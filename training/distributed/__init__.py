"""Data-parallel training in several processes, started by torchrun or by --processes."""
