"""Offline: text -> checkpoint. A run's way, and the files in the order in which it meets them:

__main__.py       python -m training COMMAND; errors become exit codes
commands/         the options of each command and what it runs
recipes/          named runs: functions that return a whole frozen config
configuration/    the frozen dataclasses of a run, validated together; recipes, TOML files and options -> one of them
record.py         what a run is told of itself, so that it can leave it behind
errors.py         TrainingError: what ends a run with one sentence
faults.py         what the operating system's errors mean to a user
corpora/          files and data sets -> clean texts and pairs of texts, with a report of what was left out
vocabulary.py     texts -> a fitted tokenizer
segmentation.py   pairs of texts -> token ids, anew each epoch where a recipe samples
task.py           what the loop trains
batches.py        token ids -> batches, bucketed by length, in a reproducible order
translation.py    the task of a translator: its batches, loss and validation
regularisers.py   R-Drop's and word dropout's options
lyrics.py         the task of a lyricist
workers.py        the processes that share a run: this one alone
group.py          or torchrun's
torchrun.py       what this process knows of the torchrun that has started it
meeting.py        how they find each other
sharded.py        a task whose batches they share
generators.py     the random numbers that each of them draws
farewell.py       how they end where one has died
launch.py         --processes: starting them without torchrun
optimizer.py      optimizers, and clipping
muon.py           orthogonal steps for hidden matrices
schedule.py       learning-rate schedules, and how much of a run is over
planning.py       how long a run will be: epochs, clocks, cool-downs
limits.py         where it ends
precision.py      bf16, and fp16 with its scale
descent.py        one step of the optimizer, over batches and processes
averaging.py      the moving average of the weights
candidates.py     the best validated weights, and their mean
validation.py     what a validation measures, and when one is due
judge.py          BLEU and sample translations at a validation
selection.py      which weights a run keeps: averaged, measured, the best chosen
meter.py          losses and norms, read from the device now and then
loop.py           steps, validates, saves, resumes
progress.py       where a run stands, and how it ended
resuming.py       the loop's whole state
snapshot.py       all that an exact resume needs, on the disk
alignment.py       which heads align words best, by sentences whose alignment is known
evaluate.py       scores through models.decoding
scores.py         what the numbers of an evaluation are
earlier_scores.py test scores that outlive a resume of the same weights
distillation.py   a teacher's translations, for a student to learn from
memorisation.py   how much of what a lyricist writes stands in its corpus
report.py         progress, metrics.jsonl, samples.jsonl
journal.py        files of one JSON object a line
wording.py        how sentences count
samples.py        texts that a network makes while it learns
events.py         TensorBoard events
curves.py         curves.png
card/             the model card
hardware.py       what a run ran on
run.py            what every run has in common
output.py         the folder that a run writes
draft.py          what a checkpoint will say of itself, but its scores
translator.py     the page that puts these together for a translator
lyricist.py       and for a lyricist
marian/           checkpoints of OPUS-MT and Marian -> checkpoints of this project
demo/             corpora written for this project
"""
