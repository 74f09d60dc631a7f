"""A translator's run: pairs -> tokenizers -> batches -> training -> scores -> checkpoint."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import cast

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from models import checkpoint as checkpoints
from models.checkpoint import Checkpoint, CheckpointConfig, DemoCard, LanguagePair
from models.networks import loading
from models.networks.transformer import Transformer, TransformerConfig
from models.tokenizer import Tokenizer
from training.config.run_config import TranslatorConfig
from training.data.mixing import MixedEpochs, mix_summary
from training.data.segmentation import PairIds, Segmentation, epoch_rows, pair_ids, special_ids
from training.data.sentence_pairs import Pairs
from training.data.tokenizer_training import fit_translator_tokenizers, language_ids, language_token, sequence_ids
from training.errors import TrainingError, pluralize
from training.evaluation.alignment_heads import AlignedSentence, choose_alignment_heads
from training.evaluation.bleu_validator import BleuValidator, subsample
from training.evaluation.closing_time import translator_closing
from training.evaluation.scores import Scores, score_translator
from training.loop.tasks import TranslationTask
from training.output_folder import CORPUS_REPORT, STAGING_FOLDER, publish
from training.report.card_writer import translator_card
from training.starting_point import StartingPoint, average_with_start, freeze
from training.training_run import TrainingRun

TEST_BEAM = 5
SCORED_SENTENCES = 1000  # of the validation set, at the end of a run


def train_translator(
    config: TranslatorConfig,
    train: Pairs,
    valid: Pairs | None,
    run: TrainingRun,
    *,
    start: StartingPoint | None = None,
    tokenizers: Mapping[str, Tokenizer] | None = None,
    mix: tuple[Pairs, Pairs | None] | None = None,
    test: Pairs | None = None,
    test_beam: int = TEST_BEAM,
    aligned: Sequence[AlignedSentence] = (),
    demo: DemoCard | None = None,
) -> Scores:
    """Trains and publishes a translator; returns its scores, on test pairs both greedy and with `test_beam`. All
    processes of `run` call this; ranks other than 0 return {}. start: the model to train further; its network and
    tokenizers must be those of `config` (`starting_point.adapted`). tokenizers: of a new network; None: fitted.
    mix: general pairs to mix in, and held-out ones. aligned: held-out sentences for choosing alignment heads. demo: of
    a demo model. TrainingError for problems that the user can fix."""
    with run.claimed():
        torch.manual_seed(config.loop.seed)
        if start is None:
            network, checkpoint = new_translator(config, tokenizers or fitted_tokenizers(config, train, run), run)
        else:
            network = start.network(config.network).to(run.device)
            checkpoint = Checkpoint(run.out, start.tuned_metadata(asdict(config), network), start.tokenizers)
        freeze(network, config.tuning.frozen)
        segmentation = Segmentation(checkpoint, train, config)
        epochs, mixed = segmentation.epoch, ""
        if mix is not None:
            general, share = Segmentation(checkpoint, mix[0], config), config.tuning.mix_share
            epochs = MixedEpochs(segmentation.epoch, general.epoch, share, config.loop.seed).epoch
            mixed = mix_summary(mix[0], len(segmentation.best[0]), share)
            run.workers.note(f"Mixes in {mixed}.")
        if run.workers.writes:
            segmentation.report.write(run.out / CORPUS_REPORT, general.report if mix else None)
            if start is not None and not run.resume:
                start.keep(run.out)
        held_out = subsample(valid, config.loop.sentences_to_validate()) if valid else None
        texts = [train.sources, train.targets, *([valid.sources, valid.targets] if valid else [])]
        if mix is not None:
            texts += [mix[0].sources, mix[0].targets]
        task = translation_task(checkpoint, network, epochs, held_out, config)
        validator = bleu_validator(checkpoint, task, held_out, mix[1] if mix else None) if held_out else None
        held_out_sets, closing = held_out_texts(valid, mix), None
        if held_out and len(config.pairs) == 1:
            # a tuned network is compared with its start
            greedy = sum(map(len, held_out_sets.values())) * (1 if start is None else 2) + (len(test) if test else 0)
            beamed = len(test) if test and test_beam > 1 else 0
            closing = translator_closing(checkpoint, network, held_out.sources, greedy=greedy, beam=beamed)
        outcome = run.train(
            task,
            config,
            title=", ".join(f"{source}→{target}" for source, target in config.pairs),
            texts=texts,
            tokenizers=checkpoint.tokenizers,
            validator=validator,
            validates_start=start is not None,
            sentences=len(held_out) if held_out else 0,
            closing=closing,
        )
        if not run.workers.writes:
            return {}
        if start is not None:
            average_with_start(start, config.tuning.average_with_start, task, outcome)
        scores = {name: score_translator(checkpoint, network, pairs) for name, pairs in held_out_sets.items()}
        metadata = checkpoint.config
        if start is not None:
            metadata = compared_with_start(start, config, checkpoint, held_out_sets, scores, run)
        scores |= scores_on_test(checkpoint, network, test, test_beam)
        scores = with_earlier_scores(scores, network, run)
        samples = validator.examples() if validator else ()
        alignment = choose_alignment_heads(checkpoint, network, aligned) if aligned else metadata.alignment
        metadata = replace(metadata, scores=scores, alignment=alignment)
        card = translator_card(config, metadata, train, valid, segmentation.report, outcome, run, samples, mixed, demo)
        publish(run.out, metadata, checkpoint.tokenizers, network, card, demo)
        run.report_end(outcome, scores)
        return scores


def translation_task(
    checkpoint: Checkpoint,
    network: Transformer,
    epochs: Callable[[int], PairIds],
    held_out: Pairs | None,
    config: TranslatorConfig,
) -> TranslationTask:
    """epochs: returns the pairs of epoch 0, 1, ... held_out: the pairs for the validation loss."""
    valid_ids = pair_ids(checkpoint, held_out) if held_out else None
    special = special_ids(checkpoint, "source"), special_ids(checkpoint, "target")
    sizes = [size for _, size in held_out.parts] if held_out else []
    return TranslationTask(network, epochs, valid_ids, config, special, sizes)


def bleu_validator(
    checkpoint: Checkpoint, task: TranslationTask, held_out: Pairs, general: Pairs | None
) -> BleuValidator:
    """Validates the task's network on `held_out`, and measures its loss on the pairs `general` if there are any."""
    loop, general_loss = task.config.loop, None
    if general is not None:
        general_ids = pair_ids(checkpoint, subsample(general, loop.sentences_to_validate()))
        general_loss = partial(task.mean_nats, general_ids)
    return BleuValidator(checkpoint, task.network, held_out, loop, lambda: task.part_losses, general_loss)


