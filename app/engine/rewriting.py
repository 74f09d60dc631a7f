"""What a translator writes without some of its heads. It is looked for one step at a time: hundreds of steps in one go
would hold up everyone else on the device, and might pass for a device that hangs."""

from __future__ import annotations

import torch
from msgspec.structs import replace

from app.engine.messages import Attend, Attention
from models.checkpoint import CheckpointConfig
from models.decoding import Decoder, DecodingOptions, TokenRules
from models.inspection.ablation import without_heads
from models.inspection.selection import Head
from models.interface import Prompt
from models.transformer import Transformer


class Rewriting:
    """A look at attention that lacks only this. SelectionError for a head that is not there."""

    def __init__(
        self, network: Transformer, config: CheckpointConfig, rules: TokenRules, asked: Attend, seen: Attention
    ) -> None:
        self.asked, self._seen, question = asked, seen, asked.question
        options = DecodingOptions(
            max_new_tokens=question.max_new_tokens, beam=question.beam, length_penalty=question.length_penalty
        )
        prompt = Prompt(tuple(asked.source), (*config.target_prefix, *question.prefix))
        changed = without_heads(network, [Head(each.kind, each.layer, each.head) for each in question.masked])
        self._decoder = Decoder(
            changed.decodable("fp32"),
            rules,
            slots=options.beam,
            source_length=len(prompt.source),
            target_length=len(prompt.prefix) - 1 + options.max_new_tokens,
        )
        with torch.inference_mode():
            self._decoder.join([(asked.id, prompt, options)])

    def step(self) -> Attention | None:
        """The whole answer, once the search is at its end."""
        finished = self._decoder.step().finished
        if not finished:
            return None
        ((_, (best, *_)),) = finished
        ablation = self._seen.findings.ablation
        assert ablation is not None, "a look without heads tells what they are worth"
        told = replace(ablation, tokens=[*self.asked.question.prefix, *best.tokens])
        return replace(self._seen, findings=replace(self._seen.findings, ablation=told))
