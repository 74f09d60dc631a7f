"""Every figure that we claim, against whom it is claimed, in one command each: python -m benchmarks.NAME [--json].

report.py        the form in which every benchmark ends
lyricists.py     the tutorials' RNN and GRU recipes against an independent reference
decoding.py      our decoding against CTranslate2's and Hugging Face Marian's, the same weights, on a CPU
gpu.py           our decoding on a CUDA device, against CTranslate2 or plain loops and against the bytes moved
shapes.py        the shapes that are raced, with random weights
sentences.py     real sentences for the natural-length run
race.py          a scan for everybody's best setting, then turns, then ratios
processes.py     contenders in processes of their own, and the clock
ours.py          Parlance as a contender: the engine's own runner
steps.py         the time of one step, and the host's share of it
limit.py         the bytes that a step must move, and how fast a copy moves them
peers/           whom we race
multi30k.py      a translator of real sentences: trained, scored once, served, asked over HTTP
"""
