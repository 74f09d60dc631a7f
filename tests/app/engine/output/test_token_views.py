from __future__ import annotations

import numpy as np

from app.engine.output import token_views
from models.inspection.results import AttentionMap
from models.tokenizer import SentencePieceTokenizer
from training.config.run_config import TokenizerConfig
from training.data.tokenizer_training import sentencepiece_tokenizer

TEXTS = ["das kleine haus am see", "the small house by the lake", "größe über alles mögliche"] * 3


def tokenizer() -> SentencePieceTokenizer:
    return sentencepiece_tokenizer(TEXTS, TokenizerConfig(vocab_size=60))


def test_given_and_decoded_texts_show_the_same_places() -> None:
    pieces = tokenizer()
    for text in TEXTS[:3]:
        given = token_views.text_tokens(pieces, text)
        decoded = token_views.decoded_tokens(pieces, [view.id for view in given])
        assert decoded == given
        assert all(view.text == text[view.start : view.end] for view in given)
        assert "".join(view.text for view in given) == text.replace(" ", "")


def test_special_tokens_have_no_span() -> None:
    (view,) = token_views.special_tokens(tokenizer(), [3])
    assert (view.piece, view.text, view.start, view.end, view.special) == ("</s>", "", None, None, True)


def test_weights_are_unchanged() -> None:
    weights = np.array([[[[0.1, 0.9]]]], dtype="<f4")
    result = AttentionMap((2,), (5,), (1, 1, 1, 2), weights.tobytes())
    assert result.layers == (2,)
    assert (result.values == weights).all()
    assert result.values.shape == (1, 1, 1, 2)
