"""From recipes, TOML files and options to one frozen config, generically from the dataclasses' fields.

fields.py     every key of a config: its type, its default and what its comment says
values.py     a value, or a text that stands for one, as a key's type has it
assembly.py   a base and what is stated over it -> a config, or every problem in one list
tables.py     a config as TOML, with comments
run_file.py   run.toml: what a run was, for another one exactly like it
"""
