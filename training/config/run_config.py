"""The configuration of a run: frozen pydantic dataclasses, whose constructors report every problem in one error."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import Field

from models.language_names import code_problem
from training.config.corpus_languages import LanguageCodes, parse_pair_name
from training.config.options import MOST_INTEGER, Rate, Share, option, options
from training.config.schedules import SENTENCES, ScheduleName
from training.errors import raise_all

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Config = TypeVar("Config", bound="TranslatorConfig | LyricsConfig")
SENTENCES_PER_MINUTE = 100  # of a time limit, in each validation
MULTIPLE_LANGUAGES = "mul"  # ISO 639-2: source_language and target_language of a multilingual run
NetworkOptions = Mapping[str, Any]
"""The fields of the network's own config but those that follow from the data."""


def problems_of_parts(config: DataclassInstance) -> Iterator[str]:
    """The problems of all nested configs; each begins with the key of its option."""
    for part in fields(config):
        for problem in getattr(getattr(config, part.name), "problems", tuple)():
            yield f"{part.name}.{problem}" if problem else ""


@options
class CleaningConfig:
    """Rules that drop training pairs (`training.data.cleaning`); None, False or "off" disables a rule. Pairs with an
    empty side or more than `TranslatorConfig.max_tokens` tokens are always dropped."""

    broken: bool = option(True, "leave out control characters, U+FFFD, UTF-8 decoded as Windows-1252")
    max_characters: int | None = option(5000, "of either side", ge=1)
    identical_from: int | None = option(
        20,
        "leave out identical sides of so many characters: a copy teaches copying, but Berlin is a translation",
        ge=1,
    )
    ratio: float | None = option(4.0, "of the sides' lengths, as a factor to the corpus's own median ratio", ge=1)
    ratio_tolerance: int = option(20, "characters beyond that ratio: short sentences vary more", ge=0)
    duplicates: bool = option(True, "leave out all but the first of equal pairs")
    overlap: Literal["off", "pair", "source", "either"] = option(
        "source", "leave out pairs that have this in common with a held-out pair"
    )
    malformed: Literal["refuse", "skip"] = option(
        "refuse", "lines of another number of columns, no UTF-8, a NUL character or broken JSON; skip: leave them out"
    )
    least_pairs: int = option(2, "pairs that must be left after cleaning", ge=1)


NO_CLEANING = CleaningConfig(
    broken=False, max_characters=None, identical_from=None, ratio=None, duplicates=False, overlap="off"
)


@options
class LoopConfig:
    """A run ends at its first limit, or after `patience` validations in a row without a gain. A learning rate that has
    not decayed by then first does so in a cool-down from the best weights, which improves them."""

    max_epochs: int = option(100, "passes over the corpus, at most", "--max-epochs EPOCHS", ge=1)
    max_minutes: float | None = option(
        None,
        "of the whole command, with those before a resume; a new network with this and without --max-epochs has no"
        " limit of epochs",
        "--max-minutes MINUTES",
        gt=0,
    )
    gradient_accumulation: int = option(1, "batches per update", ge=1)
    patience: int = option(
        0, "validations in a row without a gain that end the run; 0: off", "--patience VALIDATIONS", ge=0
    )
    cooldown: Share = option(
        0.2, "updates of the cool-down, as a fraction of those until patience ended; 0: stop at once"
    )
    validate_every_epochs: int = option(1, "epochs between validations; 0: by updates alone", ge=0)
    validate_every_updates: int = option(0, "updates between validations; 0: by epochs alone", ge=0)
    validate_sentences: int = option(
        2000,
        "held-out sentences of a translator's validation, at most; under a time limit at most 100 for each minute",
        ge=1,
    )
    validate_characters: int = option(200_000, "held-out characters of a lyricist's validation, at most", ge=1)
    choose_by: Literal["loss", "bleu"] = option("loss", "measure of the best weights; bleu: of greedy translations")
    half_weights: bool = option(
        False,
        "round the kept weights to what 16 bits hold (fp16), which halves the file; scores are those of the rounded",
    )
    sample_translations: int = option(3, "held-out sentences translated for the report at every validation", ge=0)
    ema_decay: Rate = option(0.0, "of the exponential moving average of the weights, per update; 0: off")
    average_best: int = option(0, "the mean of so many best validated weights is a candidate too; 0: off", ge=0, le=100)
    seed: int = option(1, "of weights, data order, dropout and held-out pairs", "--seed SEED", ge=0, le=MOST_INTEGER)
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
        if not self.validate_every_epochs and not self.validate_every_updates:
            yield "validate_every_epochs must be at least 1, not 0, where validate_every_updates is 0"


