"""Whom we are measured against, each as well made as we can.

translator.py       the same checkpoint, a whole batch run to completion: what the peer servers hold
batching_server.py  plain FastAPI with dynamic batching
litserve_server.py  the same behind LitServe
gru_loop.py         one nn.GRU, a Python loop, one stream after another
"""
