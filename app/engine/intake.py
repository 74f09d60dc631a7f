"""Texts to token ids, or a refusal that names the length and the limit: nothing is cut in silence."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from app.engine import errors
from app.engine.jobs import GenerationJob
from models.checkpoint import Checkpoint

T = TypeVar("T")
LONG_CHARACTERS = 2000  # about a millisecond of tokenizing, ten times what a thread costs


async def aside(characters: int, tokenize: Callable[[], T]) -> T:
    """What `tokenize` gives; of long texts in a thread, since 100,000 characters would hold up everyone for 180 ms."""
    return tokenize() if characters <= LONG_CHARACTERS else await asyncio.to_thread(tokenize)


def source_ids(checkpoint: Checkpoint, text: str, field_name: str) -> tuple[int, ...]:
    """What the encoder reads; () for a text without tokens."""
    source = checkpoint.source_ids(text)
    most = checkpoint.config.max_source_tokens
    if len(source) > most:
        raise errors.TextTooLong(
            f"This text has {len(source):,} tokens; the model takes {most:,}. Send it in parts.", field=field_name
        )
    config = checkpoint.config
    return source if len(source) > len(config.source_prefix) + len(config.source_suffix) else ()


def room(checkpoint: Checkpoint) -> int:
    """How many tokens of a text the model takes, besides those that the checkpoint puts around every source."""
    config = checkpoint.config
    return config.max_source_tokens - len(config.source_prefix) - len(config.source_suffix)


def counts(checkpoint: Checkpoint, texts: Sequence[str]) -> list[int]:
    """How many tokens each of these texts has, whatever the limit is."""
    tokenizer = checkpoint.tokenizers["source"]
    return [len(tokenizer.encode(text)) for text in texts]


def check_source_ids(checkpoint: Checkpoint, ids: Sequence[int]) -> None:
    """A source that was given as ids, without what the checkpoint puts around them."""
    tokenizer, most = checkpoint.tokenizers["source"], checkpoint.config.max_source_tokens
    if unknown := [each for each in ids if each >= tokenizer.size]:
        raise errors.InvalidRequest(
            f"There is no token {unknown[0]:,}: this model's source vocabulary has {tokenizer.size:,} (0 to"
            f" {tokenizer.size - 1:,}).",
            field="source_ids",
        )
    if (padding := checkpoint.config.architecture.get("pad")) in ids:
        raise errors.InvalidRequest(
            f"Token {padding:,} is padding, which stands for nothing and is never read: leave it out.",
            field="source_ids",
        )
    around = len(checkpoint.source_prefix(ids)) + len(checkpoint.config.source_suffix)
    if len(ids) + around > most:
        raise errors.TextTooLong(
            f"This source has {len(ids) + around:,} tokens; the model takes {most:,}. Send it in parts.",
            field="source_ids",
        )


def target_ids(checkpoint: Checkpoint, text: str, field_name: str = "target") -> list[int]:
    """A target that was given, or its beginning, without its start token. A text without tokens is refused, for nothing
    would be forced; and so is one of unknown tokens alone, which say nothing of that text."""
    writer = checkpoint.tokenizers["target"]
    target = writer.encode(text)
    refuse_long(checkpoint, target, field_name)
    if not target:
        raise errors.InvalidRequest(f"The {field_name} has no tokens that the model writes.", field=field_name)
    if writer.special.unknown in target:
        said = {text[each.start : each.end].strip(): each.id for each in writer.pieces(text)}
        said.pop("", None)
        if set(said.values()) <= {writer.special.unknown}:
            raise errors.UnknownCharacters(
                f"{checkpoint.name} has no token for {listed(list(said))}: send a {field_name} in the language that it"
                " writes.",
                field=field_name,
            )
    return target


def refuse_long(checkpoint: Checkpoint, target: Sequence[int], field_name: str) -> None:
    """TextTooLong for a target of more tokens than the model takes."""
    most = checkpoint.config.max_new_tokens
    if len(target) > most:
        raise errors.TextTooLong(
            f"This {field_name} has {len(target):,} tokens; the model takes {most:,}. Send a shorter one.",
            field=field_name,
        )


def refuse_unknown(checkpoint: Checkpoint, text: str, field_name: str) -> None:
    """UnknownCharacters for a text of a lyricist that holds what its vocabulary does not."""
    unknown = checkpoint.tokenizers["target"].unknown(text)
    if unknown:
        raise errors.UnknownCharacters(
            f"{checkpoint.name} has never seen {listed(unknown)}: leave {'it' if len(unknown) == 1 else 'them'} out.",
            field=field_name,
        )


def listed(parts: Sequence[str]) -> str:
    """The first of them, fit for a sentence."""
    return " ".join(part if part.isprintable() and part.strip() else repr(part) for part in parts[:5])


def text_ids(checkpoint: Checkpoint, text: str) -> tuple[int, ...]:
    """A whole text for a lyricist to read, its start token first where it has one."""
    tokens, most = checkpoint.target_ids(text), checkpoint.config.max_new_tokens
    if len(tokens) > most:
        raise errors.TextTooLong(
            f"This text has {len(tokens):,} tokens; the model takes {most:,}. Send it in parts.", field="text"
        )
    return tokens


def given_ids(checkpoint: Checkpoint, ids: Sequence[int]) -> tuple[int, ...]:
    """A prompt that was given as tokens, its start token first where the model has one."""
    tokenizer = checkpoint.tokenizers["target"]
    size, special = tokenizer.size, tokenizer.special
    if unknown := [each for each in ids if not 0 <= each < size]:
        raise errors.InvalidRequest(
            f"There is no token {unknown[0]:,}: {checkpoint.name} has {size:,} of them (0 to {size - 1:,}).",
            field="prompt",
        )
    if empty := [each for each in ids if each in (special.pad, special.unknown)]:
        raise errors.InvalidRequest(
            f"Token {empty[0]:,} ({tokenizer.piece(empty[0])}) stands for no text: leave it out.", field="prompt"
        )
    start = checkpoint.config.target_prefix
    return tuple(ids) if tuple(ids[: len(start)]) == start else (*start, *ids)


def prompt_ids(checkpoint: Checkpoint, job: GenerationJob) -> tuple[int, ...]:
    """What a lyricist continues."""
    most = checkpoint.config.max_new_tokens
    if job.max_new_tokens > most:
        raise errors.InvalidRequest(
            f"{checkpoint.name} writes at most {most:,} tokens at once, not {job.max_new_tokens:,}.",
            field="max_new_tokens",
        )
    if job.prompt_ids is None:
        refuse_unknown(checkpoint, job.prompt, "prompt")
        prompt = checkpoint.target_ids(job.prompt)
    else:
        prompt = given_ids(checkpoint, job.prompt_ids)
    if not prompt:
        raise errors.InvalidRequest("The prompt is empty: give at least one character to continue.", field="prompt")
    if len(prompt) > most:
        raise errors.TextTooLong(
            f"This prompt has {len(prompt):,} tokens; the model takes {most:,}. Send its last part.",
            field="prompt",
        )
    return prompt
