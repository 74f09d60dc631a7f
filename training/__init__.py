"""Offline: text -> checkpoint. A run's way, and the files in the order in which it meets them:

__main__.py       python -m training COMMAND; errors become exit codes
commands/         translator | lyrics | demo | evaluate | recipes: the options of each and what it runs
recipes.py        named runs: functions that return a whole frozen config
config.py         the frozen dataclasses of a run, validated together
configuration/    recipes, TOML files and options -> one config, and run.toml, from the dataclasses' fields
record.py         what a run is told of itself, so that it can leave it behind
errors.py         TrainingError: what ends a run with one sentence
faults.py         what the operating system's errors mean to a user
corpus.py         files -> clean texts and pairs of texts
vocabulary.py     texts -> a fitted tokenizer
batches.py        token ids -> batches, bucketed by length, in a reproducible order
translation.py    the task of a translator: its batches, loss and validation
lyrics.py         the task of a lyricist
optimizer.py      optimizers and learning-rate schedules
averaging.py      the moving average of the weights
loop.py           steps, validates, saves, resumes
snapshot.py       all that an exact resume needs
evaluate.py       scores through models.decoding
scores.py         what the numbers of an evaluation are
memorisation.py   how much of what a lyricist writes stands in its corpus
report.py         progress, metrics.jsonl, samples.jsonl
journal.py        files of one JSON object a line
samples.py        texts that a network makes while it learns
events.py         TensorBoard events
curves.py         curves.png
card.py           the model card
hardware.py       what a run ran on
run.py            what every run has in common
output.py         the folder that a run writes
translator.py     the page that puts these together for a translator
lyricist.py       and for a lyricist
demo/             corpora written for this project
"""
