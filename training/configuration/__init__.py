"""The whole configuration of a run, and from recipes, TOML files and options to one.

It is frozen, recorded in the checkpoint, and checked in one go: every problem is named in one message. What
`python -m training recipes` says of a field is its comment here, or what its class's docstring says behind its name
and a colon; all but the classes themselves is generic, from the dataclasses' fields.

translator.py   the dataclass of a whole run, with all the parts below
lyrics.py       that of a lyricist's, with an optimizer and a loop
tokenizer.py    how texts become tokens
optimizer.py    how the optimizer steps
loop.py         how long a run goes on, what it validates and what it keeps
cleaning.py     which training pairs are left out
problems.py     what is wrong with any of them
fields.py       every key of a config: its type, its default and what its comment says
values.py       a value, or a text that stands for one, as a key's type has it
assembly.py     a base and what is stated over it -> a config, or every problem in one list
tables.py       a config as TOML, with comments
run_file.py     run.toml: what a run was, for another one exactly like it
"""
