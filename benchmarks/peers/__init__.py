"""Whom we race, each with the weights of a Parlance checkpoint.

ctranslate2.py   CTranslate2, through its specification classes
marian.py        Hugging Face's MarianMTModel
eager.py         a plain PyTorch loop over a static cache, eager or compiled: where CTranslate2 does not run
"""
