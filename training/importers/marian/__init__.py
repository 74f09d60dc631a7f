"""Imports OPUS-MT and Marian checkpoints from Hugging Face folders."""
