"""python -m training translator | lyrics | demo | evaluate"""

from __future__ import annotations

import argparse
import errno
import io
import json
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, redirect_stderr
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from training import parallel, recipes
from training.config import LoopConfig, raise_all
from training.corpus import hold_out, read_pairs, read_text
from training.errors import TrainingError
from training.evaluate import evaluate
from training.farewell import Ended, peer_is_gone
from training.launch import launch
from training.lyricist import train_lyricist
from training.parallel import Workers
from training.translator import train_translator


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m training", description="Make models from text files.")
    commands = top.add_subparsers(dest="command", required=True)
    translator = commands.add_parser("translator", help="train a translator from pairs of sentences")
    pairs = "SOURCE,TARGET (two files, .gz too) or one file of tab-separated pairs"
    translator.add_argument("--source", required=True, help="source language code, such as de")
    translator.add_argument("--target", required=True, help="target language code, such as en")
    translator.add_argument("--train", required=True, metavar="PAIRS", help=pairs)
    translator.add_argument("--valid", metavar="PAIRS", help="held-out pairs (default: a share of --train)")
    translator.add_argument("--test", metavar="PAIRS", help="scored once, at the end, for the model card")
    translator.add_argument("--recipe", choices=sorted(recipes.TRANSLATORS), default="tiny")
    translator.add_argument("--vocabulary", type=int, help="pieces of the SentencePiece vocabulary, at most")
    _add_run(translator)
    lyrics = commands.add_parser("lyrics", help="train a lyricist from a text")
    lyrics.add_argument("--corpus", required=True, type=Path, help="a text file, .gz too")
    lyrics.add_argument("--cell", choices=["rnn", "gru", "lstm"], default="gru")
    lyrics.add_argument("--recipe", choices=sorted(recipes.LYRICISTS), default="small")
    _add_run(lyrics)
    demo = commands.add_parser("demo", help="train the demo models on the corpora that come with this project")
    demo.add_argument("--out", type=Path, default=Path("checkpoints"))
    demo.add_argument("--only", choices=["demo-de-en", "demo-en-es", "lyrics-zh"], help="just this one")
    _add_device(demo)
    scoring = commands.add_parser("evaluate", help="score a model; the last line is one JSON object")
    scoring.add_argument("folder", type=Path)
    scoring.add_argument("--test", metavar="PAIRS", help=f"for translators: {pairs}")
    scoring.add_argument("--corpus", type=Path, help="for lyricists: a text file")
    scoring.add_argument("--beam", type=int, default=1, help="beam width; 1 is greedy")
    _add_device(scoring)
    return top


def _add_run(command: argparse.ArgumentParser) -> None:
    command.add_argument("--out", required=True, type=Path, help="the checkpoint folder to write")
    command.add_argument("--max-minutes", type=float, help="stop after so long")
    command.add_argument("--max-epochs", type=int, help="stop after so many passes over the corpus")
    command.add_argument("--seed", type=int, default=1)
    command.add_argument("--resume", action="store_true", help="go on where an earlier run of --out stands")
    command.add_argument(
        "--processes",
        type=int,
        default=1,
        metavar="N",
        help="share the run among N processes of this machine: one for each GPU, or for each core of a small CPU, where"
        " they are faster than threads; every one does its part of each batch. torchrun does it for several machines:"
        " torchrun --nnodes=2 --nproc-per-node=8 --rdzv-backend=c10d --rdzv-endpoint=HOST:29400 -m training ...",
    )
    _add_device(command)


def _add_device(command: argparse.ArgumentParser) -> None:
    command.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    command.add_argument("--threads", type=int, help="CPU threads (default: all cores)")


def device_of(arguments: argparse.Namespace) -> torch.device:
    if arguments.threads is not None:
        raise_all([f"--threads must be at least 1, not {arguments.threads}" if arguments.threads < 1 else ""])
        torch.set_num_threads(arguments.threads)
    if arguments.device == "cuda" and not torch.cuda.is_available():
        raise TrainingError("There is no CUDA device here; use --device cpu or --device auto.")
    usable = torch.cuda.is_available() and arguments.device != "cpu"
    workers: Workers = arguments.workers
    return workers.device("cuda" if usable else "cpu")


def loop_of(loop: LoopConfig, arguments: argparse.Namespace) -> LoopConfig:
    if arguments.max_minutes is not None:
        # a time limit replaces the recipe's number of epochs, unless that is given as well
        loop = replace(loop, max_minutes=arguments.max_minutes, max_epochs=10_000)
    if arguments.max_epochs is not None:
        loop = replace(loop, max_epochs=arguments.max_epochs)
    loop = replace(loop, seed=arguments.seed)
    raise_all(loop.problems())
    return loop