def held_out_texts(valid: Pairs | None, mix: tuple[Pairs, Pairs | None] | None) -> dict[str, Pairs]:
    """Name of the score -> the pairs that it is measured on at the end of a run, at most SCORED_SENTENCES."""
    sets = {
        **{named("validation", pair, 1): part for pair, part in (valid.by_part() if valid else ())},
        "held out of the general pairs (greedy)": mix[1] if mix else None,
    }
    return {name: first(pairs, SCORED_SENTENCES) for name, pairs in sets.items() if pairs}


def compared_with_start(
    start: StartingPoint,
    config: TranslatorConfig,
    checkpoint: Checkpoint,
    held_out_sets: Mapping[str, Pairs],
    scores: Scores,
    run: TrainingRun,
) -> CheckpointConfig:
    """The checkpoint's metadata with the scores of the starting weights on the held-out pairs, which a note compares
    with `scores`, those of the tuned weights."""
    beginning = cast(Transformer, start.network(config.network).to(run.device))
    before = {name: score_translator(checkpoint, beginning, pairs) for name, pairs in held_out_sets.items()}
    for name in held_out_sets:
        bleu = f"BLEU {before[name]['bleu']:.2f} with the starting weights, {scores[name]['bleu']:.2f} tuned"
        run.workers.note(f"{name}: {bleu}")
    return start.with_scores_before(checkpoint.config, before)


def scores_on_test(checkpoint: Checkpoint, network: Transformer, test: Pairs | None, beam: int) -> Scores:
    """Greedy and with `beam`."""
    scores: Scores = {}
    for pair, part in test.by_part() if test else ():
        for width in dict.fromkeys((1, beam)):
            name = named(part.origin, pair, width)
            scores[name] = score_translator(checkpoint, network, part, beam=width)
    return scores


def named(origin: str, pair: str, beam: int) -> str:
    """The name of a score. pair: of a multilingual translator, else ""."""
    return f"{origin} {pair}".strip() + (" (greedy)" if beam == 1 else f" (beam {beam})")


def first(pairs: Pairs, most: int) -> Pairs:
    return Pairs(pairs.sources[:most], pairs.targets[:most])


