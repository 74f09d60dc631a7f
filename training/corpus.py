"""The former place of `training.corpora`; nothing new imports it."""

from training.corpora.files import read_lines
from training.corpora.hold_out import hold_out
from training.corpora.pairs import Pairs
from training.corpora.reading import read_pairs
from training.corpora.texts import read_text

__all__ = ["Pairs", "hold_out", "read_lines", "read_pairs", "read_text"]
