"""The fields of what OpenAI's clients send and read.

completion.py  POST /v1/completions: the request
answer.py      and its answer
models.py      GET /v1/models
errors.py      the body of every error
"""
