"""From a domain request to tokens and back. Read in this order:

errors.py      what can go wrong, in words
jobs.py        what is asked and answered
pool.py        front end: tokenizes, checks lengths, admits, asks, puts answers together
intake.py      texts to token ids, or a refusal that names the limit
library.py     the checkpoints that the front end knows
admission.py   who may come in
switchboard.py who waits for what
metrics.py     what the front end counts, for Prometheus
meter.py       one sequence from its sending to its end
gauges.py      what is looked up at each scrape
series.py      the names and labels of all this
stopping.py    stop strings
views.py       tokens and attention as people see them
devices.py     all device processes, watched and respawned
device.py      the front end's end of one of them
messages.py    what crosses to a device process (msgpack, never pickle)
worker.py      the device process: reads messages, drives the scheduler, writes answers
scheduler.py   which requests share the next step
runner.py      the only caller of torch
"""
