"""Translators in browsers, each in its own form: POST /imme, /kiss, /hcfy and /deeplx, and /deepl as /v2/translate."""

from __future__ import annotations

import secrets
from typing import Annotated, ClassVar, Literal, Self

from fastapi import APIRouter, Request
from pydantic import BeforeValidator, ConfigDict, Field, model_validator
from starlette.concurrency import run_in_threadpool

from app.api.deepl.routes import DeepLRoute, deepl_translate, source_code
from app.api.deepl.schemas import ERROR_SENTENCE, TextList
from app.api.errors import TEXT_ERRORS, ErrorAnswer, Statuses, documented
from app.api.language_pairs import LoadedPairs, find_pairs, translate_body, translate_texts
from app.api.request_fields import (
    EncodableText,
    Examples,
    NonBlankText,
    RequestFields,
    doc,
    example_of,
    field_error,
    optional,
)
from app.api.responses import Answer
from app.api.route import ApiRoute
from app.api.services import Services, ServicesDependency
from app.errors import InvalidRequest, TextTooLong
from app.text.language_codes import chinese_name, closest_codes, code_of_chinese_name, google_code
from app.translation import TextFormat

# JavaScript sends null for a language left open.
Source = Annotated[EncodableText, BeforeValidator(lambda value: "" if value is None else value)]
_SOURCE_HELP = 'Language of the text; "auto", or nothing: it is detected.'


class ImmeRequest(RequestFields):
    """Paragraphs of a page."""

    examples: ClassVar[Examples] = {
        "Two paragraphs": {
            "source_lang": "auto",
            "target_lang": "en",
            "text_list": ["Ich möchte ein Bier", "hallo welt"],
        }
    }

    charged_fields = ("texts",)

    source: Source = doc(_SOURCE_HELP, "auto", default="auto", alias="source_lang")
    target: NonBlankText = doc("Language to translate to.", "en", alias="target_lang")
    texts: TextList = doc("The texts; tags in them are kept.", ["Ich möchte ein Bier"], alias="text_list")


class ImmeTranslation(Answer):
    """One paragraph."""

    detected_source_lang: str = doc("What the text was taken for, or source_lang.", "de")
    text: str = doc("The translation.", "I want a beer")


class ImmeAnswer(Answer):
    """In the order of the texts."""

    translations: list[ImmeTranslation] = doc("One for each text.", [example_of(ImmeTranslation)])


class KissRequest(RequestFields):
    """One text, or several."""

    examples: ClassVar[Examples] = {
        "A text": {"from": "auto", "to": "en", "text": "Ich möchte ein Bier"},
        "Several texts": {"from": "auto", "to": "en", "texts": ["Ich möchte ein Bier", "hallo welt"]},
    }
    charged_fields = ("texts",)
    model_config = ConfigDict(populate_by_name=True)

    source: Source = doc(_SOURCE_HELP, "auto", default="auto", alias="from")
    target: NonBlankText = doc("Language to translate to.", "en", alias="to")
    one: EncodableText | None = optional("The text.", "Ich möchte ein Bier", alias="text")
    several: TextList | None = optional("Or several texts.", ["Ich möchte ein Bier"], alias="texts")

    @model_validator(mode="after")
    def _something(self) -> Self:
        if (self.one is None) == (self.several is None):
            raise field_error("takes text or texts, one of the two; send one text, or a list of texts.")
        return self

    @property
    def texts(self) -> list[str]:
        return [self.one or ""] if self.several is None else self.several


class KissTranslation(Answer):
    """One text."""

    text: str = doc("The translation.", "I want a beer")
    src: str = doc("What the text was taken for, or `from`.", "de")


class KissAnswer(Answer):
    """`text` and `src` for a text, `translations` for `texts`."""

    text: str | None = optional("The translation.", "I want a beer")
    src: str | None = optional("What the text was taken for, or `from`.", "de")
    translations: list[KissTranslation] | None = optional("One for each text.", [example_of(KissTranslation)])


class HcfyRequest(RequestFields):
    """What was selected in a page, or a paragraph of it."""

    examples: ClassVar[Examples] = {
        "A text": {
            "name": "Parlance",
            "text": "Ich möchte ein Bier",
            "destination": ["英语", "西班牙语"],
            "source": "德语",
        }
    }

    name: EncodableText | None = optional("How the source is called in the extension; of no account.", "Parlance")
    text: EncodableText = doc("The text; each line is a paragraph.", "Ich möchte ein Bier")
    destination: Annotated[list[NonBlankText], Field(min_length=1, max_length=10)] = doc(
        "Chinese names of the languages to translate to: the first that the text is not in.", ["英语", "西班牙语"]
    )
    source: EncodableText | None = optional("Chinese name of the text's language; nothing: it is detected.", "德语")


class HcfyAnswer(Answer):
    """One result for each paragraph."""

    text: str = doc("The text that was sent.", "Ich möchte ein Bier")
    source: str = doc("Chinese name of its language.", "德语", alias="from")
    to: str = doc("Chinese name of the language of `result`.", "英语")
    result: list[str] = doc("The translation of each line.", ["I want a beer"])


