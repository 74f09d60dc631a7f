"""Whom we race, each with the weights of a Parlance checkpoint, and each as well made as we can.

ctranslate2.py   CTranslate2, through its specification classes
marian.py        Hugging Face's MarianMTModel
eager.py         a plain PyTorch loop over a static cache, eager or compiled: where CTranslate2 does not run
translator.py       the same checkpoint, a whole batch run to completion: what the peer servers hold
batching_server.py  plain FastAPI with dynamic batching
litserve_server.py  the same behind LitServe
gru_loop.py         one nn.GRU, a Python loop, one stream after another
"""
