"""Turns a request's texts into token ids and decoding options, or refuses the request. No text is truncated: a refusal
names the length and the limit. Forced prefixes and required terms become token runs that the model can write. Requests
that no device could serve are refused here, by the name of their field; an attention answer that would be too large is
refused with the changes that make it fit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

from msgspec import structs

from app.engine.admission import Demand
from app.engine.interface import AttentionQuery, GenerationRequest, TokenQuery, TokenResult, TranslationRequest
from app.engine.registry.model_registry import ModelVersion
from app.errors import AnswerTooLarge, InvalidRequest, TextTooLong, UnknownCharacters
from models.checkpoint import Checkpoint, CheckpointConfig, new_token_limit
from models.decoding.constraints import TERMS_LENGTH_PENALTY, constrained_beam_size
from models.decoding.options import MAX_REQUIRED_TERMS, WIDEST_BEAM, DecodingOptions
from models.inspection.selection import AttentionSelection, SelectionError, resolve


def check_translation(request: TranslationRequest, widest: int) -> None:
    """Raises InvalidRequest with the field and its limit. widest: the widest beam that the model has slots for."""
    options, widest, terms = request.options, min(widest, WIDEST_BEAM), len(request.required)
    for field, value, least, most in (
        ("beam_size", options.decoding.beam_size, 1, widest),
        ("alternatives", options.alternatives or None, 0, widest - 1),
    ):
        if value is not None and not least <= value <= most:
            raise InvalidRequest(f"{field} is {value:g}; this service takes {least:g} to {most:g}.", field=field)
    if terms > MAX_REQUIRED_TERMS:
        message = f"This text has {terms} terms to hold; a sentence takes {MAX_REQUIRED_TERMS}: send it in parts."
        raise InvalidRequest(message, field="glossary")


class AttentionSize(NamedTuple):
    """Number of values in the maps, in the requested encoding, and in the rollout, which is always digits."""

    weights: int
    rollout: int

    def fits(self, query: AttentionQuery) -> bool:
        return sum(self) <= query.max_values and self.rollout <= query.max_digits


def check_attention_size(
    config: CheckpointConfig, query: AttentionQuery, source_tokens: int, input_tokens: int, likely: int = 0
) -> None:
    """Raises AnswerTooLarge if the answer exceeds the query's limits, InvalidRequest for layers or heads that the
    network lacks. input_tokens: the decoder's input length, or its lower bound while the target is not known; likely:
    then the expected length, which the suggested changes also fit if possible."""
    size = attention_size(config, query, source_tokens, input_tokens)
    if size.fits(query):
        return
    suggest = next(
        (
            changed_fields(query, smaller)
            for length in (max(likely, input_tokens), input_tokens)
            for smaller in smaller_queries(query)
            if attention_size(config, smaller, source_tokens, length).fits(smaller)
        ),
        None,
    )
    rollout = "rollout" in query.selection.include
    if sum(size) <= query.max_values:
        values, limit, what = size.rollout, query.max_digits, "numbers in its rollout, always digits,"
        field, ways = "include", "leave it out"
    else:
        values, limit, what, field = sum(size), query.max_values, "weights", "kinds"
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


def attention_size(
    config: CheckpointConfig, query: AttentionQuery, source_tokens: int, input_tokens: int
) -> AttentionSize:
    selection, shape = query.selection, config.architecture
    lengths = {
        "encoder": ("encoder_layers", source_tokens * source_tokens),
        "decoder": ("decoder_layers", input_tokens * input_tokens),
        "cross": ("decoder_layers", input_tokens * source_tokens),
    }
    heads = selected_count(selection.heads, shape["heads"], "head")
    heads = 1 if selection.reduce_heads != "none" else heads
    weights = 0
    for layers, size in (lengths[kind] for kind in dict.fromkeys(selection.kinds)):
        count = selected_count(selection.layers, shape[layers], "layer")
        weights += (1 if selection.reduce_layers != "none" else count) * heads * size
    rollout = source_tokens * (source_tokens + input_tokens) if "rollout" in selection.include else 0
    return AttentionSize(weights, rollout)


def smaller_queries(query: AttentionQuery) -> Iterator[AttentionQuery]:
    """Variants of the query with a smaller answer, the least lossy first."""
    starts = [query]
    if query.max_bytes > query.max_values:
        starts.append(replace(query, max_values=query.max_bytes))
        yield starts[1]
    for start in starts:
        for selection in reductions(start.selection, one_map=query.one_map):
            yield replace(start, selection=selection)


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


def changed_fields(query: AttentionQuery, smaller: AttentionQuery) -> dict[str, Any]:
    """The differences between two queries, as fields of a request."""
    before, then = query.selection, smaller.selection
    changed: dict[str, Any] = {} if smaller.max_values == query.max_values else {"encoding": "u16"}
    if (then.reduce_heads, then.reduce_layers) != (before.reduce_heads, before.reduce_layers):
        changed["reduce"] = {"heads": then.reduce_heads, "layers": then.reduce_layers}
    for name in ("include", "kinds"):
        if (chosen := getattr(then, name)) != getattr(before, name):
            changed[name] = list(chosen)
    return changed


def selected_count(numbers: Sequence[int] | None, count: int, noun: str) -> int:
    """How many of `count` layers, heads or units are selected. InvalidRequest (the device's) if out of range."""
    try:
        return len(resolve(numbers, count, noun))
    except SelectionError as error:
        raise InvalidRequest(str(error), field=error.field) from None


T = TypeVar("T")
LONG_CHARACTERS = 2000  # about a millisecond of tokenizing, ten times the cost of a thread


async def run_tokenizer(characters: int, tokenize: Callable[[], T]) -> T:
    """Runs `tokenize`, for long texts in a thread: 100,000 characters would block the event loop for 180 ms."""
    return tokenize() if characters <= LONG_CHARACTERS else await asyncio.to_thread(tokenize)


def refuse_long(noun: str, count: int, most: int, field_name: str, way_out: str = "Send it in parts.") -> None:
    if count > most:
        raise TextTooLong(f"This {noun} has {count:,} tokens; the model takes {most:,}. {way_out}", field=field_name)


def source_token_ids(checkpoint: Checkpoint, text: str, field_name: str) -> tuple[int, ...]:
    """The encoder's input; () for a text without tokens. Raises TextTooLong."""
    source, config = checkpoint.source_ids(text), checkpoint.config
    refuse_long("text", len(source), config.max_source_tokens, field_name)
    return source if len(source) > len(config.source_prefix) + len(config.source_suffix) else ()


def required_source_ids(checkpoint: Checkpoint, text: str) -> tuple[int, ...]:
    """The encoder's input. Raises InvalidRequest for a text without tokens, TextTooLong."""
    if source := source_token_ids(checkpoint, text, "source"):
        return source
    raise InvalidRequest("The source has no tokens that the model reads.", field="source")


def check_given_source(checkpoint: Checkpoint, ids: Sequence[int]) -> None:
    """Checks source ids that a request sent, without prefix and suffix. Raises InvalidRequest, TextTooLong."""
    size, config = checkpoint.tokenizers["source"].size, checkpoint.config
    if unknown := [token for token in ids if token >= size]:
        message = f"There is no token {unknown[0]:,}: this model's source vocabulary has {size:,} (0 to {size - 1:,})."
        raise InvalidRequest(message, field="source_ids")
    if (padding := config.architecture.get("pad")) in ids:
        message = f"Token {padding:,} is padding, which stands for nothing and is never read: leave it out."
        raise InvalidRequest(message, field="source_ids")
    around = len(checkpoint.source_prefix(ids)) + len(config.source_suffix)
    refuse_long("source", len(ids) + around, config.max_source_tokens, "source_ids")


def target_token_ids(checkpoint: Checkpoint, text: str, field_name: str = "target") -> list[int]:
    """Ids of a forced target or prefix. Refuses texts without a known token, which would not force the text itself."""
    writer = checkpoint.tokenizers["target"]
    target, unknown = writer.encode(text), writer.special.unknown
    refuse_long_target(checkpoint, target, field_name)
    if not target:
        raise InvalidRequest(f"The {field_name} has no tokens that the model writes.", field=field_name)
    if unknown in target:
        parts = {text[piece.start : piece.end].strip(): piece.id for piece in writer.pieces(text)}
        parts.pop("", None)
        if set(parts.values()) <= {unknown}:
            way_out = f"send a {field_name} in the language that it writes"
            message = f"{checkpoint.name} has no token for {quoted_parts(list(parts))}: {way_out}."
            raise UnknownCharacters(message, field=field_name)
    return target


def refuse_long_target(checkpoint: Checkpoint, target: Sequence[int], field_name: str) -> None:
    refuse_long(field_name, len(target), checkpoint.config.max_new_tokens, field_name, "Send a shorter one.")


def refuse_long_prompt(checkpoint: Checkpoint, prompt: Sequence[int]) -> None:
    refuse_long("prompt", len(prompt), checkpoint.config.max_new_tokens, "prompt", "Send its last part.")


def refuse_unknown_characters(checkpoint: Checkpoint, text: str, field_name: str) -> None:
    """Raises UnknownCharacters for text outside a lyrics model's vocabulary."""
    if unknown := checkpoint.tokenizers["target"].unknown(text):
        them = "it" if len(unknown) == 1 else "them"
        message = f"{checkpoint.name} has never seen {quoted_parts(unknown)}: leave {them} out."
        raise UnknownCharacters(message, field=field_name)


def quoted_parts(parts: Sequence[str]) -> str:
    """The first five parts, quoted for an error message."""
    return " ".join(part if part.isprintable() and part.strip() else repr(part) for part in parts[:5])


def lyrics_token_ids(checkpoint: Checkpoint, text: str, *, only_known: bool) -> list[int]:
    """Token ids of a lyrics model's start token, if any, and a whole text. only_known: may raise UnknownCharacters."""
    if only_known:
        refuse_unknown_characters(checkpoint, text, "text")
    tokens = checkpoint.target_ids(text)
    refuse_long("text", len(tokens), checkpoint.config.max_new_tokens, "text")
    return list(tokens)


def given_prompt_ids(checkpoint: Checkpoint, ids: Sequence[int]) -> tuple[int, ...]:
    """Checks prompt ids from a request and prepends the model's start token if they lack it. Raises InvalidRequest."""
    tokenizer, start = checkpoint.tokenizers["target"], checkpoint.config.target_prefix
    size, special = tokenizer.size, tokenizer.special
    if unknown := [token for token in ids if not 0 <= token < size]:
        raise InvalidRequest(_no_token(checkpoint, unknown[0]), field="prompt")
    if empty := [token for token in ids if token in (special.pad, special.unknown)]:
        message = f"Token {empty[0]:,} ({tokenizer.piece(empty[0])}) stands for no text: leave it out."
        raise InvalidRequest(message, field="prompt")
    return tuple(ids) if tuple(ids[: len(start)]) == start else (*start, *ids)


def _no_token(checkpoint: Checkpoint, token: int) -> str:
    size = checkpoint.tokenizers["target"].size
    return f"There is no token {token:,}: {checkpoint.name} has {size:,} of them (0 to {size - 1:,})."


def tokenized(checkpoint: Checkpoint, query: TokenQuery) -> TokenResult:
    """The tokens of a text, in which characters that the model does not know are its unknown token, or the text of
    tokens. A text that is the piece of a special token is this token. Raises InvalidRequest."""
    tokenizer, config = checkpoint.tokenizers["target"], checkpoint.config
    numbers = {"bos": tokenizer.special.bos, "eos": config.eos, "unk": tokenizer.special.unknown}
    numbers["pad"] = tokenizer.special.pad
    special = {name: None if token is None else tokenizer.piece(token) for name, token in numbers.items()}
    if (ids := query.ids) is None:
        named = [token for name, token in numbers.items() if token is not None and special[name] == query.text]
        if tokenizer.special.unknown is None:
            refuse_unknown_characters(checkpoint, query.text, "prompt")
        ids = (*(config.target_prefix if query.start else ()), *(named[:1] or tokenizer.encode(query.text)))
    elif outside := [token for token in ids if token >= tokenizer.size]:
        raise InvalidRequest(_no_token(checkpoint, outside[0]), field="tokens")
    return TokenResult(
        model=checkpoint.name,
        text=tokenizer.decode(ids),
        ids=tuple(ids),
        pieces=tuple(map(tokenizer.piece, ids)),
        special=special,
        kind=tokenizer.kind,
        vocabulary=tokenizer.size,
        max_tokens=config.max_new_tokens,
    )


def prompt_token_ids(checkpoint: Checkpoint, request: GenerationRequest) -> tuple[int, ...]:
    """The prompt of a lyrics model as token ids. Raises InvalidRequest, TextTooLong, UnknownCharacters."""
    wanted, most = request.decoding.max_new_tokens, checkpoint.config.max_new_tokens
    if wanted is not None and wanted > most:
        message = f"{checkpoint.name} writes at most {most:,} tokens at once, not {wanted:,}."
        raise InvalidRequest(message, field="max_new_tokens")
    if request.prompt_ids is None:
        refuse_unknown_characters(checkpoint, request.prompt, "prompt")
        prompt = checkpoint.target_ids(request.prompt)
    else:
        prompt = given_prompt_ids(checkpoint, request.prompt_ids)
    if not prompt:
        raise InvalidRequest("The prompt is empty: give at least one character to continue.", field="prompt")
    refuse_long_prompt(checkpoint, prompt)
    return prompt


UNKNOWN_CHARACTER = "\ue000"  # in no vocabulary, and therefore always a token by itself
MIN_BEAM_WITH_TERMS = 4  # keeps unconstrained hypotheses in the beam beside hypotheses with terms
# start of a text, within a sentence, after a bracket, and after a character other than a space
TERM_CONTEXTS = ("", "a ", "(", UNKNOWN_CHARACTER)
TokenRun = tuple[int, ...]


def prefix_token_ids(checkpoint: Checkpoint, prefix: str) -> TokenRun:
    """Token ids of a forced prefix; () for white space. Raises UnknownCharacters if the model cannot write the text."""
    if not prefix.strip():
        return ()
    ids, never = target_token_ids(checkpoint, prefix, "prefix"), unwritable_tokens(checkpoint)
    if unknown := parts_of_tokens(checkpoint, prefix, never):
        message = f"{checkpoint.name} has no token for {quoted_parts(unknown)}: begin the translation without it."
        raise UnknownCharacters(message, field="prefix")
    return tuple(ids)


def unwritable_tokens(checkpoint: Checkpoint) -> frozenset[int]:
    config, special = checkpoint.config, checkpoint.tokenizers["target"].special
    return frozenset((*config.suppressed, *(each for each in (config.eos, special.unknown) if each is not None)))


def required_token_runs(checkpoint: Checkpoint, forms: Sequence[str]) -> tuple[TokenRun, ...]:
    """All token runs of all forms of a term. Raises InvalidRequest for a term without a writable form."""
    never = unwritable_tokens(checkpoint)
    runs = dict.fromkeys(run for form in forms for run in _standalone_runs(checkpoint, form.strip()))
    if writable := tuple(run for run in runs if never.isdisjoint(run)):
        return writable
    name, shown = checkpoint.name, " or ".join(map(repr, forms[:3])) or "''"
    if not runs:
        raise InvalidRequest(f"The term {shown} has no tokens that {name} writes: leave it out.", field="glossary")
    unknown = list(dict.fromkeys(part for form in forms for part in parts_of_tokens(checkpoint, form, never)))
    message = f"{name} cannot write the term {shown}: it has no token for {quoted_parts(unknown)}; leave it out."
    raise UnknownCharacters(message, field="glossary")


def parts_of_tokens(checkpoint: Checkpoint, text: str, never: Collection[int]) -> list[str]:
    """The distinct parts of a text that are tokenized to ids in `never`."""
    pieces = checkpoint.tokenizers["target"].pieces(text)
    return list(dict.fromkeys(text[piece.start : piece.end] for piece in pieces if piece.id in never))


def _standalone_runs(checkpoint: Checkpoint, form: str) -> Iterator[TokenRun]:
    """The token runs of the form alone, one per context."""
    writer = checkpoint.tokenizers["target"]
    for before in TERM_CONTEXTS if form else ():
        if UNKNOWN_CHARACTER in before and writer.special.unknown is None:
            continue
        pieces = writer.pieces(before + form)
        first = next((i for i, piece in enumerate(pieces) if piece.end > len(before)), len(pieces))
        if first < len(pieces) and pieces[first].start >= len(before):
            yield tuple(piece.id for piece in pieces[first:])


class TranslationPlan(NamedTuple):
    """A request as tokens. source: () for a text without tokens. decoding: with every option resolved."""

    request: TranslationRequest
    checkpoint: ModelVersion
    source: TokenRun
    prefix: TokenRun
    decoding: DecodingOptions
    demand: Demand


def plan_translation(
    request: TranslationRequest, checkpoint: ModelVersion, defaults: DecodingOptions, *, slots: int, streamed: bool
) -> TranslationPlan:
    """Tokenizes a request and resolves its options. Raises InvalidRequest, TextTooLong, UnknownCharacters."""
    options, source = request.options, source_token_ids(checkpoint, request.text, "q")
    prefix = prefix_token_ids(checkpoint, options.prefix) if options.prefix else ()
    required = tuple(map(partial(required_token_runs, checkpoint), request.required))
    # more hypotheses than alternatives, since two may have the same text
    beam_size = max(options.decoding.beam_size or defaults.beam, options.alternatives + 1)
    if required:
        wide = max(constrained_beam_size(required, beam_size), MIN_BEAM_WITH_TERMS)
        beam_size = max(beam_size, min(wide, slots, WIDEST_BEAM))
    search = (options.decoding, defaults, checkpoint, source, beam_size, required)
    decoding = resolve_search(*search, scores="scores" in options.wants, streamed=streamed)
    # a translation is about as long as its source
    demand = Demand(checkpoint.name, 1, len(source), len(source), beam_size if source else 0)
    return TranslationPlan(request, checkpoint, source, prefix, decoding, demand)


def resolve_search(
    wanted: DecodingOptions,
    defaults: DecodingOptions,
    checkpoint: ModelVersion,
    source: Sequence[int],
    beam_size: int | None = None,
    required: tuple[tuple[TokenRun, ...], ...] = (),
    *,
    scores: bool = False,
    streamed: bool = False,
) -> DecodingOptions:
    """Options of a beam search that returns all its hypotheses. Unset options take the server's defaults; an unset
    token limit is the model's for this source length, plus room for the required terms."""
    beam_size, length_penalty = beam_size or wanted.beam_size or defaults.beam, wanted.length_penalty
    limit, most = wanted.max_new_tokens, checkpoint.config.max_new_tokens
    if length_penalty is None:
        length_penalty = TERMS_LENGTH_PENALTY if required else defaults.length_penalty
    if limit is None:
        limit = new_token_limit(len(source), most)
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
