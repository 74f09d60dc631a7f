"""Offline: text -> checkpoint. A run's way, and the files in the order in which it meets them:

__main__.py       python -m training translator | lyrics | demo | evaluate | inspect-corpus
recipes.py        named runs: functions that return a whole frozen config
config.py         the frozen dataclasses of a run, validated together
errors.py         TrainingError: what ends a run with one sentence
corpora/          files and data sets -> clean texts and pairs of texts, with a report of what was left out
corpus.py         its former place, for imports that still say so
inspect_corpus.py the command that says what is in a corpus
vocabulary.py     texts -> a fitted tokenizer
batches.py        token ids -> batches, bucketed by length, in a reproducible order
translation.py    the task of a translator: its batches, loss and validation
lyrics.py         the task of a lyricist
optimizer.py      optimizers and learning-rate schedules
averaging.py      the moving average of the weights
loop.py           steps, validates, saves, resumes
snapshot.py       all that an exact resume needs
evaluate.py       scores through models.decoding
report.py         progress, metrics.jsonl, curves.png
card.py           the model card
run.py            what every run has in common
output.py         the folder that a run writes
translator.py     the page that puts these together for a translator
lyricist.py       and for a lyricist
demo/             corpora written for this project
"""
