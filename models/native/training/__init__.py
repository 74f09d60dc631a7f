"""The sublayers of a Transformer in C, forward and backward, for training in fp32 on a CPU.

What PyTorch does in some thirty calls, each of which writes all of its rows to memory, is one call here, and a block of
some ninety tokens goes through it whole. Sentences lie one behind the other without padding. `models.layers` computes
the same wherever these kernels cannot be; tests hold the one against the other.

dense.c          products; the gradient of a weight
heads.c          one head of attention over one sentence
around.c         layer norm, dropout and the residual connection
attention.c      self- and cross-attention with what stands around them
feed_forward.c   the feed-forward sublayer, likewise
norm.c           layer norm on top of a stack
embedding.c      embeddings and their table's gradient
cross_entropy.c  from features to the loss, without a matrix of all logits
team.c           threads
structures.py    the same structures in Python
packing.py       padded batches to packed ones
functions.py     what autograd calls
network.py       `models.transformer.Transformer` over them
"""
