"""From a domain request to tokens and back. Read in this order:

errors.py      what can go wrong, in words
jobs.py        what is asked and answered
streaming.py   answers bit by bit, to readers who may be slow
pool.py        front end: tokenizes, checks lengths, admits, asks, puts answers together
intake.py      texts to token ids, or a refusal that names the limit
asking.py      the messages that ask a device
attending.py   how large an attention answer would be
library.py     the checkpoints that the front end knows
admission.py   who may come in
throughput.py  how much is done in a second of work
switchboard.py who waits for what
writing.py     one text while it is written
detokenizing.py  tokens to text, one at a time
stopping.py    stop strings
views.py       tokens and attention as people see them
devices.py     all device processes, watched and respawned
device.py      the front end's end of one of them
messages.py    what crosses to a device process (msgpack, never pickle)
worker.py      the device process: reads messages, drives the scheduler, writes answers
scheduler.py   which requests share the next step
runner.py      the only caller of torch
"""
