"""Corpora -> clean sentence pairs and texts -> token ids -> batches."""
