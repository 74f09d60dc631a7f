"""Measuring models through `models.decoding`: BLEU, chrF, perplexity, memorisation, alignment error."""
