"""POST /tokenize, POST /detokenize and GET /tokenizer_info: a lyricist's tokens in vLLM's form, for clients that count
tokens or send them to POST /v1/completions, such as lm_eval with its remote tokenizer."""

from __future__ import annotations

from typing import Annotated, ClassVar

from fastapi import APIRouter, Query, Request
from pydantic import BeforeValidator, Field

from app.api.errors import common_errors, documented
from app.api.openai.routes import OpenAIRoute, find_lyricist
from app.api.openai.schemas import LARGEST_ID, OpenAIErrorAnswer
from app.api.request_fields import EncodableText, Examples, ModelName, RequestFields, doc, field_error, optional
from app.api.responses import Answer
from app.api.services import Services, ServicesDependency
from app.engine.interface import TokenQuery

router = APIRouter(route_class=OpenAIRoute)
_ERRORS = documented(
    OpenAIErrorAnswer,
    common_errors("tokenize", "answer"),
    s400="The request cannot be answered as it is: a field is wrong or beyond a limit.",
    s401="The key is missing or wrong.",
    s404="No lyricist of that name is loaded.",
)
_CLASSES = {"character": "CharacterTokenizer", "word": "WordTokenizer"}
Queried = Annotated[
    ModelName | None, Query(description="Name of a lyricist; by default the first.", examples=["lyrics-zh"])
]


class TokenizerRequest(RequestFields):
    starts_work: ClassVar[bool] = False
    charged_fields: ClassVar[tuple[str, ...]] = ()

    model: ModelName | None = optional("Name of a lyricist (GET /v1/models); null takes the first.", "lyrics-zh")


class TokenizeRequest(TokenizerRequest):
    """One text."""

    examples: ClassVar[Examples] = {"A text": {"model": "lyrics-zh", "prompt": "分开", "return_token_strs": True}}

    prompt: EncodableText = doc("The text; that of a special token, such as </s>, is this token.", "分开")
    add_special_tokens: bool = doc("Begin with the start token, where the model has one.", True, default=True)
    return_token_strs: bool = doc("Tell the vocabulary's piece of each token too.", True, default=False)


class TokenizeAnswer(Answer):
    """Its tokens."""

    count: int = doc("How many.", 2)
    max_model_len: int = doc("Most tokens of a prompt.", 1024)
    tokens: list[int] = doc("Their numbers in the vocabulary.", [5, 6])
    token_strs: list[str] | None = doc("With `return_token_strs`: their pieces; else null.", ["分", "开"])


def _check_ids(value: object) -> object:
    if not isinstance(value, list) or not all(type(token) is int and 0 <= token <= LARGEST_ID for token in value):
        raise field_error(f"is no list of token ids; they are whole numbers of 0 to {LARGEST_ID:,}.")
    return value


class DetokenizeRequest(TokenizerRequest):
    """Tokens of a text."""

    examples: ClassVar[Examples] = {"Two tokens": {"model": "lyrics-zh", "tokens": [5, 6]}}

    tokens: Annotated[list[int], BeforeValidator(_check_ids), Field(max_length=100_000)] = doc(
        "Their numbers in the vocabulary.", [5, 6]
    )


class DetokenizeAnswer(Answer):
    """Their text."""

    prompt: str = doc("The text, without special tokens.", "分开")


class TokenizerInfo(Answer):
    """What a tokenizer_config.json would say."""

    tokenizer_class: str = doc("What a token stands for.", "CharacterTokenizer")
    vocab_size: int = doc("Tokens of the vocabulary.", 1272)
    model_max_length: int = doc("Most tokens of a prompt.", 1024)
    bos_token: str | None = doc(
        "What a text is scored after that nothing comes before: the start token, or a line end where the model has"
        " none and knows line ends.",
        "\n",
    )
    eos_token: str | None = doc("The token that ends a text; null of models that write on without end.", None)
    unk_token: str | None = doc("The token of characters that the model does not know.", "<unk>")
    pad_token: str | None = doc("The token that fills batches.", None)


@router.post("/tokenize", summary="Tokens of a text, in vLLM's form", responses=_ERRORS)
async def tokenize(body: TokenizeRequest, request: Request, services: ServicesDependency) -> TokenizeAnswer:
    """The tokens of a lyricist, which POST /v1/completions takes as a prompt. A character that it does not know is its
    unknown token, which no prompt may hold."""
    services.limits.check_texts([body.prompt], "prompt")
    query = TokenQuery(body.prompt, _lyricist(services, body.model), start=body.add_special_tokens)
    found = await services.engine.tokenize(query)
    pieces = list(found.pieces) if body.return_token_strs else None
    return TokenizeAnswer(
        count=len(found.ids), max_model_len=found.max_tokens, tokens=list(found.ids), token_strs=pieces
    )


@router.post("/detokenize", summary="The text of tokens, in vLLM's form", responses=_ERRORS)
async def detokenize(body: DetokenizeRequest, request: Request, services: ServicesDependency) -> DetokenizeAnswer:
    """What the tokens read, without special tokens."""
    query = TokenQuery("", _lyricist(services, body.model), ids=tuple(body.tokens))
    return DetokenizeAnswer(prompt=(await services.engine.tokenize(query)).text)


@router.get("/tokenizer_info", summary="A lyricist's tokenizer, in vLLM's form", responses=_ERRORS)
async def tokenizer_info(services: ServicesDependency, model: Queried = None) -> TokenizerInfo:
    """What lm_eval asks before it sends a text. A server of several lyricists tells of the first, or of `?model=`."""
    line_end = await services.engine.tokenize(TokenQuery("\n", _lyricist(services, model)))
    special = line_end.special
    known = special["unk"] not in line_end.pieces and "".join(line_end.pieces) == "\n"
    return TokenizerInfo(
        tokenizer_class=_CLASSES.get(line_end.kind, line_end.kind),
        vocab_size=line_end.vocabulary,
        model_max_length=line_end.max_tokens,
        bos_token=special["bos"] or ("\n" if known else None),
        eos_token=special["eos"],
        unk_token=special["unk"],
        pad_token=special["pad"],
    )


def _lyricist(services: Services, name: str | None) -> str | None:
    found = find_lyricist(services.engine.models(), name)
    return name if found is None else found.name
