"""The model card: README.md of a checkpoint, for people who meet the model without its maker. Its head is what the
Hugging Face Hub reads, so that the folder can be put there as it is.

facts.py        what a card says, of whatever model
translator.py   what it says of a translator
lyricist.py     and of a lyricist
page.py         the facts as Markdown
head.py         its head, in YAML
tables.py       its tables: scores, what was memorised, samples
revision.py     which source made it
"""
