"""The frozen dataclasses of a run's configuration; validation reports every problem in one error.

Metadata holds help texts and former names, which are still read and recorded, so that older snapshots resume."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from models.language_names import code_problem
from models.networks.config_fields import option
from training.config.corpus_languages import LanguageCodes, parse_pair_name
from training.errors import CANNOT_START, CannotStart

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")
Config = TypeVar("Config", bound="TranslatorConfig | LyricsConfig")
SENTENCES_PER_MINUTE = 100  # of a time limit, in each validation
MULTIPLE_LANGUAGES = "mul"  # ISO 639-2: source_language and target_language of a multilingual run
NetworkOptions = Mapping[str, Any]
"""The fields of the network's own config but those that follow from the data."""


def raise_all(problems: Iterable[str], refusal: str = CANNOT_START) -> None:
    """Raises CannotStart with every problem, if there are any. An empty string is no problem. refusal: as in
    `CannotStart`."""
    problems = [problem for problem in problems if problem]
    if problems:
        raise CannotStart(problems, refusal)


def problems_of_parts(config: DataclassInstance) -> Iterator[str]:
    """The problems of all nested configs; each begins with the key of its option."""
    for part in fields(config):
        for problem in getattr(getattr(config, part.name), "problems", tuple)():
            yield f"{part.name}.{problem}" if problem else ""


def below(config: object, least: float, *names: str, spec: str = "") -> Iterator[str]:
    """A problem for each option that is set and below `least`, or not finite. spec: its number format."""
    for name in names:
        value = getattr(config, name)
        if value is not None and not least <= value < math.inf:
            yield f"{name} must be at least {least}, not {value:{spec}}"


def outside(config: object, interval: str, *names: str, spec: str = "") -> Iterator[str]:
    """A problem for each option outside the interval "[0, 1]", "[0, 1)" or "(0, 1]"."""
    for name in names:
        value = getattr(config, name)
        if not 0 <= value <= 1 or (value == 0 and interval[0] == "(") or (value == 1 and interval[-1] == ")"):
            yield f"{name} must lie in {interval}, not {value:{spec}}"


def later_option(default: T, help: str) -> T:  # noqa: A002 (as `option` calls it)
    """An option that earlier versions did not have. `recorded` leaves it out while it has its default, so that the
    fingerprint of a run stays that of its older snapshots, which then resume."""
    value: T = field(default=default, metadata={"help": help, "formerly": "", "later": True})
    return value


