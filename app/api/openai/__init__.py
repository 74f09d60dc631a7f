"""What OpenAI's clients speak, for the lyricists: POST /v1/completions and GET /v1/models.

route.py        the route class, and their body of an error
completions.py  POST /v1/completions
asking.py       from a request to what the engine is asked
prompts.py      the prompts as tokens, where they are told back
choices.py      from what was written to the fields of an answer
chunks.py       the same as server-sent events
models.py       GET /v1/models and /v1/models/{model}
"""
