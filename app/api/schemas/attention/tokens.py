"""Both sentences of a look inside, as the model saw them."""

from __future__ import annotations

from pydantic import BaseModel, Field


class Token(BaseModel):
    """One token of the model's vocabulary."""

    id: int = Field(description="Number in the vocabulary.", examples=[17])
    piece: str = Field(description="How the vocabulary writes it.", examples=["▁bier"])
    text: str = Field(description="How it reads.", examples=["bier"])
    start: int | None = Field(
        description="First character (code point) in the text, from 0; null for special tokens.",
        examples=[15],
    )
    end: int | None = Field(
        description="Character after the last; text[start:end] is the token. Null for special tokens.",
        examples=[19],
    )
    word: int | None = Field(
        description="Which word of the text it belongs to, from 0; null for special tokens.", examples=[3]
    )
    special: bool = Field(description="Whether it stands for no text (begin, end, unknown).", examples=[False])


class Source(BaseModel):
    """What the encoder read."""

    text: str = Field(description="The text that the offsets count in.", examples=["ich möchte ein bier"])
    tokens: list[Token] = Field(
        description="Its tokens, as the encoder read them: the keys of `encoder` and `cross`.",
        examples=[[{"id": 17, "piece": "▁bier", "text": "bier", "start": 15, "end": 19, "word": 3, "special": False}]],
    )


class Target(BaseModel):
    """What the decoder wrote. Row t of `decoder` and `cross` read input token t to predict output token t."""

    text: str = Field(description="The text that the offsets count in.", examples=["i want a beer"])
    forced: bool = Field(description="Whether the request gave it.", examples=[False])
    logprob_sum: float | None = Field(
        description="Log-probability of the output tokens, in nats, from one teacher-forced pass; null (minus infinity)"
        " where one of them is never chosen.",
        examples=[-0.41],
    )
    finished: bool = Field(description="Whether it ends with the end token.", examples=[True])
    input_tokens: list[Token] = Field(
        description="What the decoder read at each step, beginning with its start token.",
        examples=[[{"id": 2, "piece": "<s>", "text": "", "start": None, "end": None, "word": None, "special": True}]],
    )
    output_tokens: list[Token] = Field(
        description="What it predicted at each step, ending with its end token.",
        examples=[[{"id": 5, "piece": "▁i", "text": "i", "start": 0, "end": 1, "word": 0, "special": False}]],
    )