@options
class OptimizerConfig:
    """The learning rate warms up linearly to its peak, and then follows its schedule (`SCHEDULES`)."""

    name: Literal["adam", "adamw", "sgd", "muon"] = option(
        "adam", "muon: orthogonal updates of hidden matrices, with adamw for the other parameters"
    )
    learning_rate: float = option(1e-3, "peak of the schedule", "--learning-rate RATE", gt=0)
    schedule: ScheduleName = option("constant", f"of the learning rate after its warm-up: {SENTENCES}")
    warmup_updates: int = option(
        0, "updates in which the learning rate rises linearly from 0 to its peak", "--warmup-updates UPDATES", ge=0
    )
    final_fraction: Share = option(0.05, "of the peak, at which a schedule that falls ends")
    decay_fraction: float = option(0.2, "of the run, at its end, in which trapezoid and wsd fall", gt=0, le=1)
    betas: tuple[Rate, Rate] = option((0.9, 0.98), "Adam's decay of the gradient's mean and of its square's")
    momentum: Rate = option(0.95, "of muon's matrices")
    epsilon: float = option(1e-9, "Adam's, in the denominator", gt=0)
    weight_decay: float = option(0.0, "of matrices alone; biases and norms are spared", ge=0)
    clip_norm: float = option(1.0, "largest norm of all gradients together; 0: off", ge=0)


@options
class TokenizerConfig:
    """How texts become tokens."""

    kind: Literal["sentencepiece", "word", "character"] = option(
        "sentencepiece", "pieces of words, words, or characters"
    )
    vocab_size: int = option(8000, "pieces, at most; of sentencepiece only", "--vocab-size PIECES", ge=1)
    sample_pairs: int = option(
        1_000_000,
        "pairs that a sentencepiece vocabulary is fitted to, drawn at random from a larger corpus",
        ge=1,
    )
    joint: bool = option(True, "one vocabulary for both languages")
    pad_piece: str = option("<pad>", "of word vocabularies")
    bos_piece: str = option("<s>", "of word vocabularies")
    eos_piece: str = option("</s>", "of word vocabularies")
    source_end: Literal["eos", "pad"] = option("eos", "the last token of every source")
    symbols: str = option(
        "", "words that are one piece each, with commas between, such as a tag <BT> before back-translated sources"
    )
    byte_fallback: bool = option(
        False, "256 pieces for bytes, in which characters are written that the vocabulary lacks; of sentencepiece only"
    )
    characters_per_piece: int = option(
        100,
        "of a corpus in a script without spaces, such as Chinese or Thai, for each piece beyond its single characters:"
        " in a small corpus whole sentences would become pieces; 0: no such limit",
        ge=0,
    )

    def problems(self) -> Iterable[str]:
        if self.byte_fallback and self.kind != "sentencepiece":
            yield f"byte_fallback needs kind = sentencepiece, not {self.kind}"
        if self.symbols and self.kind != "sentencepiece":
            yield f"symbols need kind = sentencepiece, not {self.kind}"
        if any(len(symbol.split()) != 1 for symbol in self.symbols.split(",")) and self.symbols:
            yield f"symbols must be words with commas between, such as <BT>,<BLANK>, not {self.symbols!r}"


@options
class TuningConfig:
    """What a run with `--from` does with the weights that it starts from."""

    freeze: str = option(
        "",
        "modules of the network that keep their weights, with commas between, such as embeddings,encoder.0; for a"
        " translator embeddings stands for the tables of both sides",
        "--freeze MODULES",
    )

    def problems(self) -> Iterable[str]:
        if "" in (parts := [part.strip() for part in self.freeze.split(",")]) and parts != [""]:
            yield f"freeze must name modules with commas between, not {self.freeze!r}"

    @property
    def frozen(self) -> tuple[str, ...]:
        return tuple(part.strip() for part in self.freeze.split(",") if part.strip())


