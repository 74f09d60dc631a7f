"""Target tokens a second in training, against a plain loop over torch.nn.Transformer at its best setting; the share of
padding.

python -m benchmarks.training --data FOLDER [--updates 12] [--rounds 5] [--json] [--out FILE]
python -m benchmarks.training --smoke        the same on a toy, for tests

FOLDER holds Multi30k: train.de.gz and train.en.gz. Recipe `tiny` on the CPU, the same token ids, shape, dropout and
optimizer for both. The plain loop is scanned first: fp32 and bf16, one thread and all, batches of the recipe's size and
of 4,096 tokens; its best then takes turns with ours. Padding and the end of a batch count for nobody.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.corpora import multi30k_lines
from benchmarks.peers.plain_training import PlainTraining
from benchmarks.race import ratio
from benchmarks.report import argument_parser, finish, goal
from benchmarks.training_race import Ours, Pairs, interleaved, network, scanned, stretches, waste
from training.config import recipes
from training.config.run_config import TranslatorConfig
from training.data.tokenizer_training import BOS, EOS, fit_translator_tokenizers

SPEED_GOAL, WASTE_GOAL = 2.0, 0.10
PLAIN_TOKENS = 4096


def corpus(config: TranslatorConfig, folder: Path) -> tuple[Pairs, int]:
    """Token ids of both sides as the recipe makes them, and the size of their vocabulary."""
    texts = [multi30k_lines(folder, "train", language) for language in ("de", "en")]
    tokenizers = fit_translator_tokenizers(config.tokenizer, *texts)
    source, target = tokenizers["source"], tokenizers["target"]
    sources = [[*source.encode(text), EOS] for text in texts[0]]
    targets = [[BOS, *target.encode(text), EOS] for text in texts[1]]
    return (sources, targets), max(source.size, target.size)


def raced() -> TranslatorConfig:
    """Recipe `tiny` with the plain loop's optimizer, and each pair once a pass."""
    config = recipes.TRANSLATORS["tiny"].config
    return replace(config, optimizer=replace(config.optimizer, name="adam"))


def toy() -> tuple[TranslatorConfig, Pairs, int]:
    config, draws = raced(), random.Random(1)
    small = {**config.network, "d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "heads": 2, "head_width": 8}
    lengths = [draws.randint(3, 12) for _ in range(200)]
    sources, targets = ([[draws.randrange(4, 50) for _ in range(n)] for n in lengths] for _ in range(2))
    return replace(config, network={**small, "d_ff": 32}, tokens_per_batch=200), (sources, targets), 50


def plain_settings(config: TranslatorConfig, file: str, vocabulary: int) -> dict[str, PlainTraining]:
    shape = config.network
    sizes = (shape["d_model"], shape["heads"], (shape["encoder_layers"], shape["decoder_layers"]), shape["d_ff"])
    settings = {}
    for precision in ("fp32", "bf16"):
        for threads in sorted({1, os.cpu_count() or 1}):
            for tokens in sorted({config.tokens_per_batch, PLAIN_TOKENS}):
                settings[f"plain {precision}, {threads} threads, {tokens} tokens"] = PlainTraining(
                    *(file, (vocabulary, *sizes, shape.get("residual_dropout", 0.1)), config.label_smoothing),
                    *(config.optimizer.learning_rate, precision, threads, tokens),
                )
    return settings


def race(options: argparse.Namespace) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    if options.smoke:
        config, pairs, vocabulary = toy()
    else:
        config = raced()
        pairs, vocabulary = corpus(config, options.data)
    made = network(config, vocabulary)
    lost = waste(list(stretches(config, made, pairs).epoch), made.config.pad)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "corpus.json"
        file.write_text(json.dumps(pairs), encoding="utf-8")
        plain = plain_settings(config, str(file), vocabulary)
        scan = scanned(plain, options.updates)
        threads = os.cpu_count() or 1
        ours = {f"ours, {n} threads": Ours(str(file), config, vocabulary, n) for n in sorted({1, threads})}
        alone = next((turn for turn in scan if ", 1 threads," in turn.name), scan[0])
        peers = {turn.name: plain[turn.name] for turn in (scan[0], alone)}
        turns = interleaved({**ours, **peers}, options.updates, options.rounds)
    rows: list[dict[str, Any]] = [{"padding": side, "share": share} for side, share in lost.items()]
    rows += [{"scan": turn.name, "target tokens/s": round(turn.median)} for turn in scan]
    rows += [{"setting": turn.name, "target tokens/s": round(turn.median)} for turn in turns.values()]
    best = f"ours, {threads} threads"
    single = ratio(turns["ours, 1 threads"].rates, turns[alone.name].rates, rates=True).median
    rows.append({"one thread against one thread": single})
    value = ratio(turns[best].rates, turns[scan[0].name].rates, rates=True).median
    return rows, [
        goal("target tokens/s, all cores", value, SPEED_GOAL, "× the plain loop at its best", "higher"),
        goal("padding, both sides", lost["both"], WASTE_GOAL, "of all tokens", "lower"),
    ]


def main() -> None:
    top = argument_parser("training", __doc__)
    top.add_argument("--data", type=Path)
    top.add_argument("--updates", type=int, default=12, help="of each turn")
    top.add_argument("--rounds", type=int, default=5)
    top.add_argument("--smoke", action="store_true", help="a toy, to see that it runs")
    options = top.parse_args()
    if not options.smoke and options.data is None:
        top.error("--data is needed: a folder with Multi30k")
    finish(options, *race(options))


if __name__ == "__main__":
    main()