class DeepLXRequest(RequestFields):
    """One text."""

    charged_fields = ("texts",)

    text: EncodableText = doc("The text.", "Ich möchte ein Bier")
    source: Source = doc(_SOURCE_HELP, "DE", default="", alias="source_lang")
    target: NonBlankText = doc("Language to translate to.", "EN", alias="target_lang")
    tag_handling: Annotated[Literal["html", "xml"] | None, BeforeValidator(lambda value: value or None)] = optional(
        "The text holds tags; by default as it looks.", "html"
    )

    @property
    def texts(self) -> list[str]:
        return [self.text]


class DeepLXAnswer(Answer):
    """As DeepLX answers."""

    code: int = doc("200.", 200)
    id: int = doc("A number that means nothing.", 8_354_130_001)
    data: str = doc("The translation.", "I want a beer")
    alternatives: list[str] = doc("None.", [])
    source_lang: str = doc("What the text was taken for, or source_lang.", "DE")
    target_lang: str = doc("As it was sent, in capitals.", "EN")
    method: str = doc('"Free".', "Free")


class DeepLXError(Answer):
    """The body of every error of /deeplx."""

    code: int = doc("The status.", 400)
    message: str = ERROR_SENTENCE

    @classmethod
    def from_error(cls, status: int, error: ErrorAnswer) -> Self:
        return cls(code=status, message=error.error)


EXTENSION_ERRORS = documented(ErrorAnswer, TEXT_ERRORS)


class ExtensionRoute(ApiRoute):
    """JSON, with the key in a header or as ?token=. Errors are ours: the extensions show the body as it is."""

    statuses: ClassVar[Statuses] = {InvalidRequest: 400, TextTooLong: 400}
    key_fields: ClassVar[tuple[str, ...]] = ("token",)


class DeepLXRoute(ExtensionRoute):
    error_schema = DeepLXError


class DeepLTokenRoute(DeepLRoute):
    """DeepL's form for extensions, which cannot always set a header."""

    key_fields = ("auth_key", "token")


router = APIRouter(route_class=ExtensionRoute)
deeplx_router = APIRouter(route_class=DeepLXRoute)
deepl_router = APIRouter(route_class=DeepLTokenRoute)


@router.post("/imme", summary="Translate texts (Immersive Translate)", responses=EXTENSION_ERRORS)
async def imme(body: ImmeRequest, request: Request, services: ServicesDependency) -> ImmeAnswer:
    """For Immersive Translate: enter this address, with ?token=KEY where keys are needed, as its custom API."""
    answers = [
        ImmeTranslation(detected_source_lang=google_code(pair.source), text=each.text)
        for pair, each in await translate_body(body, request, services, field="text_list")
    ]
    return ImmeAnswer(translations=answers)


@router.post("/kiss", summary="Translate texts (Kiss Translator)", responses=EXTENSION_ERRORS)
async def kiss(body: KissRequest, request: Request, services: ServicesDependency) -> KissAnswer:
    """For Kiss Translator: enter this address, and the key where one is needed, as a custom API."""
    field = "text" if body.several is None else "texts"
    translations = [
        KissTranslation(text=each.text, src=google_code(pair.source))
        for pair, each in await translate_body(body, request, services, field=field)
    ]
    if body.several is None:
        return KissAnswer(text=translations[0].text, src=translations[0].src)
    return KissAnswer(translations=translations)


@router.post("/hcfy", summary="Translate a text (Selection Translator)", responses=EXTENSION_ERRORS)
async def hcfy(body: HcfyRequest, request: Request, services: ServicesDependency) -> HcfyAnswer:
    """For Selection Translator: enter this address as a custom source. `result` has one entry for each line of `text`;
    a text that is in the first language of `destination` is translated into the second."""
    services.limits.check_texts([body.text], "text")
    lines = body.text.split("\n")
    services.limits.check_texts(lines, "text")
    source = code_of_chinese_name(body.source) if body.source else None
    target = await _choose_target(body, source, services)
    (whole,) = await find_pairs([body.text], source, code_of_chinese_name(target), services)
    # The text has one language: a line of it may be too short to show which.
    translations = await translate_texts(lines, [whole] * len(lines), request, services)
    result = [each.text for each in translations]
    return HcfyAnswer(text=body.text, source=chinese_name(whole.source), to=target, result=result)


async def _choose_target(body: HcfyRequest, source: str | None, services: Services) -> str:
    """The first language that is not the text's own."""
    if len(body.destination) == 1:
        return body.destination[0]
    known = LoadedPairs(services.engine).codes
    if source is None and known:
        source = (await run_in_threadpool(services.detector.detect, body.text, known)).language
    for name in body.destination:
        if source is None or not closest_codes(code_of_chinese_name(name), [source]):
            return name
    return body.destination[0]


@deeplx_router.post("/deeplx", include_in_schema=False)
async def deeplx(body: DeepLXRequest, request: Request, services: ServicesDependency) -> DeepLXAnswer:
    """For clients of DeepLX. `alternatives` is there and empty: these clients translate pages, and show one."""
    text_format: TextFormat | None = "html" if body.tag_handling else None
    ((pair, translation),) = await translate_body(body, request, services, field="text", text_format=text_format)
    return DeepLXAnswer(
        code=200,
        id=secrets.randbelow(9 * 10**9) + 10**9,
        data=translation.text,
        alternatives=[],
        source_lang=source_code(pair.source),
        target_lang=body.target.upper(),
        method="Free",
    )


# As POST /v2/translate, with the key as ?token= where a header cannot be set.
deepl_router.post("/deepl", name="deepl_by_token", include_in_schema=False)(deepl_translate)
