"""Checkpoints of OPUS-MT and Marian in Hugging Face's folder form -> checkpoints of this project."""
