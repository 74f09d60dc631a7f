"""The starting point of a run with `--from`: weights, tokenizers and decoding rules of a trained model.

It is a checkpoint folder of this project, a Marian folder in Hugging Face's form, or the name of either on the Hub. A
run keeps a copy in `resume/start`, so that `--resume` needs the model at neither its old place nor in its old state."""

from __future__ import annotations

import difflib
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from models import checkpoint as checkpoints
from models.checkpoint import CheckpointConfig, LanguagePair
from models.exactness import Undrawn
from models.model_card import licence as card_licence
from models.model_names import HUB_NAME, shipped_folder
from models.networks import loading
from models.tokenizer import Tokenizer
from training import snapshot
from training.config.overrides import FROM_THE_DATA
from training.config.run_config import Config, LyricsConfig, NetworkOptions, TokenizerConfig, TranslatorConfig
from training.data.tokenizer_training import tokenizer_config
from training.errors import TrainingError, command_line
from training.evaluation.scores import Scores
from training.importers.import_progress import ConsoleProgress
from training.importers.marian.convert_checkpoint import careful, convert_marian, marian_folder
from training.importers.marian.hub_folder import MarianFolder
from training.importers.marian.marian_languages import TokenNeeded, recorded_languages
from training.importers.marian.tokenizer_conversion import TOKENIZER_CONFIG_FILE
from training.importers.marian.weight_conversion import NORM_OF_TYPE, RECORD

Kind = Literal["translator", "lyrics"]
KINDS = {"translator": "a translator", "lyrics": "a lyricist"}
KEPT_FOLDER, ORIGIN_FILE = "start", "origin.json"
EMBEDDINGS = ("embedding", "source_embedding", "target_embedding")


@dataclass(frozen=True, slots=True)
class StartingPoint:
    """given: the argument of `--from`. config: the model's own. weights: name -> tensor on the CPU, tied tables once.
    sha256: of the file with the weights. licence: of the model, if its card names one. base_model: its name on the Hub,
    if it has one."""

    given: str
    config: CheckpointConfig
    tokenizers: Mapping[str, Tokenizer]
    weights: Mapping[str, Tensor]
    sha256: str
    licence: str | None = None
    base_model: str | None = None

    def network(self, options: NetworkOptions) -> Any:
        """The network with its weights, in evaluation mode on the CPU. options: may set other dropout probabilities."""
        with Undrawn():
            network = loading.build({**self.config.architecture, **options})
        loading.load_weights(network, {name: tensor.clone() for name, tensor in self.weights.items()})
        return network.eval()

    def check_frozen(self, modules: Sequence[str]) -> None:
        """TrainingError if `freeze` would refuse these modules of the network."""
        if modules:
            with Undrawn():
                freeze(loading.build(self.config.architecture), modules)

    def network_options(self) -> dict[str, Any]:
        """The architecture as options of a run's configuration."""
        left_out = {"name", *FROM_THE_DATA}
        return {name: value for name, value in self.config.architecture.items() if name not in left_out}

    def tokenizer_config(self) -> TokenizerConfig:
        """The options of a run that describe these tokenizers."""
        source_end: Literal["eos", "pad"] = "eos" if self.config.source_suffix == (self.config.eos,) else "pad"
        recorded = self.config.training.get("tokenizer")
        return tokenizer_config(self.tokenizers, source_end, recorded if isinstance(recorded, Mapping) else {})

    def tuned_metadata(
        self, training: Mapping[str, Any], network: nn.Module, pairs: tuple[LanguagePair, ...] = ()
    ) -> CheckpointConfig:
        """Metadata of the tuned model, with the decoding rules and limits of this one and without scores. training: the
        run's configuration. pairs: of a multilingual run."""
        architecture = {"name": self.config.architecture["name"], **asdict(network.config)}  # type: ignore[call-overload]
        return replace(
            self.config,
            architecture=architecture,
            source_language=None if pairs else training.get("source_language"),
            target_language=None if pairs else training.get("target_language"),
            source_prefix=() if pairs else self.config.source_prefix,
            language_pairs=pairs,
            parameters=sum(parameter.numel() for parameter in network.parameters()),
            # the heads probably align best still; how well is not known of other weights
            alignment=self.config.alignment and {**self.config.alignment, "error": None, "sentences": 0},
            training={**training, "from": self.record()},
            scores={},
            files={},
        )

    def with_scores_before(self, metadata: CheckpointConfig, scores: Scores) -> CheckpointConfig:
        """Adds what the starting weights reach on texts of the run."""
        origin = {**metadata.training["from"], "scores_before": scores}
        return replace(metadata, training={**metadata.training, "from": origin})

    def record(self) -> dict[str, object]:
        """The origin for config.json and the model card of a tuned model."""
        languages = [code for code in (self.config.source_language, self.config.target_language) if code]
        origin = {"model": self.given, "sha256": self.sha256, "licence": self.licence, "base_model": self.base_model}
        return {**origin, "languages": languages, "scores": dict(self.config.scores)}

    def keep(self, out: Path) -> None:
        """Writes the copy for `--resume`. OSError if the disk is full."""
        folder = out / snapshot.FOLDER / KEPT_FOLDER
        staging = folder.with_name(f"{KEPT_FOLDER}.new")
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir(parents=True)
        try:
            save_file(dict(self.weights), staging / checkpoints.WEIGHTS)
        except SafetensorError as error:  # safetensors' error for a failed write
            raise OSError(f"{folder / checkpoints.WEIGHTS} could not be saved ({error})") from error
        origin = {name: getattr(self, name) for name in ("given", "sha256", "licence", "base_model")}
        (staging / ORIGIN_FILE).write_text(json.dumps(origin, ensure_ascii=False), encoding="utf-8")
        checkpoints.write(staging, folder, self.config, self.tokenizers)
        staging.rmdir()


