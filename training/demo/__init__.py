"""Corpora written for this project, so that a fresh clone can train something real without fetching anything."""
