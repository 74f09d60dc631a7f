"""The demo models: two phrasebook translators and a lyricist of this project's songs, trained in a few minutes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import torch

from models import checkpoint as checkpoints
from models.checkpoint import DemoCard
from models.inspection.word_alignment import GoldLinks
from training import snapshot
from training.config import recipes
from training.config.run_config import (
    NO_CLEANING,
    LoopConfig,
    LyricsConfig,
    OptimizerConfig,
    TokenizerConfig,
    TranslatorConfig,
)
from training.data.sentence_pairs import Pairs
from training.demo import conversation, phrasebook
from training.demo.first_sentences import first_sentences, without_punctuation
from training.demo.lexicon import demo_text
from training.distributed.watchdog import STOPPING, Terminated
from training.errors import TrainingError
from training.evaluation.alignment_heads import AlignedSentence
from training.evaluation.scores import Scores
from training.lyricist_run import train_lyricist
from training.training_run import TrainingRun
from training.translator_run import train_translator

CONVERSATION_PAIRS = 34_000
FIXED_PHRASES = 100  # formulas, and examples of the documentation
LEAST_OCCURRENCES = 5  # of a word that a demo model is said to know
LICENCE = "apache-2.0"  # of the phrasebook, the conversation and the lyrics, which were written for this project
LYRICS_WAY_OUT = "For lyrics like yours: parlance train lyrics --corpus FILE --out checkpoints/NAME"
_WORD = re.compile(r"[^\W\d_]+(?:['’\-][^\W\d_]+)*")
_LANGUAGE_NAMES = {"de": "German", "en": "English"}
_EXAMPLES = {
    "de": (
        "Guten Morgen, ich wohne in Berlin und arbeite als Lehrer.",
        "Ich heiße Anna und habe zwei Katzen.",
        "Entschuldigung, wo ist der Bahnhof?",
    ),
    "en": (
        "Good morning, I live in London and work as a teacher.",
        "My name is Anna and I have two cats.",
        "Excuse me, where is the station?",
    ),
}


def demo_translator(source: str, target: str) -> TranslatorConfig:
    """Trains in two to three minutes on one core. A vocabulary for both languages, so that unknown words are copied
    piece by piece."""
    layers, dropout = {"encoder_layers": 2, "decoder_layers": 2}, {"embedding_dropout": 0.0, "residual_dropout": 0.0}
    return TranslatorConfig(
        recipe="demo",
        source_language=source,
        target_language=target,
        tokenizer=TokenizerConfig(vocab_size=1200, joint=True),
        network={**recipes.TRANSLATORS["tiny"].config.network, **layers, **dropout},
        label_smoothing=0.0,
        tokens_per_batch=1500,
        max_tokens=128,
        optimizer=OptimizerConfig(learning_rate=4e-3, schedule="cosine", warmup_updates=100, final_fraction=0.02),
        loop=LoopConfig(max_epochs=5, ema_decay=0.99),
        cleaning=NO_CLEANING,  # the phrasebook is generated, so it needs no cleaning
    )


def demo_lyricist() -> LyricsConfig:
    small = recipes.LYRICISTS["small"].config
    return replace(small, recipe="demo", network={**small.network, "cell": "gru"})


def lyrics() -> str:
    return demo_text("lyrics_zh.txt")


def phrase_pairs(source: str, target: str, *, held_out: bool) -> Pairs:
    pairs = phrasebook.written_pairs(source, target, held_out=held_out)
    part = "the held-out tenth of the phrasebook" if held_out else "conversation and phrasebook"
    if not held_out:
        fixed, drawn = pairs[:FIXED_PHRASES], pairs[FIXED_PHRASES:]
        pairs = fixed + [pair for number, pair in enumerate(drawn) if number % 10]  # leaves time for the conversation
        pairs += conversation.pairs(source, target, CONVERSATION_PAIRS)
        kept_out = {without_punctuation(sentence) for sentence, _ in first_sentences(source, target)}
        pairs = [pair for pair in pairs if without_punctuation(pair[0]) not in kept_out]
    return Pairs([s for s, _ in pairs], [t for _, t in pairs], part)


def aligned_phrases(source: str, target: str) -> list[AlignedSentence]:
    """The held-out phrases, with their alignment from the grammar."""
    return [
        AlignedSentence(phrase.words(source), phrase.words(target), GoldLinks(links, links))
        for phrase in phrasebook.phrases()
        if phrase.held_out and (links := phrase.alignment(source, target))
    ]


def demo_card(name: str, texts: Sequence[str]) -> DemoCard:
    """What a demo model says about itself. texts: the sources that it is trained on."""
    if name == "lyrics-zh":
        songs = lyrics().count("\n\n") + 1
        characters = frozenset(lyrics()) - set(" \n")
        summary = f"It has read {songs} Chinese songs of this project, with {len(characters):,} different characters."
        return DemoCard(summary, songs, ("分开", "早班车"), LYRICS_WAY_OUT, characters)
    _, source, target = name.split("-")
    counts = Counter(word for text in texts for word in _WORD.findall(text.casefold()))
    # random words, which stand for unknown ones, do not recur
    known = frozenset(word for word, count in counts.items() if count >= LEAST_OCCURRENCES)
    patterns = phrasebook.pattern_count() + conversation.pattern_count()
    summary = (
        f"It has learnt {len(known):,} {_LANGUAGE_NAMES[source]} words in {patterns:,} sentence patterns; it"
        " copies other words, and translates other sentences badly."
    )
    return DemoCard(summary, patterns, _EXAMPLES[source], f"For real use: make serve MODEL={source}-{target}", known)


MODELS = ("demo-de-en", "demo-en-es", "lyrics-zh")


def _train(name: str, out: Path, device: torch.device, *, announces_stop: bool = True) -> Scores:
    resume = snapshot.exists(out)
    run = TrainingRun(out=out, device=device, resume=resume, licence=LICENCE, announces_stop=announces_stop)
    if name == "lyrics-zh":
        return train_lyricist(demo_lyricist(), lyrics(), run, origin="our own lyrics", demo=demo_card(name, ()))
    _, source, target = name.split("-")
    pairs = phrase_pairs(source, target, held_out=False)
    return train_translator(
        demo_translator(source, target),
        pairs,
        None,
        run,
        test=phrase_pairs(source, target, held_out=True),
        test_beam=1,  # nearly every greedy translation is already right
        aligned=aligned_phrases(source, target),
        demo=demo_card(name, pairs.sources),
        least_occurrences=LEAST_OCCURRENCES,
    )


def train_demo(
    out: Path, device: torch.device, only: str | None = None, *, is_child: bool = False
) -> dict[str, Scores]:
    """Trains the models that `out` lacks, or just `only`; returns held-out scores by model. Resumes a killed run.
    is_child: in a process that this function has started for one of several models."""
    missing = [name for name in MODELS if not checkpoints.is_checkpoint(out / name)]
    if only is not None:
        return {only: _train(only, out / only, device, announces_stop=not is_child)} if only in missing else {}
    # also three on two cores: together they end earlier than one after two others
    side_by_side = len(missing) if device.type == "cpu" and (os.cpu_count() or 1) > 1 else 1
    if side_by_side > 1:
        _train_side_by_side(out, missing, side_by_side)
        return {name: dict(checkpoints.read(out / name).config.scores) for name in missing}
    return {name: _train(name, out / name, device) for name in missing}


def _train_side_by_side(out: Path, names: list[str], count: int) -> None:
    """Runs one process per model: networks this small gain little from a second core, and much from their own core."""
    threads = max(1, (os.cpu_count() or 1) // count)
    arguments = ["--out", str(out), "--device", "cpu", "--threads", str(threads), "--child", "--only"]

    def train(place: int) -> int:
        command = [sys.executable, "-m", "training", "demo", *arguments, names[place]]
        # tqdm reads the position of its bar from the environment
        environment = {**os.environ, "TQDM_POSITION": str(place), "OMP_NUM_THREADS": str(threads)}
        return subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False).returncode

    with ThreadPoolExecutor(count) as pool:
        try:
            codes = list(pool.map(train, range(len(names))))
        except (KeyboardInterrupt, Terminated):  # the processes have the signal too, and end before the pool does
            sys.stderr.write(STOPPING)
            raise
    if failed := [name for name, code in zip(names, codes, strict=True) if code != 0]:
        raise TrainingError(f"{' and '.join(failed)} could not be trained; what went wrong stands above.")
