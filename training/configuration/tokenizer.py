"""How texts become tokens."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerConfig:
    """joint: one vocabulary for both languages. casefold_source: read "Bier" and "bier" alike.

    source_sampling and target_sampling cut the words of each epoch anew; what is served cuts them the one best way.
    They are the share of merges left out of bpe (BPE-dropout, Provilkov et al. 2020, arXiv 1910.13267), or how
    sharply a unigram model prefers likely cuts (alpha of Kudo 2018, arXiv 1804.10959: small is wild). 0: off.
    """

    kind: Literal["sentencepiece", "word", "character"] = "sentencepiece"  # pieces of words, words, or characters
    algorithm: Literal["bpe", "unigram"] = "bpe"  # of sentencepiece only
    size: int = 8000  # at most; of sentencepiece only
    source_sampling: float = 0.0
    target_sampling: float = 0.0
    joint: bool = True
    casefold_source: bool = False
    pad_piece: str = "<pad>"  # of word vocabularies
    bos_piece: str = "<s>"  # of word vocabularies
    eos_piece: str = "</s>"  # of word vocabularies
    source_end: Literal["eos", "pad"] = "eos"  # what stands behind every source

    def problems(self) -> Iterable[str]:
        yield f"size must be at least 1, not {self.size}" if self.size < 1 else ""
        if self.casefold_source and self.joint:
            yield "casefold_source needs joint = false: one vocabulary cannot fold the case of one side alone"
        if self.casefold_source and self.kind != "sentencepiece":
            yield f"casefold_source needs kind = sentencepiece, not {self.kind}"
        if self.algorithm not in ("bpe", "unigram"):
            yield f"algorithm must be bpe or unigram, not {self.algorithm!r}"
        for name in ("source_sampling", "target_sampling"):
            share = getattr(self, name)
            if not 0 <= share < 1:
                yield f"{name} must lie in [0, 1), not {share}"
            elif share and self.kind != "sentencepiece":
                yield f"{name} needs a sentencepiece vocabulary, not one of kind {self.kind}"
