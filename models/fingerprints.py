"""Fingerprints of the code in `models.networks` that kernels compute, as it was when tests last held them against it.

After an edit that changes no number `python -m models.backends.native.coverage` writes the table anew. After one that
does, the kernels decline the network, as they should: they have to learn the change before the table does.
"""

from __future__ import annotations

CODE: dict[str, str] = {
    "DecoderLayer.forward": "01ac41ef8610",
    "EncoderLayer.forward": "e471ac01cbb2",
    "FeedForward.forward": "1960af85260f",
    "MultiHeadAttention.attend": "deb07725a7e0",
    "MultiHeadAttention.forward": "1dcbf466d922",
    "MultiHeadAttention.key_value": "a9c9df9f47f0",
    "MultiHeadAttention.query_key_value": "c827ebe178af",
    "MultiHeadAttention.split": "69deecb1bcef",
    "Projection.forward": "25fd832c57e1",
    "RecurrentCell.forward": "94a00c7940c7",
    "RecurrentLanguageModel.dropped": "2589b097712b",
    "RecurrentLanguageModel.forward": "59756380d06a",
    "RecurrentLanguageModel.inputs": "a295411a410e",
    "RecurrentLanguageModel.project": "50cc4e3a30fc",
    "RecurrentLanguageModel.project_inputs": "0ad992581292",
    "RecurrentLanguageModel.recurrent_weight": "d1bbaec606c9",
    "RecurrentLanguageModel.run": "0b8ba2cbe9e9",
    "RecurrentLanguageModel.scan": "bf20ac5f92f5",
    "RecurrentLanguageModel.sequence": "07a2b6b1b240",
    "Residual.forward": "2c10ac1f45ef",
    "Transformer.decode": "e8a94cb827b9",
    "Transformer.decode_over": "0a71c7fee0a4",
    "Transformer.embed": "d0b1262bc77c",
    "Transformer.encode": "0df185d5904b",
    "Transformer.features": "d5d97a4098d8",
    "Transformer.project": "0b2548d619d6",
    "Transformer.source_key_values": "eb7d71bca4b3",
    "gru": "87fc91397feb",
    "lstm": "0d24adf8a01e",
    "rnn": "490ba25c71f5",
}
