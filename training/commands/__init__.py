"""The commands of `python -m training`: each module has its parser (`add_parser`) beside what it runs (`run`).

options.py      what several commands have in common: --out, --seed, --device and their like
configured.py   options, --set and --config -> one configuration, or all that is wrong in one list
translator.py   train a translator
lyrics.py       train a lyricist
demo.py         train the demo models
evaluate.py     score a model
distil.py       a translator's translations, for another one to learn from
inspect_corpus.py  what is in a corpus
recipes.py      list and explain the recipes

A new command is a module here and its name in COMMANDS.
"""

from __future__ import annotations

from training.commands import demo, distil, evaluate, inspect_corpus, lyrics, recipes, translator
from training.marian import command as import_marian

COMMANDS = (translator, lyrics, demo, evaluate, distil, recipes, inspect_corpus, import_marian)
