"""Offline training: text -> checkpoint.

`cli` reads options into one `config`; `data` reads, cleans, segments and batches; `loop` steps, validates, saves and
resumes, on one process or on those of `distributed`; `evaluation` scores through `models.decoding.decoder`; `report`
writes metrics, curves and the model card."""
