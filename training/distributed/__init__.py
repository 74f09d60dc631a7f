"""Several processes that train one network together, started by torchrun or by --processes."""
