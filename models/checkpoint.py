"""The checkpoint folder, the contract between training and app. No torch here.

    config.json         describes the folder, with the sha256 of weights and tokenizers; written last
    config.sha256       the sha256 of config.json, as `sha256sum` writes it; folders of earlier versions have none
    model.safetensors   weights, and nothing that can execute
    target.* source.*   tokenizer files: *.json vocabularies or *.model of SentencePiece
    README.md           the model card;  metrics.jsonl, curves.png: how it was trained
    demo.json           of a model that comes with this project: what it knows
    notices.json        of a translator trained here: what notices about its translations compare them with
    stand_ins.json      of a translator: which kinds of stand-ins it copies (`models.stand_ins`)
    resume/             optimizer, RNG and sampler state; never read here

A folder without config.json is not a checkpoint. Files are written under other names and renamed, config.json last, so
that a reader finds a whole checkpoint or none, even after a crash."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import msgspec
from msgspec import Meta

from models.stand_ins import KINDS, record_fingerprint
from models.tokenizer import Tokenizer, is_language, read_tokenizer
from models.weights_file import check_architecture, read_header, regular_file_bytes

FORMAT_VERSION = 2  # the newest that this version reads; folders of one language pair are still written as format 1
CONFIG, CONFIG_CHECKSUM, WEIGHTS, DEMO = "config.json", "config.sha256", "model.safetensors", "demo.json"
NOTICES, STAND_INS = "notices.json", "stand_ins.json"
MOST_TOKENS = 1_000_000  # upper bound of a model's limits, from which slots are allocated before any request
MOST_JSON_BYTES = 16_000_000  # of each JSON file here; 40,000 language pairs take 4 MB
MOST_TOKENIZER_BYTES = 100_000_000
MOST_SCORE_DEPTH = 8
MOST_LANGUAGE_CHARACTERS = 64
IDEOGRAPHS = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # and kana, written without spaces
WORD = re.compile(rf"[{IDEOGRAPHS}]|[^\W\d_{IDEOGRAPHS}]+")  # in a casefolded text
StandInKinds = Mapping[tuple[str, str], tuple[str, ...]]
"""Source and target language -> the kinds of stand-ins that a translator copies, the best first."""
MOST_CODE_CHARACTERS = 200  # of a name or fingerprint in edited_code
MOST_COUNT = (1 << 63) - 1  # that another process can be sent

TokenIds = tuple[Annotated[int, Meta(ge=0)], ...]
Count = Annotated[int, Meta(ge=0, le=MOST_COUNT)]
Code = Annotated[str, Meta(max_length=MOST_CODE_CHARACTERS)]
Language = Annotated[str, Meta(max_length=MOST_LANGUAGE_CHARACTERS)]


class CheckpointError(ValueError):
    """A folder that cannot be used as a checkpoint. The message names the file and the problem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguagePair:
    """One pair of a multilingual translator. source_prefix: as in `CheckpointConfig`."""

    source: Annotated[Language, Meta(min_length=1)]
    target: Annotated[Language, Meta(min_length=1)]
    source_prefix: TokenIds


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointConfig:
    """The content of config.json. Lengths are in tokens.

    architecture: {"name": the network's name in `models.networks.loading`, and the fields of its config}.
    source_prefix: ids before every source that does not start with a language token: the target language token of a
        multilingual model (>>deu<<).
    language_pairs: of a multilingual translator, instead of source_language, target_language and source_prefix.
    source_suffix: ids after every source (an end token; the tutorial's single PAD).
    target_prefix: ids at the start of every target (the start token); () for language models.
    eos, suppressed, renormalise, forced_end: `models.decoding.options.TokenRules`.
    edited_code: method or cell of the network that was edited in training -> fingerprint (`models.networks.loading`).
    training: the whole configuration of the run;  scores: measured scores, with signatures.
    alignment: of a translator, the cross-attention heads measured to align words best: {heads (layer and number of
        each), convention, error, sentences}; None if not measured. error: None of
        a tuned model, whose heads are those of the model that it was tuned from."""

    kind: Literal["translator", "lyrics"]
    architecture: Mapping[str, Any]
    source_language: Language | None = None
    target_language: Language | None = None
    language_pairs: tuple[LanguagePair, ...] = ()
    source_prefix: TokenIds = ()
    source_suffix: TokenIds = ()
    target_prefix: TokenIds = ()
    eos: Annotated[int, Meta(ge=0)] | None = None
    suppressed: TokenIds = ()
    renormalise: bool = True
    forced_end: bool = False
    max_source_tokens: Annotated[int, Meta(ge=0, le=MOST_TOKENS)] = 0
    max_new_tokens: Annotated[int, Meta(ge=1, le=MOST_TOKENS)] = 1024
    parameters: Count = 0
    tokenizers: Mapping[str, str] = field(default_factory=dict)  # "source" | "target" -> tokenizer kind
    training: Mapping[str, Any] = field(default_factory=dict)
    scores: Mapping[str, Any] = field(default_factory=dict)
    alignment: Mapping[str, Any] | None = None
    edited_code: Mapping[Code, Code] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)  # file name -> sha256
    format_version: int = 1


