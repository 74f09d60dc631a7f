"""What a finished translator records for the servers that serve it. For the notices about its translations: below which
probability one is called unsure, and the words of a small corpus. For what must not change in a text: which kinds of
stand-ins it copies."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from models.backends.select import Network
from models.checkpoint import WORD, Checkpoint, NoticeRecord, StandInKinds
from models.stand_ins import carriers, copied_kinds
from models.tokenizer.base import LANGUAGE
from training.config.corpus_languages import LanguageCodes
from training.data.sentence_pairs import Pairs
from training.evaluation.bleu_validator import subsample
from training.evaluation.model_outputs import best_hypotheses, translate

BEAM = 4  # of a server by default
CALIBRATION_SENTENCES = 300
MOST_PAIRS = 30  # of languages, each of which takes a second or two of a small model
LEAST_SENTENCES = 10  # the held-out tenth of 100 pairs; of so few, the worst good translation is the threshold
GOOD_CHRF = 60.0  # from here on, a translation differs from its reference in a word or so
# Of the good translations of held-out sentences so many are called unsure. A wanted share of false alarms, and not the
# best separation from bad translations: a model's own held-out data may have none of these.
FALSE_ALARMS = 0.02
# Rounding on another device moves a mean by less; and a model of other data should not mark nearly everything.
HIGHEST, LOWEST = -0.02, -2.0


def notice_record(
    checkpoint: Checkpoint,
    network: Network,
    held_out: Pairs | None,
    train: Pairs | None,
    most_words: int = 5000,
) -> NoticeRecord:
    """train: the texts of a model that has seen no others, else None. most_words: of either side
    (`TranslatorConfig.most_known_words`)."""
    sample = subsample(held_out, CALIBRATION_SENTENCES) if held_out else None
    sources, targets = (train.sources, train.targets) if train else ((), ())
    return NoticeRecord(
        unsure_below(checkpoint, network, sample) if sample and len(sample) >= LEAST_SENTENCES else None,
        known_words(sources, most_words),
        known_words(targets, most_words),
    )


def unsure_below(checkpoint: Checkpoint, network: Network, pairs: Pairs) -> float:
    """The threshold between the good and the bad translations of the pairs, of their mean log-probability of a token in
    nats."""
    import sacrebleu  # takes a quarter of a second

    chrf = sacrebleu.CHRF()
    good, bad = list[float](), list[float]()
    hypotheses = best_hypotheses(checkpoint, network, pairs.sources, beam=BEAM)
    for hypothesis, reference in zip(hypotheses, pairs.targets, strict=True):
        mean = hypothesis.log_probability / (len(hypothesis.tokens) + 1)  # + 1: the end token
        score = chrf.sentence_score(checkpoint.decode(hypothesis.tokens), [reference]).score
        (good if score >= GOOD_CHRF else bad).append(mean)
    return threshold(good, bad)


def threshold(good: Sequence[float], bad: Sequence[float]) -> float:
    """What all but `FALSE_ALARMS` of the good translations reach; none of the bad ones, where none is good."""
    lowest = sorted(good)[int(FALSE_ALARMS * len(good))] if good else max(bad) + 2e-4
    return math.floor(min(max(lowest, LOWEST), HIGHEST) * 1e4) / 1e4


def known_words(texts: Sequence[str], most_words: int) -> frozenset[str] | None:
    """The casefolded words of the texts, without the language tokens before sources; None without texts, or where they
    have more than `most_words`."""
    counts = Counter[str]()
    for text in texts:
        token = LANGUAGE.match(text)
        counts.update(WORD.findall(text[token.end() if token else 0 :].casefold()))
        if len(counts) > most_words:
            return None
    return frozenset(counts) or None


def copied_stand_ins(checkpoint: Checkpoint, network: Network) -> StandInKinds:
    """The kinds that a model copies, by language pair: it translates the carriers of each. {} for a model of more than
    `MOST_PAIRS` pairs: a server tries a pair of such a model when a text first needs it."""
    pairs = checkpoint.single_pairs()
    if len(pairs) > MOST_PAIRS:
        return {}
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for pair in pairs:
        source, target = pair.config.source_language, pair.config.target_language
        if source is not None and target is not None:
            tried = carriers(source)
            translations = translate(pair, network, [carrier.sentence for carrier in tried], beam=BEAM)
            found[source, target] = copied_kinds(tried, translations)
    return found


def sentences_of_records(pairs: Sequence[LanguageCodes], held_out: Pairs) -> int:
    """How many sentences are translated for these records, for an estimate of the time."""
    calibrated = min(len(held_out), CALIBRATION_SENTENCES) if len(held_out) >= LEAST_SENTENCES else 0
    return calibrated + (sum(len(carriers(source)) for source, _ in pairs) if len(pairs) <= MOST_PAIRS else 0)
