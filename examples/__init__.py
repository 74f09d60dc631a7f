"""Attention of one sentence in other people's tools, one script each: python -m examples.NAME CHECKPOINT TEXT; and a
tutorial's model to walk through: python -m examples.random_transformer FOLDER."""
