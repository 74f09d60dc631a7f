"""Attention of one sentence in other people's tools, one script each: python -m examples.NAME CHECKPOINT TEXT."""