@dataclass(frozen=True, slots=True)
class DemoCard:
    """What a model that comes with this project says about itself. patterns: how many sentences (songs, of a lyricist)
    it was trained on. examples: texts to try. way_out: how to get a model for real use. words: how many different words
    of all its languages it was trained on; of a lyricist, characters."""

    summary: str
    patterns: Count
    examples: tuple[str, ...]
    way_out: str
    words: Count


@dataclass(frozen=True, slots=True)
class NoticeRecord:
    """What notices about a translation compare it with. unsure_below: the mean log-probability of a token, in nats,
    below which a translation is called unsure; None if not calibrated. source_words, target_words: every `WORD` of a
    small training corpus; None if not recorded."""

    unsure_below: Annotated[float, Meta(ge=-100, le=0)] | None = None
    source_words: frozenset[str] | None = field(default=None, repr=False)
    target_words: frozenset[str] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A verified folder: its config and tokenizers. A lyrics model has a target tokenizer only. demo: of a
    model that comes with this project. stand_ins: of the language pairs that were tried."""

    folder: Path
    config: CheckpointConfig
    tokenizers: Mapping[str, Tokenizer]
    demo: DemoCard | None = None
    notices: NoticeRecord = NoticeRecord()
    stand_ins: StandInKinds = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def weights(self) -> Path:
        return self.folder / WEIGHTS

    def single_pairs(self) -> tuple[Self, ...]:
        """One checkpoint of one language pair for each pair of a multilingual translator; of others itself."""
        return tuple(
            replace(
                self,
                config=replace(
                    self.config,
                    source_language=pair.source,
                    target_language=pair.target,
                    source_prefix=pair.source_prefix,
                    language_pairs=(),
                ),
            )
            for pair in self.config.language_pairs
        ) or (self,)

    def for_pair(self, source: str | None, target: str | None) -> Self:
        """The checkpoint of this language pair; None stands for any language. CheckpointError if the model has no such
        pair, or several."""
        pairs = {(c.config.source_language, c.config.target_language): c for c in self.single_pairs()}
        found = [pair for pair in pairs if source in (None, pair[0]) and target in (None, pair[1])]
        if len(found) == 1:
            return pairs[found[0]]
        listed = ", ".join(f"{pair[0]} → {pair[1]}" for pair in found or pairs)
        if found:
            raise CheckpointError(f"{self.name} translates {listed}: say which source and target language are meant.")
        raise CheckpointError(f"{self.name} translates {listed}, and not {source or 'any'} → {target or 'any'}.")

    def source_ids(self, text: str) -> tuple[int, ...]:
        """The encoder's input for `text`."""
        ids = self.tokenizers["source"].encode(text)
        return (*self.source_prefix(ids), *ids, *self.config.source_suffix)

    def source_prefix(self, ids: Sequence[int]) -> tuple[int, ...]:
        """The prefix before a source with these ids; () if the text starts with a language token itself."""
        named = ids and self.config.source_prefix and is_language(self.tokenizers["source"].piece(ids[0]))
        return () if named else self.config.source_prefix

    def target_ids(self, text: str) -> tuple[int, ...]:
        """The decoder's input for `text`: the target prefix, then the text."""
        return (*self.config.target_prefix, *self.tokenizers["target"].encode(text))

    def decode(self, ids: Iterable[int]) -> str:
        return self.tokenizers["target"].decode(ids)


def new_token_limit(source_tokens: int, most: int) -> int:
    """The maximum length of a translation in tokens: twice its source plus 20, which no sound translation needs."""
    return min(most, 2 * source_tokens + 20)


def tokenizer_file(side: str, kind: str) -> str:
    return f"{side}.model" if kind == "sentencepiece" else f"{side}.json"


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_checkpoint(folder: Path) -> bool:
    return (folder / CONFIG).is_file()


