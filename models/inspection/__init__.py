"""What a network can show of itself: numbers only, in fp32. Nothing here knows of HTTP, and
nothing is ever left on a network: whatever a pass finds is in an object that its caller owns.

selection.py     kinds, layers, heads and rows, and what is said of those that are not there
maps.py          attention maps of chosen layers and heads
forced.py        one teacher-forced pass: maps, logits, a worked softmax row; with heads taken away if wished
steps.py         log-probability, rank, entropy and alternatives of each output token
heads.py         what a head does: entropy, where its mass lies, its role
roles.py         what these numbers are, and the thresholds of roles; without torch
rollout.py       attention through all layers at once
alignment.py     from a map to links between words
alignment_error.py  Pharaoh text and the alignment error rate
choosing.py      which layer, heads and convention align best
ablation.py      what changes without some heads
walkthrough.py   a forward pass told step by step; sublayers.py its sublayers, walked.py one step
together.py      several sentences in one pass: what aligns, and how probable their tokens are
interop.py       the forms that other tools read
"""
