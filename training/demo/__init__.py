"""Corpora written for this project, so that a fresh clone can train a model without downloads."""
