"""The models that are known: their checkpoints, their lifecycle, their model cards and training curves."""