def has_kept(out: Path) -> bool:
    return checkpoints.is_checkpoint(out / snapshot.FOLDER / KEPT_FOLDER)


def read_kept(out: Path, given: str | None) -> StartingPoint:
    """The starting point of the unfinished run in `out`. given: what `--from` names now. TrainingError if the run had
    another one."""
    folder = out / snapshot.FOLDER / KEPT_FOLDER
    try:
        origin = json.loads((folder / ORIGIN_FILE).read_text(encoding="utf-8"))
        checkpoint = checkpoints.read(folder)
        weights = load_file(checkpoint.weights)
    except (OSError, ValueError, SafetensorError) as error:
        raise snapshot.unusable(folder, "is damaged and cannot be read") from error
    if given != origin["given"]:
        now = f"and not {given}" if given else "which is missing here"
        raise TrainingError(f"The run in {out} started with --from {origin['given']}, {now}: resume it with the same.")
    return StartingPoint(config=checkpoint.config, tokenizers=checkpoint.tokenizers, weights=weights, **origin)


def read_starting_point(
    given: str, kind: Kind, source: str | None = None, target: str | None = None, *, several: bool = False
) -> StartingPoint:
    """given: a folder or a name on the Hub. source, target: languages, for a Marian folder that does not name its own,
    and for a multilingual model of which one pair is tuned. several: whether all of its pairs are. TrainingError if it
    is no model of this kind."""
    folder = _folder(given)
    described = MarianFolder(folder, folder.resolve().name).object(checkpoints.CONFIG)
    if "format_version" in described:
        start = _own(given, folder, None if several else (source, target))
    elif described.get("model_type") in NORM_OF_TYPE:
        start = _marian(given, folder, source, target)
    else:
        model = described.get("model_type")
        what = f"a model of type {model!r}" if model else "a config.json that names no model"
        raise TrainingError(
            f"{given} has {what}: --from takes a checkpoint of this project, or a Marian model or an export of ours in"
            " Hugging Face's form."
        )
    if start.config.kind != kind:
        is_a, command = KINDS[start.config.kind], start.config.kind
        raise TrainingError(f"{given} is {is_a}, not {KINDS[kind]}: tune it with `{command_line(command)}`.")
    if kind == "translator" and start.config.eos is None:
        raise TrainingError(f"{given} has no end token, and so cannot learn where a translation ends: take another.")
    return start


