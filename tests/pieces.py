"""SentencePiece models trained on a few sentences."""

from __future__ import annotations

import io
from collections.abc import Iterable

import sentencepiece

from models.tokenizer import SentencePieceTokenizer


def trained(sentences: Iterable[str], **options: object) -> SentencePieceTokenizer:
    """Byte pairs, with the special ids 0 to 3; options: the trainer's own, which come first."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences),
        model_writer=model,
        **{
            "vocab_size": 70,
            "model_type": "bpe",
            "hard_vocab_limit": False,
            "num_threads": 1,
            "pad_id": 0,
            "unk_id": 1,
            "bos_id": 2,
            "eos_id": 3,
            "minloglevel": 2,
            **options,
        },
    )
    return SentencePieceTokenizer(model.getvalue())
