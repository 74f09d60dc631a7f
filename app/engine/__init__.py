"""From a domain request to tokens and back. Read in this order:

errors.py      what can go wrong, in words
jobs.py        what is asked and answered
pool.py        front end: tokenizes, checks lengths, admits, asks, puts answers together
options.py     how it is set up
intake.py      texts to token ids, or a refusal that names the limit
library.py     the checkpoints that the front end knows, each in its current edition
shelf.py       models come and go while requests run
admission.py   who may come in
switchboard.py who waits for what
metrics.py     what the front end counts, for Prometheus
meter.py       one sequence from its sending to its end
gauges.py      what is looked up at each scrape
series.py      the names and labels of all this
stopping.py    stop strings
views.py       tokens and attention as people see them
devices.py     all device processes, watched and respawned
placement.py   which device processes there are
device.py      the front end's end of one of them
messages.py    what crosses to a device process (msgpack, never pickle)
worker.py      the device process: reads messages, drives the scheduler, writes answers
scheduler.py   which requests share the next step
lane.py        one model's requests there: who waits, who runs, who starts next
runner.py      the only caller of torch
"""
