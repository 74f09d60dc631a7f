"""Tokens, and what was found beside them, as people see them: where each token stands in its text, and how it reads."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from app.engine import messages as m
from app.engine.detokenizing import BROKEN, Detokenizer, anchor_of
from app.engine.findings import Findings, Step
from app.engine.insights import TokenView
from app.engine.look_jobs import AttentionMap, NetworkFacts
from models.checkpoint import WEIGHTS, Checkpoint
from models.tokenizer import Tokenizer


def text_tokens(tokenizer: Tokenizer, text: str) -> list[TokenView]:
    """The tokens of a text that was given."""
    return [
        TokenView(p.id, p.piece, text[p.start : p.end], p.start, p.end, special=False) for p in tokenizer.pieces(text)
    ]


def decoded_tokens(tokenizer: Tokenizer, ids: Sequence[int]) -> list[TokenView]:
    """The tokens of a text that a model wrote: each stands where the text grows by decoding one more."""
    detokenizer, views, end = Detokenizer(tokenizer), list[TokenView](), 0
    grown = [detokenizer.feed([token]) for token in ids]
    if grown:
        grown[-1] += detokenizer.finish()
    for token, text in zip(ids, grown, strict=True):
        start, end = end, end + len(text)
        shown = text.lstrip()
        views.append(
            TokenView(token, tokenizer.piece(token), shown, start + len(text) - len(shown), end, special=False)
        )
    return views


def special_tokens(tokenizer: Tokenizer, ids: Sequence[int]) -> list[TokenView]:
    """Start, end and padding tokens, which stand for no text."""
    return [TokenView(i, tokenizer.piece(i), "", None, None, special=True) for i in ids]


def attention_map(part: m.Slice) -> AttentionMap:
    return AttentionMap(tuple(part.layers), tuple(part.heads), tuple(part.shape), part.data)


def named(checkpoint: Checkpoint, findings: Findings) -> Findings:
    """With the texts of tokens, which devices know by number alone."""
    writer = checkpoint.tokenizers["target"]

    def read(step: Step) -> Step:
        top = [replace(each, piece=writer.piece(each.id), text=token_text(writer, each.id)) for each in step.top]
        return replace(step, top=top)

    steps = None if findings.steps is None else [read(step) for step in findings.steps]
    without = findings.ablation
    if without is not None:
        without = replace(without, text_after=checkpoint.decode(without.tokens))
    return replace(findings, steps=steps, ablation=without)


def token_text(tokenizer: Tokenizer, token: int) -> str:
    """How a token reads on its own; special ones and parts of characters as the vocabulary writes them."""
    return tokenizer.decode([token]) or tokenizer.piece(token)


def within_text(tokenizer: Tokenizer, token: int) -> str:
    """How a token reads behind others: with the space that it begins with."""
    anchor, length = anchor_of(tokenizer)
    text = tokenizer.untrimmed([anchor, token])[length:]
    return text if text and BROKEN not in text else tokenizer.piece(token)


def network_facts(checkpoint: Checkpoint) -> NetworkFacts:
    shape = checkpoint.config.architecture
    names = ("encoder_layers", "decoder_layers", "heads", "head_width", "norm")
    return NetworkFacts(checkpoint.config.files.get(WEIGHTS), *(shape[name] for name in names))
