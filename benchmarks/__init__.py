"""Every figure that we claim, against whom it is claimed, in one command each: python -m benchmarks.NAME [--json].

report.py        the form in which every benchmark ends
lyricists.py     the tutorials' RNN and GRU recipes against an independent reference
multi30k.py      a translator of real sentences: trained, scored once, served, asked over HTTP
precision.py     what int8 and bf16 change: BLEU, and answers beside others
"""