def fitted_tokenizers(config: TranslatorConfig, train: Pairs, run: TrainingRun) -> dict[str, Tokenizer]:
    """Tokenizers of the training texts, fitted by rank 0; a note if the texts have fewer pieces than wanted."""
    texts = train
    if train.parts:  # as often as an epoch reads them
        rows = epoch_rows(train.parts, config.multilingual.sampling_temperature, f"{config.loop.seed} vocabulary")
        texts = Pairs([train.sources[i] for i in rows], [train.targets[i] for i in rows])
    tokenizers = run.workers.on_rank_0(
        lambda: fit_translator_tokenizers(config.tokenizer, texts.sources, texts.targets, config.multilingual.targets)
    )
    if config.tokenizer.kind == "sentencepiece" and len(train) > config.tokenizer.sample_pairs:
        sample = f"a random sample of {config.tokenizer.sample_pairs:,} pairs (tokenizer.sample_pairs)"
        run.workers.note(f"The vocabulary is fitted to {sample}.")
    wanted, largest = config.tokenizer.vocab_size, max(tokenizer.size for tokenizer in tokenizers.values())
    if config.tokenizer.kind == "sentencepiece" and largest < wanted:
        enough = f"enough for a vocabulary of {pluralize(largest, 'piece')}"
        run.workers.note(f"The corpus has {enough}, fewer than the {wanted:,} asked for.")
    return tokenizers


def new_translator(
    config: TranslatorConfig, tokenizers: Mapping[str, Tokenizer], run: TrainingRun
) -> tuple[Transformer, Checkpoint]:
    """A freshly initialised network, and its checkpoint without scores, which follow at the end of the run."""
    network = build_translator(config, tokenizers, run.device)
    return network, Checkpoint(run.out, translator_metadata(config, network, tokenizers), tokenizers)


def build_translator(
    config: TranslatorConfig, tokenizers: Mapping[str, Tokenizer], device: torch.device
) -> Transformer:
    """A freshly initialised network."""
    pad = sequence_ids(tokenizers, config.tokenizer.source_end).pad
    source, target = tokenizers["source"].size, tokenizers["target"].size
    try:
        architecture = TransformerConfig(source_vocabulary=source, target_vocabulary=target, pad=pad, **config.network)
    except (TypeError, ValueError) as error:
        raise TrainingError(f"The network of recipe {config.recipe} cannot be built: {error}") from error
    return Transformer(architecture).to(device)


def translator_metadata(
    config: TranslatorConfig, network: Transformer, tokenizers: Mapping[str, Tokenizer]
) -> CheckpointConfig:
    """Metadata of a new translator without scores, which follow at the end of a run."""
    ids = sequence_ids(tokenizers, config.tokenizer.source_end)
    languages, never = language_ids(tokenizers["source"]), language_ids(tokenizers["target"])
    if missing := [code for code in config.multilingual.targets if language_token(code) not in languages]:
        token = language_token(missing[0])
        raise TrainingError(
            f"The tokenizer has no token {token}, which --multilingual puts before sources: leave --tokenizer out."
        )
    pairs = tuple(
        LanguagePair(source=source, target=target, source_prefix=(languages[language_token(target)],))
        for source, target in config.multilingual.pairs
    )
    return CheckpointConfig(
        kind="translator",
        architecture=loading.architecture("transformer", network.config),
        source_language=None if pairs else config.source_language,
        target_language=None if pairs else config.target_language,
        language_pairs=pairs,
        source_suffix=(ids.source_end,),
        target_prefix=(ids.start,),
        eos=ids.end,
        suppressed=tuple(sorted({*ids.suppressed, *never.values()})),
        max_source_tokens=config.max_tokens,
        max_new_tokens=config.max_tokens,
        parameters=sum(p.numel() for p in network.parameters()),
        training=asdict(config),
    )


def with_earlier_scores(scores: Scores, network: nn.Module, run: TrainingRun) -> Scores:
    """Adds the published scores on other texts if the weights are unchanged; else a note names the dropped scores."""
    config = _published_config(run.out)
    others = [name for name in config.scores if name not in scores] if config else []
    if config is None or not others:
        return scores
    for path in (run.out / checkpoints.WEIGHTS, run.out / STAGING_FOLDER / checkpoints.WEIGHTS):
        with contextlib.suppress(OSError, SafetensorError):
            if checkpoints.sha256(path) == config.files[checkpoints.WEIGHTS]:
                saved, own = load_file(path), loading.unique_tensors(network)
                if saved.keys() == own.keys() and all(torch.equal(saved[name], own[name]) for name in own):
                    return {**config.scores, **scores}
                break
    run.workers.note(f"The scores of {', '.join(others)} were other weights': give --test again to have them.")
    return scores


def _published_config(out: Path) -> CheckpointConfig | None:
    """The config in `out`, or the staged one (published last) if a kill interrupted publication."""
    for folder in (out, out / STAGING_FOLDER):
        with contextlib.suppress(checkpoints.CheckpointError):
            return checkpoints.read_config(folder)
    return None
