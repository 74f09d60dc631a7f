"""BLEU as other projects measured theirs, so that rows of a table compare.

Three ways to turn the same detokenised, cased output into a number:

- sacreBLEU with its own tokeniser 13a (Post 2018), cased and lowercased: what this project publishes;
- "Moses": lowercased, punctuation normalised, Moses-tokenised, BLEU-4 without smoothing. Multi30k's own
  task1-tokenize.sh prepares its text so (no aggressive hyphen splitting), and papers that use fairseq's scorer on
  that text report this (Wu et al. 2021, arXiv 2105.14462);
- "spaCy": spaCy's rule-based tokens, lowercased, BLEU-4 without smoothing, as torchtext computes it (bentrevett's
  notebooks). Only the tokeniser's rules are used, so a blank pipeline does what a downloaded model would.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import sacrebleu

Tokens = Callable[[str], list[str]]


def scores(language: str, outputs: Sequence[str], references: Sequence[str]) -> dict[str, float | str]:
    """All of them in points of 100, with the signatures of sacreBLEU's; language: a code such as "de"."""
    cased, lowercased = sacrebleu.BLEU(), sacrebleu.BLEU(lowercase=True)
    return {
        "cased": round(cased.corpus_score(outputs, [references]).score, 2),
        "cased_signature": str(cased.get_signature()),
        "lowercased": round(lowercased.corpus_score(outputs, [references]).score, 2),
        "lowercased_signature": str(lowercased.get_signature()),
        "moses": round(of_tokens(moses(language), outputs, references), 2),
        "spacy": round(of_tokens(spacy_words(language), outputs, references), 2),
    }


def of_tokens(tokens: Tokens, outputs: Sequence[str], references: Sequence[str]) -> float:
    """Corpus BLEU-4 without smoothing over the tokens of both sides."""
    metric = sacrebleu.BLEU(tokenize="none", smooth_method="none", force=True)
    joined = [[" ".join(tokens(text)) for text in side] for side in (outputs, references)]
    return float(metric.corpus_score(joined[0], [joined[1]]).score)


def moses(language: str) -> Tokens:
    from sacremoses import MosesPunctNormalizer, MosesTokenizer  # an extra of the benchmarks

    normalizer, tokenizer = MosesPunctNormalizer(language), MosesTokenizer(language)
    return lambda text: list(tokenizer.tokenize(normalizer.normalize(text.lower()), escape=False))


def spacy_words(language: str) -> Tokens:
    import spacy  # an extra of the benchmarks

    tokenizer = spacy.blank(language).tokenizer
    return lambda text: [token.text.lower() for token in tokenizer(text) if not token.is_space]
