"""Offline: text -> checkpoint. A run's way, and the files in the order in which it meets them:

__main__.py       python -m training translator | lyrics | demo | evaluate
recipes.py        named runs: functions that return a whole frozen config
config.py         the frozen dataclasses of a run, validated together
errors.py         TrainingError: what ends a run with one sentence
corpus.py         files -> clean texts and pairs of texts
vocabulary.py     texts -> a fitted tokenizer
batches.py        token ids -> batches, bucketed by length, in a reproducible order
translation.py    the task of a translator: its batches, loss and validation
lyrics.py         the task of a lyricist
parallel.py       the processes that share a run: torchrun's, or this one alone
meeting.py        how they find each other
sharded.py        a task whose batches they share
generators.py     the random numbers that each of them draws
farewell.py       how they end where one has died
launch.py         --processes: starting them without torchrun
optimizer.py      optimizers, and clipping
muon.py           orthogonal steps for hidden matrices
schedule.py       learning-rate schedules, and how much of a run is over
planning.py       how long a run will be: epochs, clocks, cool-downs
precision.py      bf16, and fp16 with its scale
averaging.py      the moving average of the weights
candidates.py     the best validated weights, and their mean
validation.py     what a validation measures, and when one is due
judge.py          BLEU and sample translations at a validation
meter.py          losses and norms, read from the device now and then
loop.py           steps, validates, saves, resumes
resuming.py       the loop's whole state
snapshot.py       all that an exact resume needs, on the disk
evaluate.py       scores through models.decoding
report.py         progress, metrics.jsonl, curves.png
card.py           the model card
run.py            what every run has in common
output.py         the folder that a run writes
translator.py     the page that puts these together for a translator
lyricist.py       and for a lyricist
demo/             corpora written for this project
"""
