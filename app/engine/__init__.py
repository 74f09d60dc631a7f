"""The engine: from a domain request to tokens and back, over one process per device.

In the front end's process, in the order of a request's way:

interface.py        Engine, and the requests and results that callers see
async_engine.py     the engine over device processes: what is started, loaded and stopped
tasks/              one use case a file: translation, generation, attention, gates, score, alignment
input_processor.py  texts to token ids and messages, or a refusal that names the limit
admission.py        bounds on requests, tokens and waiting time, and the estimate of the wait
registry/           the checkpoints that are offered, and how models are loaded, reloaded and unloaded
dispatch/           to the least busy device process; processes are placed, supervised and respawned
output/             tokens to text, and token views
metrics/            for Prometheus and traces

Across the boundary: protocol/ (typed messages, msgpack, never pickle).

In a device process, the only one that imports torch: worker/ (main loop, scheduler, request queue, models, inspection).
"""
