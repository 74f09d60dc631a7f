"""Decoding settings of a Marian folder: generation_config.json, or config.json in older folders."""

from __future__ import annotations

from dataclasses import dataclass

from training.errors import TrainingError
from training.importers.marian.hub_folder import JsonObject

RECORDED_SETTINGS = (
    "num_beams",
    "length_penalty",
    "early_stopping",
    "max_length",
    "forced_eos_token_id",
    "renormalize_logits",
)
# setting -> neutral value; other values are ignored, with a note in the model card
UNAPPLIED_SETTINGS = {
    "do_sample": False,
    "early_stopping": False,
    "no_repeat_ngram_size": 0,
    "encoder_no_repeat_ngram_size": 0,
    "repetition_penalty": 1.0,
    "num_beam_groups": 1,
    "min_length": 0,
    "min_new_tokens": 0,
    "begin_suppress_tokens": [],
}


@dataclass(frozen=True, slots=True)
class GenerationSettings:
    """Token ids and decoding settings of the folder."""

    start: int
    eos: int
    suppressed: tuple[int, ...]
    renormalise: bool
    forced_end: bool
    max_new_tokens: int
    recorded: JsonObject
    not_applied: tuple[str, ...]


def read_generation_settings(config: JsonObject, settings: JsonObject, pad: int, rows: int) -> GenerationSettings:
    """settings: generation_config.json, {} in older folders with them in config.json. rows: of the target embedding.
    TrainingError for an unsupported setting."""
    tokens = {name: config.get(name) for name in ("decoder_start_token_id", "eos_token_id")}
    given: JsonObject = tokens | {name: value for name, value in (settings or config).items() if value is not None}
    if "forced_bos_token_id" in given:
        raise TrainingError("The folder sets forced_bos_token_id, which is not supported.")
    start, eos = given["decoder_start_token_id"], given["eos_token_id"]
    eos = eos[0] if isinstance(eos, list) and len(eos) == 1 else eos
    suppressed = _suppressed(given) or [pad]
    named = [("decoder_start_token_id", start), ("eos_token_id", eos), *(("a bad word", i) for i in suppressed)]
    for name, token in named:
        if not isinstance(token, int) or not 0 <= token < rows:
            raise TrainingError(f"The folder gives {name} as {token!r}, and the target's ids are 0..{rows - 1}.")
    forced = given.get("forced_eos_token_id")
    if forced not in (None, eos, [eos]):
        raise TrainingError(f"The folder sets forced_eos_token_id to {forced!r}; only its end token is supported.")
    most, limit = given.get("max_length"), config["max_position_embeddings"]
    return GenerationSettings(
        start=start,
        eos=eos,
        suppressed=tuple(sorted(set(suppressed))),
        renormalise=bool(given.get("renormalize_logits", False)),
        forced_end=forced is not None,
        max_new_tokens=max(1, min(limit, most if isinstance(most, int) else limit) - 1),  # includes the start token
        recorded={name: given[name] for name in RECORDED_SETTINGS if name in given},
        not_applied=tuple(name for name, neutral in UNAPPLIED_SETTINGS.items() if given.get(name, neutral) != neutral),
    )


def _suppressed(settings: JsonObject) -> list[int]:
    tokens = list(settings.get("suppress_tokens") or [])
    for word in settings.get("bad_words_ids") or []:
        if not isinstance(word, list) or len(word) != 1:
            raise TrainingError(f"bad_words_ids holds {word!r}; only words of one token are supported.")
        tokens += word
    return tokens
