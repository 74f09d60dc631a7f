"""A translator's run: pairs -> tokenizers -> batches -> training -> scores -> checkpoint."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import cast

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from models import checkpoint as checkpoints
from models.checkpoint import Checkpoint, CheckpointConfig, LanguagePair
from models.networks import loading
from models.networks.transformer import Transformer, TransformerConfig
from models.tokenizer import Tokenizer
from training.config.run_config import TranslatorConfig
from training.data.run_corpora import MixedEpochs, mix_summary
from training.data.segmentation import PairIds, Segmentation, epoch_rows, pair_ids, untaught
from training.data.sentence_pairs import CorpusReport, Pairs
from training.data.tokenizer_training import fit_translator_tokenizers, language_ids, language_token, sequence_ids
from training.errors import TrainingError, pluralize
from training.evaluation.alignment_heads import AlignedSentence, choose_alignment_heads
from training.evaluation.bleu_validator import BleuValidator, evenly_spaced_indices, subsample
from training.evaluation.model_outputs import translate
from training.evaluation.scores import Scores, score_translator
from training.evaluation.server_records import copied_stand_ins, notice_record, sentences_of_records
from training.loop.tasks import TranslationTask
from training.output_folder import CORPUS_REPORT, STAGING_FOLDER, publish
from training.progress import Closing
from training.report.card_writer import translator_card, tuning_verdict
from training.starting_point import StartingPoint, freeze
from training.training_run import PUBLISHING_S, TrainingRun

TEST_BEAM = 5
TOY_PIECES = 300  # a vocabulary of fewer is of no natural language
BEAM_COST = 3.0  # of beam 5, relative to greedy decoding
PROBED_SENTENCES = 32  # for `translator_closing`
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
    earlier: Pairs | None = None,
    test: Pairs | None = None,
    aligned: Sequence[AlignedSentence] = (),
) -> Scores:
    """Trains and publishes a translator; returns its scores, on test pairs both greedy and with a beam. All
    processes of `run` call this; ranks other than 0 return {}. start: the model to train further; its network and
    tokenizers must be those of `config` (`starting_point.adapted`). tokenizers: of a new network; None: fitted.
    mix: general pairs to mix in, and held-out ones. earlier: pairs of the domain of `start`, to measure what is
    forgotten. aligned: sentences for choosing alignment heads. TrainingError for problems that the user can fix."""
    with run.claimed():
        torch.manual_seed(config.loop.seed)
        network, checkpoint = translator_to_train(config, train, run, start, tokenizers)
        segmentation = Segmentation(checkpoint, train, config)
        epochs, mixed = segmentation.epoch, ""
        if mix is not None:
            general, share = Segmentation(checkpoint, mix[0], config), config.tuning.mix_share
            epochs = MixedEpochs(segmentation.epoch, general.epoch, share, config.loop.seed).epoch
            mixed = mix_summary(mix[0], len(segmentation.best[0]), share)
            run.workers.note(f"Mixes in {mixed}.")
        report_corpus(segmentation, train, general.report if mix else None, run)
        if run.workers.writes and start is not None and not run.resume:
            start.keep(run.out)
        held_out = subsample(valid, config.loop.sentences_to_validate()) if valid else None
        corpora = [train, *([valid] if valid else []), *([mix[0]] if mix else [])]
        task = translation_task(checkpoint, network, epochs, held_out, config)
        validator, held_out_sets, closing = None, held_out_texts(valid, mix, earlier), None
        if held_out:
            validator = BleuValidator(checkpoint, network, held_out, config.loop, lambda: task.part_losses)
            compared, tested = 1 if start is None else 2, len(test or ())  # a tuned network with its start
            greedy = sum(map(len, held_out_sets.values())) * compared + tested
            beamed = sentences_of_records(config.pairs, held_out) + tested
            closing = translator_closing(checkpoint, network, held_out.sources, greedy=greedy, beam=beamed)
        outcome = run.train(
            task,
            config,
            title=", ".join(f"{source}→{target}" for source, target in config.pairs),
            texts=[side for corpus in corpora for side in (corpus.sources, corpus.targets)],
            tokenizers=checkpoint.tokenizers,
            validator=validator,
            validates_start=start is not None,
            sentences=len(held_out) if held_out else 0,
            closing=closing,
        )
        if not run.workers.writes:
            return {}
        scores = {name: score_translator(checkpoint, network, pairs) for name, pairs in held_out_sets.items()}
        metadata = checkpoint.config
        if start is not None:
            metadata = compared_with_start(start, config, checkpoint, held_out_sets, scores, run)
        on_test = scores_on_test(checkpoint, network, test)
        scores = with_earlier_scores(scores | on_test, network, run)
        samples = validator.examples() if validator else ()
        alignment = choose_alignment_heads(checkpoint, network, aligned) if aligned else metadata.alignment
        metadata = replace(metadata, scores=scores, alignment=alignment)
        for sentence in tuning_verdict(metadata):
            run.workers.note(sentence)
        made = (outcome, run.machine, run.licence)
        card = translator_card(config, metadata, train, valid, segmentation.report, *made, samples, mixed)
        seen = train if start is None else None  # of another model's words nothing is known
        notices = notice_record(checkpoint, network, valid or test, seen, config.most_known_words)
        stand_ins = copied_stand_ins(checkpoint, network)
        publish(run.out, metadata, checkpoint.tokenizers, network, card, notices, stand_ins)
        run.report_end(outcome, scores)
        return scores


def report_corpus(segmentation: Segmentation, train: Pairs, general: CorpusReport | None, run: TrainingRun) -> None:
    """Writes the report on the corpora, and says on the console what segmenting them has added to it. general: the
    report on pairs that are mixed in."""
    known = set(train.reported().notes)
    run.workers.note("\n".join(f"note: {note}" for note in segmentation.report.notes if note not in known))
    if run.workers.writes:
        segmentation.report.write(run.out / CORPUS_REPORT, general)


def translation_task(
    checkpoint: Checkpoint,
    network: Transformer,
    epochs: Callable[[int], PairIds],
    held_out: Pairs | None,
    config: TranslatorConfig,
) -> TranslationTask:
    """epochs: returns the pairs of epoch 0, 1, ... held_out: the pairs for the validation loss."""
    valid_ids = pair_ids(checkpoint, held_out) if held_out else None
    sizes = [size for _, size in held_out.parts] if held_out else []
    return TranslationTask(network, epochs, valid_ids, config, untaught(checkpoint), sizes)


def held_out_texts(
    valid: Pairs | None, mix: tuple[Pairs, Pairs | None] | None, earlier: Pairs | None
) -> dict[str, Pairs]:
    """Name of the score -> the pairs that it is measured on at the end of a run: all of `earlier`, of others at most
    SCORED_SENTENCES."""
    sets = {
        **{named("validation", pair, 1): part for pair, part in (valid.by_part() if valid else ())},
        "held out of the general pairs (greedy)": mix[1] if mix else None,
    }
    scored = {name: first(pairs, SCORED_SENTENCES) for name, pairs in sets.items() if pairs}
    return scored if earlier is None else {**scored, named(earlier.origin, "", 1): earlier}


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
        was, now = before[name], scores[name]
        bleu = f"BLEU {was['bleu']:.2f} with the starting weights, {now['bleu']:.2f} tuned"
        run.workers.note(f"{name}: {bleu}; chrF {was['chrf']:.2f}, {now['chrf']:.2f}")
    return start.with_scores_before(checkpoint.config, before)


def scores_on_test(checkpoint: Checkpoint, network: Transformer, test: Pairs | None) -> Scores:
    """Greedy and with `TEST_BEAM`."""
    scores: Scores = {}
    for pair, part in test.by_part() if test else ():
        for width in (1, TEST_BEAM):
            name = named(part.origin, pair, width)
            scores[name] = score_translator(checkpoint, network, part, beam=width)
    return scores


def named(origin: str, pair: str, beam: int) -> str:
    """The name of a score. pair: of a multilingual translator, else ""."""
    return f"{origin} {pair}".strip() + (" (greedy)" if beam == 1 else f" (beam {beam})")


def first(pairs: Pairs, most: int) -> Pairs:
    parts = tuple((name, min(count, most)) for name, count in pairs.parts)  # of one language pair, or none
    return Pairs(pairs.sources[:most], pairs.targets[:most], parts=parts)


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
        toy = "; made-up tasks of so few words learn faster with --recipe toy"
        suits = config.recipe == "tiny" and largest < TOY_PIECES
        run.workers.note(f"The corpus has {enough}, fewer than the {wanted:,} asked for{toy if suits else ''}.")
    return tokenizers


def translator_to_train(
    config: TranslatorConfig,
    train: Pairs,
    run: TrainingRun,
    start: StartingPoint | None,
    tokenizers: Mapping[str, Tokenizer] | None,
) -> tuple[Transformer, Checkpoint]:
    """The network with its first weights, and its checkpoint without scores, which follow at the end of the run."""
    if start is None:
        tokenizers = tokenizers or fitted_tokenizers(config, train, run)
        network = build_translator(config, tokenizers, run.device)
        metadata = translator_metadata(config, network, tokenizers)
    else:
        network, tokenizers = start.network(config.network).to(run.device), start.tokenizers
        pairs = language_pairs(config, tokenizers, f"--from {start.given}")
        metadata = start.tuned_metadata(asdict(config), network, pairs)
    freeze(network, config.tuning.frozen)
    return network, Checkpoint(run.out, metadata, tokenizers)


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
    never = language_ids(tokenizers["target"])
    pairs = language_pairs(config, tokenizers, "--tokenizer")
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


def language_pairs(
    config: TranslatorConfig, tokenizers: Mapping[str, Tokenizer], option: str
) -> tuple[LanguagePair, ...]:
    """Of a multilingual translator, else (). option: that brought the tokenizers. TrainingError if they lack the token
    of a language."""
    languages = language_ids(tokenizers["source"])
    if missing := [code for code in config.multilingual.targets if language_token(code) not in languages]:
        token = language_token(missing[0])
        raise TrainingError(
            f"The tokenizer has no token {token}, which --multilingual puts before sources: leave {option} out."
        )
    return tuple(
        LanguagePair(source=source, target=target, source_prefix=(languages[language_token(target)],))
        for source, target in config.multilingual.pairs
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
                if saved.keys() == own.keys() and all(
                    torch.equal(saved[name].to(own[name].dtype), own[name]) for name in own
                ):
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


def translator_closing(
    checkpoint: Checkpoint, network: Transformer, sources: Sequence[str], *, greedy: int, beam: int
) -> Closing:
    """Estimates the time that a run takes after its last update, which a run with a time limit keeps free: measured on
    a few `sources` with the present weights. greedy, beam: sentences that are scored so at the end."""
    probed = [sources[index] for index in evenly_spaced_indices(len(sources), PROBED_SENTENCES)]

    def closing(validation_s: float) -> float:
        started = time.monotonic()
        translate(checkpoint, network, probed)
        each_s = (time.monotonic() - started) / len(probed)
        return validation_s + each_s * (greedy + BEAM_COST * beam) + PUBLISHING_S

    return closing
