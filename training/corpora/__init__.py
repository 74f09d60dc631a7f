"""Corpora: what lies in files, or in a data set of Hugging Face, to clean texts and pairs of texts.

files.py         bytes -> lines and texts: UTF-8, plain or gzipped, every fault named by file and line
pairs.py         Pairs: two lists of texts, and where each pair stands
languages.py     which of a file's language codes is meant
moses.py         two files, line by line; where two files of unequal length part
tsv.py           columns between tabs, Tatoeba's and Anki's layouts among them
jsonl.py         one JSON object a line
tmx.py           translation memories
huggingface.py   hf:NAME through the `datasets` library
sides.py         which side is which, where only the order says so
reading.py       an argument of the command line -> Pairs, in whichever format it is
texts.py         a text for a lyricist: a file, a folder, JSONL
cleaning.py      the rules that leave pairs out
overlap.py       which training pairs the held-out pairs hold as well
report.py        what was left out and why, with examples
hold_out.py      validation pairs out of the training pairs
lengths.py       histograms and quantiles, in text
characters.py    which characters a text has, and which of them are odd
facts.py         what `inspect-corpus` finds out
page.py          and how it tells people
options.py       the options that say which pairs are read and how they are cleaned
"""
