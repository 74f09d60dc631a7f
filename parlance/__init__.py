"""Parlance trains, serves and explains sequence models. The code lies in the packages `models`, `training` and `app`;
this one holds the version and the console command `parlance`."""

__version__ = "0.2.0"
