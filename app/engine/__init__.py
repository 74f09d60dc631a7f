"""The engine: from a domain request to tokens and back, over one process per device.

In the front end's process, in the order in which a request passes through:

interface.py        Engine, and the requests and results that callers see
async_engine.py     starts, loads and stops the device processes
tasks/              one use case per file: translation, generation, attention, gates, score, alignment
input_processor.py  texts to token ids and messages, or a refusal that names the limit
admission.py        bounds on requests, tokens and waiting time, and the estimate of the wait
registry/           the checkpoints on offer; loads, reloads and unloads models
dispatch/           sends to the least busy device process; places, supervises and respawns processes
output/             tokens to text, and token views
metrics/            Prometheus metrics and spans

Across the boundary: protocol/ (typed messages, msgpack, never pickle).

In a device process, the only one that imports torch: worker/ (main loop, scheduler, queue, models, inspections)."""
