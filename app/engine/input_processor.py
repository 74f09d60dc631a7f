"""From a request's texts to what a device gets, or a refusal.

Texts become token ids: nothing is cut silently, a refusal names the length and the limit. Forced prefixes and required
terms become runs of tokens that the model can write, and decoding options get every choice made. Before anything is
sent to a device, a request is refused by the name of its field for what no device could do, and an attention answer
that would be too large together with the changes with which it would fit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from msgspec import structs

from app import errors
from app.engine.admission import Demand
from app.engine.interface import AttentionQuery, GenerationRequest, TranslationRequest
from app.engine.registry.model_registry import ModelVersion
from app.errors import AnswerTooLarge, InvalidRequest, UnknownCharacters
from models.checkpoint import Checkpoint, CheckpointConfig, new_token_limit
from models.decoding.constraints import TERMS_LENGTH_PENALTY, constrained_beam_size
from models.decoding.options import MAX_REQUIRED_TERMS, DecodingOptions
from models.inspection.selection import AttentionSelection

MOST_BEAM = 64


def check_translation(job: TranslationRequest, widest: int) -> None:
    """widest: the hypotheses that a model has slots for. InvalidRequest names the field and the limit."""
    widest, beam_size, alternatives = min(widest, MOST_BEAM), job.options.decoding.beam_size, job.options.alternatives
    if beam_size is not None:
        _check_range("beam_size", beam_size, 1, widest)
    if alternatives:
        _check_range("alternatives", alternatives, 0, widest - 1)
    if len(job.required) > MAX_REQUIRED_TERMS:
        message = (
            f"This text has {len(job.required)} terms to hold; a sentence takes {MAX_REQUIRED_TERMS}: send it in parts."
        )
        raise InvalidRequest(message, field="glossary")


def _check_range(field: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:  # true of NaN too
        raise InvalidRequest(f"{field} is {value:g}; this service takes {least:g} to {most:g}.", field=field)


class AttentionSize(NamedTuple):
    """Numbers of the maps, in the encoding that was asked for, and of the rollout, which is always digits."""

    weights: int
    rollout: int

    def fits(self, job: AttentionQuery) -> bool:
        return sum(self) <= job.max_values and self.rollout <= job.max_digits


def check_attention_size(
    config: CheckpointConfig, job: AttentionQuery, source_tokens: int, input_tokens: int, likely: int = 0
) -> None:
    """AnswerTooLarge if the answer would hold more numbers than the job allows; InvalidRequest for layers or heads that
    the network does not have. input_tokens: what the decoder reads; at least so many, while the target is still to be
    found, and then likely so many: what is suggested fits these too, if anything does. A network that does not say how
    many layers and heads it has is left to the device."""
    size = attention_size(config, job, source_tokens, input_tokens)
    if size.fits(job):
        return
    suggest = fitting_changes(config, job, source_tokens, (max(likely, input_tokens), input_tokens))
    rollout = "rollout" in job.selection.include
    if sum(size) <= job.max_values:
        values, limit, what = size.rollout, job.max_digits, "numbers in its rollout, always digits,"
        field, ways = "include", "leave it out"
    else:
        values, limit, what, field = sum(size), job.max_values, "weights", "kinds"
        ways = "select fewer kinds, layers or heads, reduce them to their mean," + " leave out the rollout," * rollout
        if suggest is not None and "encoding" in suggest:
            ways = f'take them as bytes ("encoding": "{suggest["encoding"]}"), {ways}'
    raise AnswerTooLarge(
        f"This answer would hold {values:,} {what} and the limit is {limit:,}; {ways} or send a shorter text.",
        values=values,
        limit=limit,
        suggest=suggest,
        field=field,
    )


def fitting_changes(
    config: CheckpointConfig, job: AttentionQuery, source_tokens: int, targets: Sequence[int]
) -> dict[str, Any] | None:
    """What to change in the request so that it fits the first of these lengths of the target that anything fits."""
    changes = list(smaller_requests(job))
    for length in targets:
        for change, then in changes:
            if attention_size(config, then, source_tokens, length).fits(then):
                return change
    return None


def attention_size(
    config: CheckpointConfig, job: AttentionQuery, source_tokens: int, input_tokens: int
) -> AttentionSize:
    selection = job.selection
    lengths = {
        "encoder": ("encoder_layers", source_tokens * source_tokens),
        "decoder": ("decoder_layers", input_tokens * input_tokens),
        "cross": ("decoder_layers", input_tokens * source_tokens),
    }
    heads = selected_count(selection.heads, config.architecture.get("heads"), "head")
    heads = 1 if selection.reduce_heads != "none" else heads
    weights = 0
    for layers, size in (lengths[kind] for kind in dict.fromkeys(selection.kinds)):
        count = selected_count(selection.layers, config.architecture.get(layers), "layer")
        weights += (1 if selection.reduce_layers != "none" else count) * heads * size
    rollout = source_tokens * (source_tokens + input_tokens) if "rollout" in selection.include else 0
    return AttentionSize(weights, rollout)


def smaller_requests(job: AttentionQuery) -> Iterator[tuple[dict[str, Any], AttentionQuery]]:
    """Fields to change in the request, those that lose least first, and the query that it then is."""
    as_bytes: tuple[dict[str, Any], AttentionQuery] = {"encoding": "u16"}, replace(job, max_values=job.max_bytes)
    packs = job.max_bytes > job.max_values
    if packs:
        yield as_bytes
    for change, start in [({}, job), as_bytes][: 1 + packs]:
        for then in reductions(start.selection, one_map=job.one_map):
            yield change | changed_fields(job.selection, then), replace(start, selection=then)


def reductions(selection: AttentionSelection, *, one_map: bool) -> Iterator[AttentionSelection]:
    without = structs.replace(selection, include=tuple(name for name in selection.include if name != "rollout"))
    heads = {"reduce_heads": "mean" if selection.reduce_heads == "none" else selection.reduce_heads}
    layers = {"reduce_layers": "mean"}
    if one_map:
        changes: dict[str, str] = {}
        for change, given in ((heads, selection.heads), (layers, selection.layers)):
            changes |= change if len(set(given or (0, 1))) > 1 else {}
        yield structs.replace(without, kinds=("cross",), **changes)
        return
    kinds = sorted(selection.kinds, key=lambda kind: kind != "cross")
    for start in (selection, without, *(structs.replace(without, kinds=(kind,)) for kind in kinds)):
        yield from (start, structs.replace(start, **heads), structs.replace(start, **heads, **layers))


def changed_fields(selection: AttentionSelection, then: AttentionSelection) -> dict[str, Any]:
    """In the fields of a request."""
    found: dict[str, Any] = {}
    if (then.reduce_heads, then.reduce_layers) != (selection.reduce_heads, selection.reduce_layers):
        found["reduce"] = {"heads": then.reduce_heads, "layers": then.reduce_layers}
    if then.include != selection.include:
        found["include"] = list(then.include)
    if then.kinds != selection.kinds:
        found["kinds"] = list(then.kinds)
    return found


def selected_count(numbers: Sequence[int] | None, count: Any, noun: str) -> int:
    """How many of `count` layers or heads are meant; 0 where that cannot be said. InvalidRequest, in the device's
    words, for a number that there is not: before a translation is made for it."""
    if not isinstance(count, int):
        return 0
    if numbers is None:
        return count
    for number in numbers:
        if not -count <= number < count:
            message = f"There is no {noun} {number}: this model has {count} ({noun}s 0 to {count - 1})."
            raise InvalidRequest(message, field=f"{noun}s")
    return len({number % count for number in numbers})


T = TypeVar("T")
LONG_CHARACTERS = 2000  # about a millisecond of tokenizing, ten times what a thread costs


async def run_tokenizer(characters: int, tokenize: Callable[[], T]) -> T:
    """What `tokenize` gives; of long texts in a thread, since 100,000 characters would hold up everyone for 180 ms."""
    return tokenize() if characters <= LONG_CHARACTERS else await asyncio.to_thread(tokenize)


def source_token_ids(checkpoint: Checkpoint, text: str, field_name: str) -> tuple[int, ...]:
    """What the encoder reads; () for a text without tokens."""
    source = checkpoint.source_ids(text)
    most = checkpoint.config.max_source_tokens
    if len(source) > most:
        raise errors.TextTooLong(
            f"This text has {len(source):,} tokens; the model takes {most:,}. Send it in parts.", field=field_name
        )
    config = checkpoint.config
    return source if len(source) > len(config.source_prefix) + len(config.source_suffix) else ()


def check_given_source(checkpoint: Checkpoint, ids: Sequence[int]) -> None:
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


def target_token_ids(checkpoint: Checkpoint, text: str, field_name: str = "target") -> list[int]:
    """A target that was given, or its beginning, without its start token. A text without tokens is refused, for nothing
    would be forced; and so is one of unknown tokens alone, which say nothing of that text."""
    writer = checkpoint.tokenizers["target"]
    target = writer.encode(text)
    refuse_long_target(checkpoint, target, field_name)
    if not target:
        raise errors.InvalidRequest(f"The {field_name} has no tokens that the model writes.", field=field_name)
    if writer.special.unknown in target:
        said = {text[each.start : each.end].strip(): each.id for each in writer.pieces(text)}
        said.pop("", None)
        if set(said.values()) <= {writer.special.unknown}:
            raise errors.UnknownCharacters(
                f"{checkpoint.name} has no token for {quoted_parts(list(said))}: send a {field_name} in the language"
                " that it writes.",
                field=field_name,
            )
    return target


def refuse_long_target(checkpoint: Checkpoint, target: Sequence[int], field_name: str) -> None:
    """TextTooLong for a target of more tokens than the model takes."""
    most = checkpoint.config.max_new_tokens
    if len(target) > most:
        raise errors.TextTooLong(
            f"This {field_name} has {len(target):,} tokens; the model takes {most:,}. Send a shorter one.",
            field=field_name,
        )


def refuse_unknown_characters(checkpoint: Checkpoint, text: str, field_name: str) -> None:
    """UnknownCharacters for a text of a lyricist that holds what its vocabulary does not."""
    unknown = checkpoint.tokenizers["target"].unknown(text)
    if unknown:
        raise errors.UnknownCharacters(
            f"{checkpoint.name} has never seen {quoted_parts(unknown)}: leave {'it' if len(unknown) == 1 else 'them'}"
            " out.",
            field=field_name,
        )


def quoted_parts(parts: Sequence[str]) -> str:
    """The first of them, fit for a sentence."""
    return " ".join(part if part.isprintable() and part.strip() else repr(part) for part in parts[:5])


def lyrics_token_ids(checkpoint: Checkpoint, text: str) -> tuple[int, ...]:
    """A whole text for a lyricist to read, its start token first where it has one."""
    tokens, most = checkpoint.target_ids(text), checkpoint.config.max_new_tokens
    if len(tokens) > most:
        raise errors.TextTooLong(
            f"This text has {len(tokens):,} tokens; the model takes {most:,}. Send it in parts.", field="text"
        )
    return tokens


def given_prompt_ids(checkpoint: Checkpoint, ids: Sequence[int]) -> tuple[int, ...]:
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


def prompt_token_ids(checkpoint: Checkpoint, job: GenerationRequest) -> tuple[int, ...]:
    """What a lyricist continues."""
    most = checkpoint.config.max_new_tokens
    wanted = job.decoding.max_new_tokens
    if wanted is not None and wanted > most:
        raise errors.InvalidRequest(
            f"{checkpoint.name} writes at most {most:,} tokens at once, not {wanted:,}.",
            field="max_new_tokens",
        )
    if job.prompt_ids is None:
        refuse_unknown_characters(checkpoint, job.prompt, "prompt")
        prompt = checkpoint.target_ids(job.prompt)
    else:
        prompt = given_prompt_ids(checkpoint, job.prompt_ids)
    if not prompt:
        raise errors.InvalidRequest("The prompt is empty: give at least one character to continue.", field="prompt")
    if len(prompt) > most:
        raise errors.TextTooLong(
            f"This prompt has {len(prompt):,} tokens; the model takes {most:,}. Send its last part.",
            field="prompt",
        )
    return prompt


UNKNOWN_CHARACTER = "\ue000"  # a character that no vocabulary has, and which therefore is a token by itself
MIN_BEAM_WITH_TERMS = 4  # hypotheses that hold terms are searched beside what the model would write
TERM_CONTEXTS = (
    "",
    "a ",
    "(",
    UNKNOWN_CHARACTER,
)  # a text's beginning, the middle of a sentence, and no space before the term
TokenRun = tuple[int, ...]


def prefix_token_ids(checkpoint: Checkpoint, prefix: str) -> TokenRun:
    """The beginning of a translation; () of white space alone. UnknownCharacters for what could not be shown."""
    if not prefix.strip():
        return ()
    ids, never = target_token_ids(checkpoint, prefix, "prefix"), unwritable_tokens(checkpoint)
    if unknown := _parts_of_tokens(checkpoint, prefix, never):
        raise UnknownCharacters(
            f"{checkpoint.name} has no token for {quoted_parts(unknown)}: begin the translation without it.",
            field="prefix",
        )
    return tuple(ids)


def unwritable_tokens(checkpoint: Checkpoint) -> frozenset[int]:
    """Tokens that decoding never chooses as a part of a text."""
    config, special = checkpoint.config, checkpoint.tokenizers["target"].special
    others = (each for each in (config.eos, special.unknown) if each is not None)
    return frozenset((*config.suppressed, *others))


def required_token_runs(checkpoint: Checkpoint, terms: Sequence[Sequence[str]]) -> tuple[tuple[TokenRun, ...], ...]:
    """Of each term all runs of each of its forms. InvalidRequest names a term of which no form can be written."""
    return tuple(_writable_runs(checkpoint, term) for term in terms)


def _writable_runs(checkpoint: Checkpoint, forms: Sequence[str]) -> tuple[TokenRun, ...]:
    never = unwritable_tokens(checkpoint)
    found = dict.fromkeys(run for form in forms for run in _standalone_runs(checkpoint, form.strip()))
    if writable := tuple(run for run in found if never.isdisjoint(run)):
        return writable
    shown = " or ".join(map(repr, forms[:3])) or "''"
    if not found:
        message = f"The term {shown} has no tokens that {checkpoint.name} writes: leave it out."
        raise InvalidRequest(message, field="glossary")
    unknown = list(dict.fromkeys(part for form in forms for part in _parts_of_tokens(checkpoint, form, never)))
    message = (
        f"{checkpoint.name} cannot write the term {shown}: it has no token for {quoted_parts(unknown)}; leave it out."
    )
    raise UnknownCharacters(message, field="glossary")


def _parts_of_tokens(checkpoint: Checkpoint, text: str, never: frozenset[int]) -> list[str]:
    """Of a text, each part whose token is among these, once."""
    pieces = checkpoint.tokenizers["target"].pieces(text)
    return list(dict.fromkeys(text[piece.start : piece.end] for piece in pieces if piece.id in never))


def _standalone_runs(checkpoint: Checkpoint, form: str) -> Iterator[TokenRun]:
    """The tokens that stand for the form alone, wherever it may stand."""
    writer = checkpoint.tokenizers["target"]
    for before in TERM_CONTEXTS if form else ():
        if UNKNOWN_CHARACTER in before and writer.special.unknown is None:
            continue
        pieces = writer.pieces(before + form)
        first = next((i for i, piece in enumerate(pieces) if piece.end > len(before)), len(pieces))
        if first < len(pieces) and pieces[first].start >= len(before):
            yield tuple(piece.id for piece in pieces[first:])


class TranslationPlan(NamedTuple):
    """A request as tokens. source: () for nothing that the model reads. decoding: with every choice made."""

    request: TranslationRequest
    checkpoint: ModelVersion
    source: TokenRun
    prefix: TokenRun
    decoding: DecodingOptions
    demand: Demand


def plan_translation(
    request: TranslationRequest, checkpoint: ModelVersion, defaults: DecodingOptions, *, slots: int, streamed: bool
) -> TranslationPlan:
    """defaults: the server's beam_size and length_penalty. InvalidRequest names the field that cannot be read."""
    options = request.options
    source = source_token_ids(checkpoint, request.text, "q")
    prefix = prefix_token_ids(checkpoint, options.prefix) if options.prefix else ()
    required = required_token_runs(checkpoint, request.required) if request.required else ()
    # more hypotheses than alternatives, since two may read the same
    beam_size = max(options.decoding.beam_size or defaults.beam, options.alternatives + 1)
    if required:
        wide = max(constrained_beam_size(required, beam_size), MIN_BEAM_WITH_TERMS)
        beam_size = max(beam_size, min(wide, slots, MOST_BEAM))
    decoding = resolve_search(
        options.decoding,
        defaults,
        checkpoint,
        len(source),
        beam_size=beam_size,
        required=required,
        scores="scores" in options.wants,
        streamed=streamed,
    )
    # a translation is about as long as its source
    demand = Demand(checkpoint.name, 1, len(source), len(source), beam_size if source else 0)
    return TranslationPlan(request, checkpoint, source, prefix, decoding, demand)


def resolve_search(
    wanted: DecodingOptions,
    defaults: DecodingOptions,
    checkpoint: ModelVersion,
    source_tokens: int,
    *,
    beam_size: int | None = None,
    required: tuple[tuple[TokenRun, ...], ...] = (),
    scores: bool = False,
    streamed: bool = False,
) -> DecodingOptions:
    """Options of a beam search that returns all its hypotheses. What `wanted` leaves open is the server's choice
    (defaults), and the limit of new tokens the model's, with room for the terms that are required."""
    beam_size = beam_size or wanted.beam_size or defaults.beam
    length_penalty = wanted.length_penalty
    if length_penalty is None:
        length_penalty = TERMS_LENGTH_PENALTY if required else defaults.length_penalty
    most = checkpoint.config.max_new_tokens
    limit = wanted.max_new_tokens
    if limit is None:
        limit = new_token_limit(source_tokens, most)
        if required:
            limit += sum(max(map(len, term)) for term in required)
    return replace(
        wanted,
        beam_size=beam_size,
        n_best=beam_size,
        length_penalty=length_penalty,
        max_new_tokens=min(limit, most),
        required=required,
        scores=scores,
        streamed=streamed,
    )