def _folder(given: str) -> Path:
    """An existing folder with a config.json, or one fetched from the Hub."""
    path = Path(given)
    if path.is_dir():
        if checkpoints.is_checkpoint(path):
            return path
        if snapshot.exists(path):
            raise TrainingError(f"{given} holds an unfinished run: finish it first, with --resume --out {given}.")
        raise TrainingError(f"{given} holds no {checkpoints.CONFIG}: --from takes the folder of a finished model.")
    if shipped := shipped_folder(given):
        return shipped
    if path.exists():
        raise TrainingError(f"{given} is a file: --from takes the folder of a model, or a name on the hub.")
    if HUB_NAME.fullmatch(given) and not path.parent.is_dir():
        progress = ConsoleProgress()
        try:
            return marian_folder(given, progress).path
        finally:
            progress.close()
    places = (Path("checkpoints") / path.parent, path.parent)  # the former as `parlance serve NAME` takes it
    beside = {one.name: one for place in places if place.is_dir() for one in place.iterdir() if one.is_dir()}
    near = difflib.get_close_matches(path.name, beside, 1)
    hint = f"did you mean {beside[near[0]]}?" if near else "give the folder of a model, or a name on the hub."
    raise TrainingError(f"There is no folder {given}: {hint}")


def _own(given: str, folder: Path, pair: tuple[str | None, str | None] | None) -> StartingPoint:
    """pair: of a multilingual model; None: all of them."""
    try:
        checkpoint = checkpoints.read(folder)
        if checkpoint.config.language_pairs and pair is not None:
            checkpoint = checkpoint.for_pair(*pair)
        network = loading.load_network(checkpoint)
    except checkpoints.CheckpointError as error:
        raise TrainingError(str(error)) from error
    training = checkpoint.config.training
    earlier = training.get("from")
    before = earlier if isinstance(earlier, Mapping) else {}
    imported = str(training.get("imported_from", ""))
    fetched = given if HUB_NAME.fullmatch(given) and not Path(given).exists() else imported
    hub = fetched if HUB_NAME.fullmatch(fetched) else before.get("base_model")
    return StartingPoint(
        given,
        checkpoint.config,
        checkpoint.tokenizers,
        loading.unique_tensors(network),
        checkpoint.config.files[checkpoints.WEIGHTS],
        card_licence(folder) or training.get("licence") or before.get("licence"),
        hub,
    )


def _marian(given: str, path: Path, source: str | None, target: str | None) -> StartingPoint:
    on_hub = not Path(given).exists()
    folder = MarianFolder(path, given if on_hub else path.resolve().name)
    options = folder.object(TOKENIZER_CONFIG_FILE, required=False)
    recorded = recorded_languages(options, folder.object(checkpoints.CONFIG))
    command = command_line("import-marian", str(given))
    try:
        with careful(folder):
            made = convert_marian(folder, source=recorded[0] or source, target=recorded[1] or target)
    except TokenNeeded as error:
        raise TrainingError(
            f"{given} has several target languages: choose one with `{command} --prefix TOKEN --out FOLDER`, and tune"
            " that folder."
        ) from error
    if (pairs := made.metadata.language_pairs) and RECORD not in folder.object(checkpoints.CONFIG):
        raise TrainingError(
            f"{given} has {len(pairs)} language pairs: choose one with `{command} --source {pairs[0].source}"
            f" --target {pairs[0].target} --out FOLDER`, and tune that folder."
        )
    return StartingPoint(
        given,
        made.metadata,
        made.tokenizers,
        loading.unique_tensors(made.network),
        checkpoints.sha256(folder.weights),
        made.metadata.training["licence"],
        given if on_hub else None,
    )


def adapted(base: Config, start: StartingPoint) -> Config:
    """A recipe's configuration with the network, tokenizer and languages of the starting point in place of its own."""
    config = start.config
    if isinstance(base, LyricsConfig):
        as_line = bool(config.training.get("newline_as_space", base.newline_as_space))
        unknown = start.tokenizers["target"].special.unknown is not None
        network = start.network_options()
        letters = bool(getattr(start.tokenizers["target"], "letters_only", False))
        read = replace(base, newline_as_space=as_line, unknown=unknown, letters_only=letters)
        return replace(read, network=network, init_std=None)
    return replace(
        base,
        source_language=config.source_language or base.source_language,
        target_language=config.target_language or base.target_language,
        tokenizer=start.tokenizer_config(),
        network=start.network_options(),
        max_tokens=min(base.max_tokens, config.max_source_tokens),
    )


