"""Checkpoints of OPUS-MT and Marian in Hugging Face's folder form -> checkpoints of this project.

command.py       python -m training import-marian
hub.py           a folder, or a name on the hub
folder.py        the files of such a folder, read and never run
architecture.py  config.json -> TransformerConfig, or what stands against it
weights.py       its tensors under our names
vocabulary.py    its tokenizer
languages.py     which languages, and the token that asks a model with several for one
generation.py    how it is to be decoded
card.py          the model card
importing.py     the page that puts these together
"""