@options
class TranslatorTuningConfig(TuningConfig):
    mix_share: Rate = option(
        0.8, "share of the pairs of --mix in each epoch, drawn anew from them", "--mix-share SHARE"
    )
    other_languages: bool = option(
        False, "tune a translator of other languages into --source and --target", "--other-languages"
    )


@options
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
        "--sampling-temperature T",
        ge=1,
    )

    def problems(self) -> Iterable[str]:
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


@options
class TranslatorConfig:
    recipe: str = Field(description="name of the recipe that it began with")
    source_language: str = option("src", "language code, as clients of the model name it", "--source CODE")
    target_language: str = option("tgt", "language code, as clients of the model name it", "--target CODE")
    tokenizer: TokenizerConfig = Field(default_factory=TokenizerConfig)
    network: NetworkOptions = Field(default_factory=dict)  # of `models.networks.transformer.TransformerConfig`
    label_smoothing: Rate = option(0.1, "probability that is spread over all tokens alike", "--label-smoothing VALUE")
    tokens_per_batch: int = option(4096, "of the longer side, padding included", "--tokens-per-batch TOKENS", ge=1)
    most_known_words: int = option(
        5000,
        "recorded of either side, so that other words are copied and marked; a model of more spells others from pieces,"
        " and none are recorded",
        ge=0,
    )
    max_tokens: int = option(
        256, "longer training pairs are left out, and reported; also the served model's limit", ge=1
    )
    tuning: TranslatorTuningConfig = Field(default_factory=TranslatorTuningConfig)
    multilingual: MultilingualConfig = Field(default_factory=MultilingualConfig)
    optimizer: OptimizerConfig = Field(default_factory=OptimizerConfig)
    loop: LoopConfig = Field(default_factory=LoopConfig)
    cleaning: CleaningConfig = Field(default_factory=CleaningConfig)

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
        if self.network.get("tied") == "all" and not self.tokenizer.joint:
            yield "network.tied = all needs tokenizer.joint = true: one table holds one vocabulary"


@options
class LyricsConfig:
    recipe: str = Field(description="name of the recipe that it began with")
    network: NetworkOptions = Field(default_factory=dict)  # of `models.networks.recurrent.RecurrentConfig`
    sampling: Literal["consecutive", "random", "overlapping"] = option(
        "consecutive",
        "consecutive: the text is cut into batch_size strands, and the hidden state carried from window to window;"
        " random: windows drawn anew, each from a zero state; overlapping: so, and one begins at every character",
    )
    offset: bool = option(True, "start each epoch at another character")
    bptt: int = option(128, "characters of a window, through which the gradient flows back", "--bptt CHARACTERS", ge=1)
    batch_size: int = option(32, "windows in a batch", "--batch-size WINDOWS", ge=1)
    max_characters: int | None = option(None, "use only the first ones of the text", ge=1)
    newline_as_space: bool = option(False, "read the text as one line")
    valid_fraction: Rate = option(0.1, "of the text, at its end, held out for validation")
    unknown: bool = option(True, "a token for characters that training has not seen")
    init_std: float | None = option(
        None,
        "draw weights from a normal distribution of this deviation, with zero biases; none: PyTorch's initialisation",
        gt=0,
    )
    letters_only: bool = option(
        False, "read texts and prompts as lower-case letters of English and spaces", "--letters-only"
    )
    tuning: TuningConfig = Field(default_factory=TuningConfig)
    optimizer: OptimizerConfig = Field(default_factory=OptimizerConfig)
    loop: LoopConfig = Field(default_factory=LoopConfig)

    def __post_init__(self) -> None:
        raise_all([*problems_of_parts(self), *self.problems()])

    def problems(self) -> Iterable[str]:
        """Problems of its own options, without nested configs."""
        if self.loop.patience and self.valid_fraction == 0:
            yield f"loop.patience = {self.loop.patience} needs something held out: valid_fraction is 0"
        yield "loop.choose_by must be loss for lyrics, not bleu" if self.loop.choose_by == "bleu" else ""