def write(
    staging: Path,
    folder: Path,
    config: CheckpointConfig,
    tokenizers: Mapping[str, Tokenizer],
    notices: NoticeRecord = NoticeRecord(),
    stand_ins: StandInKinds | None = None,
) -> None:
    """Publishes `staging` (weights and accompanying files) as `folder`: adds tokenizers and config, then moves all
    files, config.json last. After an OSError (a full disk) `folder` is unchanged or has no config.json."""
    names = {side: tokenizer_file(side, tokenizer.kind) for side, tokenizer in tokenizers.items()}
    for side, tokenizer in tokenizers.items():
        tokenizer.write(staging / names[side])
    content = {**asdict(config), "tokenizers": {side: tokenizer.kind for side, tokenizer in tokenizers.items()}}
    if config.language_pairs:
        content["format_version"] = FORMAT_VERSION
    else:
        del content["language_pairs"]
    if not config.edited_code:  # which earlier versions do not read
        del content["edited_code"]
    # no checksums of files that users may edit, such as the model card
    content["files"] = {name: sha256(staging / name) for name in sorted([WEIGHTS, *names.values()])}
    (staging / CONFIG).write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")
    (staging / CONFIG_CHECKSUM).write_text(f"{sha256(staging / CONFIG)}  {CONFIG}\n", encoding="utf-8")
    if notices != NoticeRecord():
        _write_notice_record(staging / NOTICES, notices)
    if stand_ins:
        _write_stand_ins(staging / STAND_INS, content["files"], stand_ins)
    for path in staging.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CONFIG).unlink(missing_ok=True)
    for name in (DEMO, NOTICES, STAND_INS):  # of a model that another one replaces
        (folder / name).unlink(missing_ok=True)
    for path in sorted(staging.iterdir(), key=lambda path: path.name == CONFIG):
        path.replace(folder / path.name)


def read(folder: Path) -> Checkpoint:
    """Reads and verifies a folder; of the weights only the checksum. CheckpointError names the file that is missing,
    truncated, modified, or from a newer version."""
    config = read_verified_config(folder)
    demo, notices = read_demo_card(folder), read_notice_record(folder)
    return Checkpoint(folder, config, read_tokenizers(folder, config), demo, notices, read_stand_ins(folder, config))


def read_verified_config(folder: Path) -> CheckpointConfig:
    """`read_config`, and the checksums of the files that it names. CheckpointError."""
    config = read_config(folder)
    for name, digest in config.files.items():
        path = folder / name
        if Path(name).name != name:
            raise CheckpointError(f"{folder / CONFIG} names a file outside its folder; the model was not loaded.")
        if not path.is_file():
            raise CheckpointError(f"{path} is missing; the model was not loaded.")
        try:
            found = sha256(path)
        except OSError as error:
            raise CheckpointError(f"{path} cannot be read ({error}); the model was not loaded.") from error
        if found != digest:
            raise CheckpointError(f"{path} does not match its checksum; the model was not loaded.")
    if WEIGHTS not in config.files:
        raise CheckpointError(f"{folder / CONFIG} gives no checksum for {WEIGHTS}; the model was not loaded.")
    return config


def check_weights_header(folder: Path, config: CheckpointConfig) -> None:
    """CheckpointError unless the header of the weights is true of the file, and the network's sizes fit it. Nothing is
    allocated."""
    path = folder / WEIGHTS
    try:
        shapes = read_header(path)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be loaded: {error}.") from error
    try:
        check_architecture(config.architecture, shapes)
    except ValueError as error:
        raise CheckpointError(f"{folder / CONFIG} describes no network that can be built: {error}.") from error


def read_tokenizers(folder: Path, config: CheckpointConfig) -> dict[str, Tokenizer]:
    """The tokenizers by side. CheckpointError."""
    return {side: _tokenizer(folder, side, kind, config) for side, kind in config.tokenizers.items()}


def read_demo_card(folder: Path) -> DemoCard | None:
    """None if the model does not come with this project."""
    path = folder / DEMO
    try:
        return msgspec.convert(_read_json(path), DemoCard)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(
            f"{path} does not say what the model knows ({error}); remove it to load the model."
        ) from error


def _write_notice_record(path: Path, notices: NoticeRecord) -> None:
    sides = {"source_words": notices.source_words, "target_words": notices.target_words}
    content = {name: None if words is None else sorted(words) for name, words in sides.items()}
    text = json.dumps({"unsure_below": notices.unsure_below, **content}, ensure_ascii=False, indent=1)
    path.write_text(text, encoding="utf-8")


