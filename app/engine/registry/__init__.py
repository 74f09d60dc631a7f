"""The models on offer: their checkpoints, lifecycle, model cards and training curves."""
