"""What the checkpoint of a run will say of itself, but its scores."""

from __future__ import annotations

from dataclasses import asdict

from models import networks
from models.checkpoint import CheckpointConfig
from models.recurrent import RecurrentLanguageModel
from models.tokenizer import Tokenizer, VocabularyTokenizer
from training.configuration.lyrics import LyricsConfig
from training.configuration.translator import TranslatorConfig
from training.run import parameter_count
from training.vocabulary import BOS, EOS, PAD, UNKNOWN


def translator_draft(config: TranslatorConfig, tokenizers: dict[str, Tokenizer]) -> CheckpointConfig:
    """Before there is a network: how large it is depends on the tokenizers."""
    return CheckpointConfig(
        kind="translator",
        architecture={"name": "transformer"},
        source_language=config.source_language,
        target_language=config.target_language,
        source_suffix=(EOS if config.tokenizer.source_end == "eos" else PAD,),
        target_prefix=(BOS,),
        eos=EOS,
        suppressed=(PAD, UNKNOWN, BOS),
        max_source_tokens=config.max_tokens,
        max_new_tokens=config.max_tokens,
        tokenizers={side: tokenizer.kind for side, tokenizer in tokenizers.items()},
        training=asdict(config),
    )


def lyricist_draft(
    config: LyricsConfig, network: RecurrentLanguageModel, tokenizer: VocabularyTokenizer
) -> CheckpointConfig:
    return CheckpointConfig(
        kind="lyrics",
        architecture=networks.architecture("recurrent", network.config),
        suppressed=tuple(sorted(tokenizer.special.ids())),
        parameters=parameter_count(network),
        tokenizers={"target": tokenizer.kind},
        training=asdict(config),
    )