def read_notice_record(folder: Path) -> NoticeRecord:
    """An empty one where the folder has none. CheckpointError."""
    path = folder / NOTICES
    try:
        return msgspec.convert(_read_json(path), NoticeRecord)
    except FileNotFoundError:
        return NoticeRecord()
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is no record for notices ({error}); the model was not loaded.") from error


def read_stand_ins(folder: Path, config: CheckpointConfig) -> dict[tuple[str, str], tuple[str, ...]]:
    """Without the pairs that were not tried; {} where the record is of other weights or tokenizers, was made with other
    sentences, or cannot be read: then they are tried again."""
    try:
        content = _read_json(folder / STAND_INS)
        if content["fingerprint"] != record_fingerprint(config.files):
            return {}
        kinds_of = {(pair["source"], pair["target"]): tuple(pair["kinds"]) for pair in content["pairs"]}
        _require(all(set(kinds) <= set(KINDS) and len(kinds) <= len(KINDS) for kinds in kinds_of.values()), "no kinds")
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}
    return kinds_of


def record_stand_ins(folder: Path, config: CheckpointConfig, kinds_of: StandInKinds) -> None:
    """Adds pairs to the record of a published folder, whose readers find the old record or the new one. Two writers at
    a time cost one of them its pair, which is then tried again. OSError where the folder cannot be written."""
    staged = folder / f".{STAND_INS}.{secrets.token_hex(8)}"
    try:
        _write_stand_ins(staged, config.files, {**read_stand_ins(folder, config), **kinds_of})
        staged.replace(folder / STAND_INS)
    finally:
        staged.unlink(missing_ok=True)


def _write_stand_ins(path: Path, files: Mapping[str, str], kinds_of: StandInKinds) -> None:
    pairs = [{"source": source, "target": target, "kinds": kinds} for (source, target), kinds in kinds_of.items()]
    text = json.dumps({"fingerprint": record_fingerprint(files), "pairs": pairs}, ensure_ascii=False, indent=1)
    with path.open("x", encoding="utf-8") as file:  # follows no link that a stranger's folder has
        file.write(text)


def _tokenizer(folder: Path, side: str, kind: str, config: CheckpointConfig) -> Tokenizer:
    path = folder / tokenizer_file(side, kind)
    if path.name not in config.files:
        raise CheckpointError(f"{folder / CONFIG} gives no checksum for {path.name}; the model was not loaded.")
    try:
        require_file(path, MOST_TOKENIZER_BYTES)
        return read_tokenizer(kind, path)
    except Exception as error:
        raise CheckpointError(f"{path} is not a tokenizer that this version reads ({error}).") from error


def read_config(folder: Path) -> CheckpointConfig:
    """Reads config.json only, without checking the files that it names."""
    path = folder / CONFIG
    try:
        content = _read_json(path)
    except FileNotFoundError:
        meant = Path("checkpoints") / folder  # as `parlance serve NAME` takes it
        hint = f", and {meant} is" if (meant / CONFIG).is_file() and not folder.exists() else ""
        raise CheckpointError(f"{path} is missing: {folder} is not a checkpoint{hint}.") from None
    except NotADirectoryError:
        raise CheckpointError(f"{folder} is a file, not a checkpoint folder.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} cannot be read ({error}); the model was not loaded.") from error
    version = content.get("format_version") if isinstance(content, dict) else None
    if version is None and isinstance(content, dict) and "model_type" in content:
        kind = content["model_type"]
        can = kind in ("marian", "pegasus")
        way = "`parlance import` makes a checkpoint of it" if can else "only marian and pegasus models can be imported"
        raise CheckpointError(f"{path} is of a {kind} model in Hugging Face's form: {way}.")
    if not isinstance(version, int) or version < 1:
        raise CheckpointError(f"{path} has no format_version; the model was not loaded.")
    if version > FORMAT_VERSION:
        raise CheckpointError(
            f"{path} has format {version} and this version reads up to {FORMAT_VERSION}: upgrade Parlance to load it."
        )
    try:
        unknown = content.keys() - CheckpointConfig.__dataclass_fields__.keys()
        _require(not unknown, f"there is no field {', '.join(sorted(unknown))}")
        config = _checked(msgspec.convert(content, CheckpointConfig))
    except ValueError as error:
        raise CheckpointError(f"{path} does not describe a model ({error}); it was not loaded.") from error
    _verify_config(folder)
    return config