def language_problems(arguments: argparse.Namespace) -> Iterator[str]:
    """A model whose languages nobody can ask for would be trained for nothing."""
    for name in ("source", "target"):
        code = getattr(arguments, name)
        if not re.fullmatch(r"[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*", code) or code.lower() == "auto":
            yield f"--{name} must be a language code such as de or pt-BR, not {code!r}"


def run_translator(arguments: argparse.Namespace) -> dict[str, Any]:
    raise_all(language_problems(arguments))
    config = recipes.TRANSLATORS[arguments.recipe]()
    tokenizer = config.tokenizer
    if arguments.vocabulary is not None:
        tokenizer = replace(tokenizer, size=arguments.vocabulary)
    config = replace(
        config,
        source_language=arguments.source,
        target_language=arguments.target,
        tokenizer=tokenizer,
        loop=loop_of(config.loop, arguments),
    )
    device = device_of(arguments)
    train, valid = read_pairs(arguments.train), read_pairs(arguments.valid) if arguments.valid else None
    test = read_pairs(arguments.test) if arguments.test else None
    if valid is None:
        train, valid = hold_out(train, config.loop.seed)
    return train_translator(
        config,
        train,
        valid,
        out=arguments.out,
        device=device,
        test=test,
        resume=arguments.resume,
        workers=arguments.workers,
    )


def run_lyrics(arguments: argparse.Namespace) -> dict[str, Any]:
    config = recipes.LYRICISTS[arguments.recipe]()
    network = {**config.network, "cell": arguments.cell}
    config = replace(config, network=network, loop=loop_of(config.loop, arguments))
    text = read_text(arguments.corpus)
    return train_lyricist(
        config,
        text,
        origin=str(arguments.corpus),
        out=arguments.out,
        device=device_of(arguments),
        resume=arguments.resume,
        workers=arguments.workers,
    )


def run_demo(arguments: argparse.Namespace) -> dict[str, Any]:
    from training.demo.train import train_demo  # the phrasebook takes a moment to build

    return train_demo(arguments.out, device_of(arguments), arguments.only)


def run_evaluate(arguments: argparse.Namespace) -> dict[str, Any]:
    raise_all([f"--beam must be at least 1, not {arguments.beam}" if arguments.beam < 1 else ""])
    return evaluate(
        arguments.folder,
        test=arguments.test,
        corpus=arguments.corpus,
        beam=arguments.beam,
        device=device_of(arguments),
    )


MODULE = "training"
SHARED = ("translator", "lyrics")  # what torchrun can start several processes of
COMMANDS = {"translator": run_translator, "lyrics": run_lyrics, "demo": run_demo, "evaluate": run_evaluate}


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """All processes of a group are given the same arguments: one of them says what is wrong with these."""
    with nullcontext() if parallel.environment_rank() == 0 else redirect_stderr(io.StringIO()):
        return parser().parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """0, or 2 with one sentence on standard error for what the user can mend; 130 when interrupted; 1 where another
    process of the run has died."""
    arguments = parse(argv)
    if arguments.command not in SHARED and parallel.environment_rank() != 0:
        return 0
    workers = arguments.workers = Workers()
    try:
        if arguments.command in SHARED:
            if arguments.processes != 1 and not parallel.launch_name():
                raise_all([f"--processes must be at least 1, not {arguments.processes}" * (arguments.processes < 1)])
                return launch(arguments.processes, MODULE, sys.argv[1:] if argv is None else argv)
            workers = arguments.workers = parallel.join()
            arguments.resume = workers.given(lambda: arguments.resume or parallel.restarted(arguments.out))
        result = COMMANDS[arguments.command](arguments)
    except TrainingError as error:
        workers.say(f"error: {error}")
        return 2
    except torch.OutOfMemoryError:
        workers.say("error: The GPU has too little memory for this recipe; use a smaller one or --device cpu.")
        return 2
    except OSError as error:
        full = error.errno == errno.ENOSPC or "No space left" in str(error)
        way_out = "the disk is full; free some space, then go on with --resume, or anew if nothing was saved"
        reason = way_out if full else str(error)
        workers.say(f"error: The run cannot go on: {reason}.")
        return 2
    except KeyboardInterrupt:
        workers.say("Stopped. Go on with --resume where it had saved.")
        return 130
    except (Ended, RuntimeError) as error:
        if not peer_is_gone(error):
            raise
        workers.end()
        return 1
    if workers.writes:
        print(json.dumps(result, ensure_ascii=False))
    workers.leave()
    return 0


if __name__ == "__main__":
    sys.exit(main())
