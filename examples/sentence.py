"""What each script begins with: a checkpoint's folder, a sentence, and one forced pass over it."""

from __future__ import annotations

import argparse
import importlib
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import NoReturn

from torch import Tensor

from models import checkpoint as checkpoints
from models.checkpoint import Checkpoint, CheckpointError, new_token_limit
from models.decoding.decoder import decode
from models.decoding.options import DecodingOptions, TokenRules
from models.inspection.forced_pass import forced_pass, forced_steps
from models.interface import Prompt
from models.networks.loading import load_network
from models.networks.transformer import Transformer


@dataclass(frozen=True, slots=True)
class Sentence:
    """maps: kind -> one [H, Q, K] a layer. Pieces: what the encoder reads, what the decoder reads, and what it chooses
    behind each of these. log_probability: nats, of all that it chooses. ended: by the end token."""

    maps: dict[str, list[Tensor]]
    source: list[str]
    inputs: list[str]
    outputs: list[str]
    log_probability: float
    source_ended: bool
    ended: bool


def arguments(told: str, suffix: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=told, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path, help="the folder of a translator")
    parser.add_argument("text", help="the sentence that it reads")
    parser.add_argument("--target", help="the sentence that it is made to write (default: its own translation, greedy)")
    parser.add_argument("--languages", metavar="de-en", default="", help="of a translator of several languages")
    parser.add_argument("--out", type=Path, default=Path(f"attention{suffix}"))
    return parser


def refuse(sentence: str) -> NoReturn:
    """What the user can mend: one sentence, exit code 2."""
    print(sentence, file=sys.stderr)
    raise SystemExit(2)


def tool(module: str, package: str) -> ModuleType:
    """A tool that is no dependency of this project."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        refuse(f"{package} cannot be imported ({error}); `pip install {package}` brings it.")


def look(folder: Path, text: str, target: str | None = None, languages: str = "") -> Sentence:
    """The forced pass over the target that is given, or over the network's own translation. languages: "de-en", of a
    translator of several."""
    checkpoint, network = _translator(folder, languages)
    config = checkpoint.config
    source = checkpoint.source_ids(text)
    rules = TokenRules(config.eos, tuple(config.suppressed), config.renormalise, config.forced_end)
    if target is None:
        options = DecodingOptions(max_new_tokens=new_token_limit(len(source), config.max_new_tokens))
        ((found,),) = decode(network, rules, [Prompt(source, tuple(config.target_prefix))], options, slots=1)
        written, finished = (*config.target_prefix, *found.tokens), found.finished
    else:
        written, finished = checkpoint.target_ids(target), True
    ended = finished and config.eos is not None
    ids = (*written, config.eos) if ended and config.eos is not None else written
    if len(ids) < 2:
        refuse("There is nothing to show: the translation is empty.")
    seen = forced_pass(network, source, ids[:-1])
    reader, writer = checkpoint.tokenizers["source"], checkpoint.tokenizers["target"]
    pieces = [writer.piece(each) for each in ids]
    return Sentence(
        seen.maps,
        [reader.piece(each) for each in source],
        pieces[:-1],
        pieces[1:],
        sum(step.logprob for step in forced_steps(seen.logits, ids[1:], rules)),
        source_ended=bool(config.source_suffix),
        ended=ended,
    )


def _translator(folder: Path, languages: str) -> tuple[Checkpoint, Transformer]:
    source, _, target = languages.partition("-")
    try:
        checkpoint = checkpoints.read(folder)
        network = load_network(checkpoint)
        if checkpoint.config.kind == "translator":
            checkpoint = checkpoint.for_pair(source or None, target or None)
    except CheckpointError as error:
        refuse(str(error))
    if not isinstance(network, Transformer):
        refuse(f"{folder} is no Transformer and has no attention to show: give a translator.")
    return checkpoint, network


def harmless(tokens: list[str]) -> list[str]:
    """For pages that hold tokens inside a script as they are: there "</script>" would end it."""
    return [token.replace("<", "‹").replace(">", "›") for token in tokens]