def _verify_config(folder: Path) -> None:
    """CheckpointError where config.json is not that of its checksum. A folder without the checksum is as good as it was
    before there was one."""
    path = folder / CONFIG_CHECKSUM
    try:
        require_file(path, MOST_JSON_BYTES)
        with path.open("rb") as file:
            written = file.read(100)
        sound = written.split(maxsplit=1)[:1] == [sha256(folder / CONFIG).encode()]
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read ({error}); the model was not loaded.") from error
    if not sound:
        way_out = f"or, after a change of your own, remove {CONFIG_CHECKSUM}"
        raise CheckpointError(f"{folder / CONFIG} does not match its checksum: restore it, {way_out}.")


def _read_json(path: Path) -> Any:
    """Raises OSError; ValueError, also for a file that is too large and for halves of characters, which no answer could
    hold; RecursionError."""
    require_file(path, MOST_JSON_BYTES)
    content = json.loads(path.read_text(encoding="utf-8"))
    try:
        json.dumps(content, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        raise ValueError(f"it holds half a character, {half}") from None
    return content


def require_file(path: Path, most: int) -> None:
    """ValueError unless it is a regular file of at most so many bytes. OSError."""
    if (size_bytes := regular_file_bytes(path)) > most:
        raise ValueError(f"it has {size_bytes:,} bytes, and the most is {most:,}")


def _require(sound: bool, otherwise: str) -> None:
    if not sound:
        raise ValueError(otherwise)


def _checked(config: CheckpointConfig) -> CheckpointConfig:
    sides = {"target"} if config.kind == "lyrics" else {"source", "target"}
    _require(set(config.tokenizers) == sides, f"a {config.kind} needs tokenizers for {' and '.join(sorted(sides))}")
    _require("name" in config.architecture, "architecture has no name")
    named = [config.source_language or "", config.target_language or "", *config.edited_code]
    named += [*config.edited_code.values(), *(f"{pair.source}{pair.target}" for pair in config.language_pairs)]
    printable = all(map(str.isprintable, named))
    _require(printable, "the names of languages and of edited code must have printable characters alone")
    for name, value in config.architecture.items():
        _require(not isinstance(value, float) or math.isfinite(value), f"architecture.{name} must be finite")
    if config.language_pairs:
        _check_language_pairs(config)
    if config.alignment is not None:
        _check_alignment(config.alignment, config.architecture)
    _require(_depth_is_at_most(MOST_SCORE_DEPTH, config.scores), "scores must not be nested so deeply")
    return config


def _depth_is_at_most(most: int, value: object) -> bool:
    if not isinstance(value, Mapping | list):
        return True
    return most > 0 and all(
        _depth_is_at_most(most - 1, part) for part in (value.values() if isinstance(value, Mapping) else value)
    )


def _check_language_pairs(config: CheckpointConfig) -> None:
    names = [f"{pair.source} → {pair.target}" for pair in config.language_pairs]
    _require(config.kind == "translator", "only a translator has language_pairs")
    _require(len(set(names)) == len(names), f"language_pairs lists {max(names, key=names.count)} twice")
    alone = config.source_language is None and config.target_language is None and not config.source_prefix
    _require(alone, "language_pairs leaves no place for source_language, target_language or source_prefix")


def _check_alignment(alignment: object, architecture: Mapping[str, object]) -> None:
    """ValueError unless the heads exist and the other fields are valid."""
    layers, count = architecture.get("decoder_layers"), architecture.get("heads")
    if not isinstance(alignment, Mapping) or not isinstance(layers, int) or not isinstance(count, int):
        raise ValueError("alignment must be an object, of a network with layers and heads")
    heads, error = alignment.get("heads"), alignment.get("error", -1)
    known = isinstance(heads, list) and bool(heads) and all(_is_head(head, layers, count) for head in heads)
    _require(known, f"alignment.heads must be pairs of a layer in 0..{layers - 1} and a head in 0..{count - 1}")
    _require(alignment.get("convention") in ("predicting", "input"), "alignment.convention must be predicting or input")
    if error is not None and (not isinstance(error, int | float) or isinstance(error, bool) or not 0 <= error <= 1):
        raise ValueError("alignment.error must be a number in 0..1, or null")


def _is_head(value: object, layers: int, heads: int) -> bool:
    if not isinstance(value, list) or [type(number) for number in value] != [int, int]:
        return False
    return bool(0 <= value[0] < layers and 0 <= value[1] < heads)
