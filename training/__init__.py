"""Offline training: text -> checkpoint.

`cli` parses options into one `config`; `data` reads, cleans, segments and batches; `loop` trains, validates, saves and
resumes, on one process or on the group of `distributed`; `evaluation` scores through `models.decoding.decoder`;
`report` writes metrics, curves and the model card."""

import time

STARTED = time.monotonic()  # of the command: this package is imported before PyTorch, which takes seconds
