"""From a domain request to tokens and back. Read in this order:

errors.py      what can go wrong, in words
jobs.py        what is asked and answered
pool.py        front end: tokenizes, admits, picks a device process, resolves waiters
messages.py    what crosses to a device process (msgpack, never pickle)
worker.py      the device process: reads messages, drives the scheduler, writes answers
scheduler.py   which requests share the next step
runner.py      the only caller of torch
"""
