"""The same checkpoint as ours, run batch by batch to completion: what the peer servers hold."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch

from models import checkpoint as checkpoints
from models.backends.select import Network, decodable
from models.checkpoint import new_token_limit
from models.decoding.decoder import decode
from models.decoding.options import DecodingOptions, TokenRules
from models.interface import Decodable, Precision, Prompt
from models.networks.loading import load_network


class Prepared:
    """A network made ready for decoding once: a peer that did it for every batch would be slowed down by us."""

    def __init__(self, network: Network) -> None:
        self._decodable = decodable(network, "fp32")

    def decodable(self, precision: Precision = "fp32") -> Decodable:
        assert precision == "fp32"
        return self._decodable


class Translator:
    """A translator checkpoint in fp32; beam 1 is greedy. Its limits equal our server's."""

    def __init__(self, folder: Path, *, beam: int, threads: int) -> None:
        torch.set_num_threads(threads)
        self.checkpoint, self.beam = checkpoints.read(folder), beam
        self.network = Prepared(load_network(self.checkpoint))
        config = self.checkpoint.config
        self.rules = TokenRules(config.eos, tuple(config.suppressed))

    def translate(self, texts: Sequence[str]) -> list[str]:
        """All texts in one batch, until the longest has ended."""
        config = self.checkpoint.config
        sources = [self.checkpoint.source_ids(text) for text in texts]
        prompts = [Prompt(source, tuple(config.target_prefix)) for source in sources]
        options = [
            DecodingOptions(max_new_tokens=new_token_limit(len(s), config.max_new_tokens), beam_size=self.beam)
            for s in sources
        ]
        results = decode(self.network, self.rules, prompts, options, slots=len(texts) * self.beam)
        return [self.checkpoint.decode(hypotheses[0].tokens) for hypotheses in results]


def arguments(description: str) -> argparse.Namespace:
    """What both peer servers take."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--beam", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--batch", type=int, required=True, help="most texts in one batch")
    parser.add_argument("--window-ms", type=float, required=True, help="how long a batch waits for more texts")
    return parser.parse_args()