def recorded(config: DataclassInstance) -> dict[str, Any]:
    """The options under the names that snapshots record."""
    values = {
        part.metadata.get("formerly") or part.name: getattr(config, part.name)
        for part in fields(config)
        if not (part.metadata.get("later") and getattr(config, part.name) == part.default)
    }
    return {
        name: recorded(value) if is_dataclass(value) and not isinstance(value, type) else value
        for name, value in values.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningConfig:
    """Rules that drop training pairs (`training.data.cleaning`); None, False or "off" disables a rule. Pairs with an
    empty side or more than `TranslatorConfig.max_tokens` tokens are always dropped."""

    broken: bool = option(True, "leave out control characters, U+FFFD, UTF-8 decoded as Windows-1252")
    max_characters: int | None = option(5000, "of either side")
    identical_from: int | None = option(
        20, "leave out identical sides of so many characters: a copy teaches copying, but Berlin is a translation"
    )
    ratio: float | None = option(4.0, "of the sides' lengths, as a factor to the corpus's own median ratio")
    ratio_tolerance: int = option(20, "characters beyond that ratio: short sentences vary more")
    duplicates: bool = option(True, "leave out all but the first of equal pairs")
    overlap: Literal["off", "pair", "source", "either"] = option(
        "source", "leave out pairs that have this in common with a held-out pair"
    )
    malformed: Literal["refuse", "skip"] = later_option(
        "refuse", "lines of another number of columns, no UTF-8, a NUL character or broken JSON; skip: leave them out"
    )
    least_pairs: int = option(2, "pairs that must be left after cleaning")

    def problems(self) -> Iterable[str]:
        yield from below(self, 1, "max_characters", "identical_from", "least_pairs")
        if self.ratio is not None and not self.ratio >= 1:
            yield f"ratio must be at least 1, not {self.ratio:g}"
        yield from below(self, 0, "ratio_tolerance")
        if self.malformed not in ("refuse", "skip"):
            yield f"malformed must be refuse or skip, not {self.malformed!r}"
        if self.overlap not in ("off", "pair", "source", "either"):
            yield f"overlap must be off, pair, source or either, not {self.overlap!r}"


NO_CLEANING = CleaningConfig(
    broken=False, max_characters=None, identical_from=None, ratio=None, duplicates=False, overlap="off"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopConfig:
    """A run ends at its first limit, or after `patience` validations in a row without a gain. A learning rate that has
    not decayed by then first does so in a cool-down from the best weights, which improves them."""

    max_epochs: int = option(100, "passes over the corpus")
    max_minutes: float | None = option(None, "of the whole command, with those before a resume")
    gradient_accumulation: int = option(1, "batches per update", formerly="accumulate")
    patience: int = option(0, "validations in a row without a gain that end the run; 0: off")
    cooldown: float = option(
        0.2, "updates of the cool-down, as a fraction of those until patience ended; 0: stop at once"
    )
    validate_every_epochs: int = option(1, "epochs between validations; 0: by updates alone")
    validate_every_updates: int = option(0, "updates between validations; 0: by epochs alone")
    validate_sentences: int = option(
        2000, "held-out sentences of a translator's validation, at most; under a time limit at most 100 for each minute"
    )
    validate_characters: int = option(200_000, "held-out characters of a lyricist's validation, at most")
    choose_by: Literal["loss", "bleu"] = option("loss", "measure of the best weights; bleu: of greedy translations")
    sample_translations: int = option(3, "held-out sentences translated for the report at every validation")
    ema_decay: float = option(
        0.0, "of the exponential moving average of the weights, per update; 0: off", formerly="average_decay"
    )
    average_best: int = option(0, "the mean of so many best validated weights is a candidate too; 0: off")
    seed: int = option(1, "of weights, data order, dropout and held-out pairs")
    precision: Literal["auto", "fp32", "bf16", "fp16"] = option("auto", "auto: the fastest of the device")
    compile: Literal["auto", "on", "off"] = option(
        "auto", "torch.compile a translator's step, where that works; auto: on CUDA (a CPU has kernels)"
    )

    def sentences_to_validate(self) -> int:
        """`validate_sentences`, or fewer in a run so short that its validations would take most of it."""
        if self.max_minutes is None:
            return self.validate_sentences
        return min(self.validate_sentences, max(100, int(SENTENCES_PER_MINUTE * self.max_minutes)))

    def problems(self) -> Iterable[str]:
        yield from below(self, 1, "max_epochs")
        if self.max_minutes is not None and not self.max_minutes > 0:  # rejects nan, too
            yield f"max_minutes must be more than 0, not {self.max_minutes:g}"
        yield from below(self, 1, "gradient_accumulation", "validate_sentences", "validate_characters")
        yield from below(self, 0, "patience", "validate_every_epochs", "validate_every_updates", "sample_translations")
        if not self.validate_every_epochs and not self.validate_every_updates:
            yield "validate_every_epochs must be at least 1, not 0, where validate_every_updates is 0"
        yield from outside(self, "[0, 1]", "cooldown", spec="g")
        if not 0 <= self.seed < 2**63:
            yield f"seed must lie in 0..2^63-1, not {self.seed}"
        yield from outside(self, "[0, 1)", "ema_decay")
        if not 0 <= self.average_best <= 100:
            yield f"average_best must lie in 0..100, not {self.average_best}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerConfig:
    """Schedules warm up linearly to the peak learning rate. `constant` then stays there; `inverse_sqrt` decays with
    1/sqrt(update); `cosine` and `linear` decay to `final_fraction` of the peak by the end of the run; `trapezoid` stays
    at the peak and decays linearly in the last `decay_fraction` of the run."""

    name: Literal["adam", "adamw", "sgd", "muon"] = option(
        "adam", "muon: orthogonal updates of hidden matrices, with adamw for the other parameters"
    )
    learning_rate: float = option(1e-3, "peak of the schedule", formerly="rate")
    schedule: Literal["constant", "inverse_sqrt", "cosine", "linear", "trapezoid"] = option(
        "constant", "of the learning rate behind its warm-up"
    )
    warmup_updates: int = option(0, "updates in which the learning rate rises linearly from 0 to its peak")
    final_fraction: float = option(0.05, "of the peak, at which cosine, linear and trapezoid end")
    decay_fraction: float = option(
        0.2, "of the run, at its end, in which a trapezoid falls linearly", formerly="fall_share"
    )
    betas: tuple[float, float] = option((0.9, 0.98), "Adam's decay of the gradient's mean and of its square's")
    momentum: float = option(0.95, "of muon's matrices")
    epsilon: float = option(1e-9, "Adam's, in the denominator")
    weight_decay: float = option(0.0, "of matrices alone; biases and norms are spared")
    clip_norm: float = option(1.0, "largest norm of all gradients together; 0: off")

    def problems(self) -> Iterable[str]:
        if not 0 < self.learning_rate < math.inf:
            yield f"learning_rate must be more than 0, not {self.learning_rate:g}"
        yield from below(self, 0, "warmup_updates")
        yield from outside(self, "[0, 1]", "final_fraction", spec="g")
        if not all(0 <= beta < 1 for beta in self.betas):
            yield f"betas must lie in [0, 1), not {', '.join(f'{beta:g}' for beta in self.betas)}"
        yield f"epsilon must be more than 0, not {self.epsilon:g}" if not self.epsilon > 0 else ""
        yield from below(self, 0, "weight_decay", "clip_norm", spec="g")
        yield from outside(self, "(0, 1]", "decay_fraction", spec="g")
        yield from outside(self, "[0, 1)", "momentum", spec="g")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerConfig:
    """How texts become tokens. Sampling segments words anew each epoch; a served model uses the single best
    segmentation. The sampling degree is the merge dropout for bpe (BPE-dropout, Provilkov et al. 2020, arXiv
    1910.13267) and the smoothing alpha for unigram (Kudo 2018, arXiv 1804.10959)."""

    kind: Literal["sentencepiece", "word", "character"] = option(
        "sentencepiece", "pieces of words, words, or characters"
    )
    algorithm: Literal["bpe", "unigram"] = option("bpe", "of sentencepiece only")
    vocab_size: int = option(8000, "pieces, at most; of sentencepiece only", formerly="size")
    sample_pairs: int = later_option(
        1_000_000, "pairs that a sentencepiece vocabulary is fitted to, drawn at random from a larger corpus"
    )
    source_sampling: float = option(
        0.0, "subword sampling in training: bpe's dropout, or unigram's alpha (small is wild); 0: off"
    )
    target_sampling: float = option(0.0, "the same of targets")
    joint: bool = option(True, "one vocabulary for both languages")
    casefold_source: bool = option(False, 'read "Bier" and "bier" alike')
    pad_piece: str = option("<pad>", "of word vocabularies")
    bos_piece: str = option("<s>", "of word vocabularies")
    eos_piece: str = option("</s>", "of word vocabularies")
    source_end: Literal["eos", "pad"] = option("eos", "the last token of every source")
    symbols: str = later_option(
        "", "words that are one piece each, with commas between, such as the tag <BT> of back-translated sources"
    )

    def problems(self) -> Iterable[str]:
        yield from below(self, 1, "vocab_size", "sample_pairs")
        if self.casefold_source and self.joint:
            yield "casefold_source needs joint = false: one vocabulary cannot fold the case of one side alone"
        if self.casefold_source and self.kind != "sentencepiece":
            yield f"casefold_source needs kind = sentencepiece, not {self.kind}"
        if self.symbols and self.kind != "sentencepiece":
            yield f"symbols need kind = sentencepiece, not {self.kind}"
        if any(len(symbol.split()) != 1 for symbol in self.symbols.split(",")) and self.symbols:
            yield f"symbols must be words with commas between, such as <BT>,<BLANK>, not {self.symbols!r}"
        if self.algorithm not in ("bpe", "unigram"):
            yield f"algorithm must be bpe or unigram, not {self.algorithm!r}"
        yield from outside(self, "[0, 1)", "source_sampling", "target_sampling")
        for name in ("source_sampling", "target_sampling"):
            if 0 < getattr(self, name) < 1 and self.kind != "sentencepiece":
                yield f"{name} needs a sentencepiece vocabulary, not one of kind {self.kind}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningConfig:
    """What a run with `--from` does with the weights that it starts from."""

    average_with_start: float = option(
        0.0,
        "share of the starting weights in the published ones, between 0 (the tuned weights) and 1 (the starting ones):"
        " less is forgotten, and less is learnt (WiSE-FT, Wortsman et al. 2022, arXiv 2109.01903)",
    )
    freeze: str = option(
        "",
        "modules of the network that keep their weights, with commas between, such as embeddings,encoder.0; for a"
        " translator embeddings stands for the tables of both sides",
    )

    def problems(self) -> Iterable[str]:
        yield from outside(self, "[0, 1]", "average_with_start", spec="g")
        if "" in (parts := [part.strip() for part in self.freeze.split(",")]) and parts != [""]:
            yield f"freeze must name modules with commas between, not {self.freeze!r}"

    @property
    def frozen(self) -> tuple[str, ...]:
        return tuple(part.strip() for part in self.freeze.split(",") if part.strip())


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslatorTuningConfig(TuningConfig):
    mix_share: float = option(0.8, "share of the pairs of --mix in each epoch, drawn anew from them")
    other_languages: bool = option(False, "tune a translator of other languages into this pair")

    def problems(self) -> Iterable[str]:
        yield from TuningConfig.problems(self)
        yield from outside(self, "[0, 1)", "mix_share", spec="g")


@dataclass(frozen=True, slots=True, kw_only=True)
class MultilingualConfig:
    """One network for several language pairs: a token before each source selects the target language (Johnson et al.
    2017, arXiv 1611.04558)."""

    language_pairs: str = option(
        "", "of --multilingual, from --train: the pairs with commas between, such as de-en,en-fr"
    )
    sampling_temperature: float = option(
        5.0,
        "T of a corpus's share of an epoch, in proportion to its pairs ** (1/T) (Arivazhagan et al. 2019, arXiv"
        " 1907.05019): the largest is read once, smaller ones several times; 1: each pair once",
    )

    def problems(self) -> Iterable[str]:
        yield from below(self, 1, "sampling_temperature", spec="g")
        for name in filter(None, self.language_pairs.split(",")):
            if parse_pair_name(name) is None:
                yield f"language_pairs must name pairs such as de-en or pt_BR-en, not {name!r}"

    @property
    def pairs(self) -> tuple[LanguageCodes, ...]:
        """(source, target) of each pair; () for a translator of one pair."""
        return tuple(pair for name in self.language_pairs.split(",") if (pair := parse_pair_name(name)) is not None)

    @property
    def targets(self) -> tuple[str, ...]:
        """The target languages, each once."""
        return tuple(dict.fromkeys(target for _, target in self.pairs))


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslatorConfig:
    recipe: str = field(metadata={"help": "name of the recipe that it began with"})
    source_language: str = option("src", "language code, as clients of the model name it")
    target_language: str = option("tgt", "language code, as clients of the model name it")
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    network: NetworkOptions = field(default_factory=dict)  # of `models.networks.transformer.TransformerConfig`
    label_smoothing: float = option(0.1, "probability that is spread over all tokens alike")
    r_drop: float = option(
        0.0,
        "alpha of R-Drop (Liang et al. 2021, arXiv 2106.14448): every batch twice under different dropout, and a pull"
        " between the two predictions, at twice the cost of an update; 0: off",
    )
    r_drop_after_epochs: int = option(0, "epochs before R-Drop begins: nothing is learnt by heart in the first ones")
    source_word_dropout: float = option(0.0, "share of source tokens read as the unknown one; 0: off")
    target_word_dropout: float = option(0.0, "share of target tokens read as the unknown one; 0: off")
    bidirectional_epochs: int = option(
        0,
        "first epochs in which each pair is turned around with probability 1/2, so that the network learns both"
        " directions (Ding et al. 2021, arXiv 2109.07780); 0: off",
    )
    tokens_per_batch: int = option(4096, "of the longer side, padding included")
    max_tokens: int = option(256, "longer training pairs are left out, and reported; also the served model's limit")
    tuning: TranslatorTuningConfig = later_option(TranslatorTuningConfig(), "of runs with --from")
    multilingual: MultilingualConfig = later_option(MultilingualConfig(), "of runs with --multilingual")
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    loop: LoopConfig = field(default_factory=LoopConfig)
    cleaning: CleaningConfig = field(default_factory=CleaningConfig)

    def __post_init__(self) -> None:
        raise_all([*problems_of_parts(self), *self.problems()])

    @property
    def pairs(self) -> tuple[LanguageCodes, ...]:
        """(source, target) of each language pair."""
        return self.multilingual.pairs or ((self.source_language, self.target_language),)

    def problems(self) -> Iterable[str]:
        """Problems of its own options, without nested configs."""
        for name in ("source_language", "target_language"):
            if problem := code_problem(getattr(self, name)):  # clients cannot name any other code
                yield f"{name} {problem}"
        for code in dict.fromkeys(code for pair in self.multilingual.pairs for code in pair):
            if problem := code_problem(code):
                yield f"a language of --train {problem}"
        if self.multilingual.pairs and self.tokenizer.kind != "sentencepiece":
            yield f"--multilingual needs tokenizer.kind = sentencepiece, not {self.tokenizer.kind}"
        if self.multilingual.pairs and self.bidirectional_epochs:
            yield "bidirectional_epochs is for one language pair: --both-directions trains several in both directions"
        yield from outside(self, "[0, 1)", "label_smoothing", "source_word_dropout", "target_word_dropout")
        yield from below(self, 1, "tokens_per_batch", "max_tokens")
        yield from below(self, 0, "r_drop", "r_drop_after_epochs", "bidirectional_epochs")
        if self.bidirectional_epochs and not self.tokenizer.joint:
            yield "bidirectional_epochs needs one vocabulary for both languages (tokenizer.joint)"
        if self.bidirectional_epochs and self.tokenizer.source_end != "eos":
            yield "bidirectional_epochs needs sources that end as targets do (tokenizer.source_end eos)"
        if self.network.get("tied") == "all" and not self.tokenizer.joint:
            yield "network.tied = all needs tokenizer.joint = true: one table holds one vocabulary"


@dataclass(frozen=True, slots=True, kw_only=True)
class LyricsConfig:
    recipe: str = field(metadata={"help": "name of the recipe that it began with"})
    network: NetworkOptions = field(default_factory=dict)  # of `models.networks.recurrent.RecurrentConfig`
    sampling: Literal["consecutive", "random"] = option(
        "consecutive",
        "consecutive: the text is cut into batch_size strands, and the hidden state carried from window to window;"
        " random: windows drawn anew, each from a zero state",
    )
    offset: bool = option(True, "start each epoch at another character")
    bptt: int = option(128, "characters of a window, through which the gradient flows back", formerly="steps")
    batch_size: int = option(32, "windows in a batch", formerly="rows")
    max_characters: int | None = option(None, "use only the first ones of the text", formerly="characters")
    newline_as_space: bool = option(False, "read the text as one line")
    valid_fraction: float = option(0.1, "of the text, at its end, held out for validation", formerly="valid_share")
    unknown: bool = option(True, "a token for characters that training has not seen")
    init_std: float | None = option(
        None,
        "draw weights from a normal distribution of this deviation, with zero biases; none: PyTorch's initialisation",
        formerly="initial_deviation",
    )
    tuning: TuningConfig = later_option(TuningConfig(), "of runs with --from")
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    loop: LoopConfig = field(default_factory=LoopConfig)

    def __post_init__(self) -> None:
        raise_all([*problems_of_parts(self), *self.problems()])

    def problems(self) -> Iterable[str]:
        """Problems of its own options, without nested configs."""
        yield from below(self, 1, "bptt", "batch_size", "max_characters")
        yield from outside(self, "[0, 1)", "valid_fraction", spec="g")
        if self.init_std is not None and not 0 < self.init_std < math.inf:
            yield f"init_std must be more than 0, not {self.init_std:g}"
        if self.loop.patience and self.valid_fraction == 0:
            yield f"loop.patience = {self.loop.patience} needs something held out: valid_fraction is 0"
        yield "loop.choose_by must be loss for lyrics, not bleu" if self.loop.choose_by == "bleu" else ""