def known_languages(start: StartingPoint) -> set[str]:
    """The language options that the starting point answers."""
    pair = {"source_language": start.config.source_language, "target_language": start.config.target_language}
    return {name for name, code in pair.items() if code}


def without_start(config: TranslatorConfig | LyricsConfig) -> Iterator[str]:
    """Options of a run without a starting point that need one."""
    for name in ("freeze", "other_languages"):
        if getattr(config.tuning, name, None):
            yield f"tuning.{name} needs --from, a model to start from"


def contradictions(config: TranslatorConfig | LyricsConfig, start: StartingPoint) -> Iterator[str]:
    """Options of a run that the starting point does not allow: another network, vocabulary or language pair."""
    own = start.network_options()
    for name, value in config.network.items():
        if not name.endswith("dropout") and value != own.get(name, value):
            yield f"network.{name} = {value} contradicts --from {start.given}, whose network has {own[name]}"
    if isinstance(config, LyricsConfig):
        if config.init_std is not None:
            yield "init_std contradicts --from, which brings its weights"
        return
    yield from tokenizer_contradictions(config.tokenizer, start.tokenizer_config(), f"--from {start.given}")
    if not config.tuning.other_languages:
        yield from _other_languages(config, start)


def with_tokenizers(base: Config, tokenizers: Mapping[str, Tokenizer], recorded: Mapping[str, object]) -> Config:
    """A recipe's configuration with existing tokenizers in place of its own."""
    if isinstance(base, LyricsConfig):
        return base
    return replace(base, tokenizer=tokenizer_config(tokenizers, base.tokenizer.source_end, recorded))


def tokenizer_contradictions(stated: TokenizerConfig, existing: TokenizerConfig, option: str) -> Iterator[str]:
    """option: that brings the existing tokenizers, with its argument."""
    for field in fields(TokenizerConfig):
        value, its_own = getattr(stated, field.name), getattr(existing, field.name)
        if field.name != "source_end" and value != its_own:
            yield f"tokenizer.{field.name} = {value} contradicts {option}, whose tokenizer has {its_own}"


def _other_languages(config: TranslatorConfig, start: StartingPoint) -> Iterator[str]:
    """A problem if the run's languages, regions aside, are not those of the starting point."""
    pair = config.source_language, config.target_language
    its_own = start.config.source_language or pair[0], start.config.target_language or pair[1]
    if [_language(code) for code in pair] != [_language(code) for code in its_own]:
        yield (
            f"--from {start.given} translates {its_own[0]} to {its_own[1]}, not {pair[0]} to {pair[1]}: leave --source"
            " and --target out, or add --other-languages to tune it into another pair"
        )


def _language(code: str) -> str:
    return code.replace("_", "-").partition("-")[0].lower()


def freeze(network: nn.Module, modules: Sequence[str]) -> int:
    """Excludes the parameters of the named modules from training; returns how many stay trainable. TrainingError if a
    name is none of the network's modules, or if nothing is left to train."""
    for name in modules:
        wanted = EMBEDDINGS if name == "embeddings" else (name,)
        frozen = [
            parameter
            for key, parameter in network.named_parameters(remove_duplicate=False)
            if any(f"{key}.".startswith(f"{prefix}.") for prefix in wanted)
        ]
        if not frozen:
            known = dict.fromkeys(key.partition(".")[0] for key, _ in network.named_parameters())
            raise TrainingError(
                f"tuning.freeze names {name}, which is no module of this network: its modules are embeddings,"
                f" {', '.join(known)}, and layers such as encoder.0."
            )
        for parameter in frozen:
            parameter.requires_grad_(False)
    trainable = sum(parameter.numel() for parameter in network.parameters() if parameter.requires_grad)
    if not trainable:
        raise TrainingError(f"tuning.freeze = {','.join(modules)} leaves nothing to train: name fewer modules.")
    return trainable
