"""Offline training: text -> checkpoint.

`cli` parses options into one `config`; `data` reads, cleans, segments and batches; `loop` trains, validates, saves and
resumes, on one process or on the group of `distributed`; `evaluation` scores through `models.decoding.decoder`;
`report` writes metrics, curves and the model card."""

import signal
import sys
import time

STARTED = time.monotonic()  # of the command: this package is imported before PyTorch, which takes seconds
if sys.argv[:1] == ["-m"] and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # of `python -m training`: until `main` begins, Ctrl-C ends it without a traceback
    signal.signal(signal.SIGINT, signal.SIG_DFL)
