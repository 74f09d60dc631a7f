"""The fields of translators in browsers."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from app.api.deepl.schemas import check_text_list
from app.api.field_types import EncodableText, RequestFields, check_not_blank, field_error

Texts = Annotated[list[str], BeforeValidator(check_text_list)]
Target = Annotated[EncodableText, AfterValidator(check_not_blank)]


def _null_as_empty(value: object) -> object:
    """JavaScript sends null for a language left open."""
    return "" if value is None else value


Source = Annotated[EncodableText, BeforeValidator(_null_as_empty)]
_SOURCE_HELP = 'Language of the text; "auto", or nothing: it is detected.'


class ImmeRequest(RequestFields):
    """Paragraphs of a page."""

    source_lang: Source = Field(default="auto", description=_SOURCE_HELP, examples=["auto"])
    target_lang: Target = Field(description="Language to translate to.", examples=["en"])
    text_list: Texts = Field(description="The texts; tags in them are kept.", examples=[["Ich möchte ein Bier"]])


class ImmeTranslation(BaseModel):
    """One paragraph."""

    detected_source_lang: str = Field(description="What the text was taken for, or source_lang.", examples=["de"])
    text: str = Field(description="The translation.", examples=["I want a beer"])


class ImmeAnswer(BaseModel):
    """In the order of the texts."""

    translations: list[ImmeTranslation] = Field(
        description="One for each text.", examples=[[{"detected_source_lang": "de", "text": "I want a beer"}]]
    )


class KissRequest(RequestFields):
    """One text, or several."""

    model_config = ConfigDict(populate_by_name=True)

    source: Source = Field(default="auto", alias="from", description=_SOURCE_HELP, examples=["auto"])
    to: Target = Field(description="Language to translate to.", examples=["en"])
    text: EncodableText | None = Field(default=None, description="The text.", examples=["Ich möchte ein Bier"])
    texts: Texts | None = Field(default=None, description="Or several texts.", examples=[["Ich möchte ein Bier"]])

    @model_validator(mode="after")
    def _something(self) -> Self:
        if (self.text is None) == (self.texts is None):
            raise field_error("takes text or texts, one of the two; send one text, or a list of texts.")
        return self


class KissTranslation(BaseModel):
    """One text."""

    text: str = Field(description="The translation.", examples=["I want a beer"])
    src: str = Field(description="What the text was taken for, or `from`.", examples=["de"])


class KissAnswer(BaseModel):
    """`text` and `src` for a text, `translations` for `texts`."""

    text: str | None = Field(default=None, description="The translation.", examples=["I want a beer"])
    src: str | None = Field(default=None, description="What the text was taken for, or `from`.", examples=["de"])
    translations: list[KissTranslation] | None = Field(
        default=None, description="One for each text.", examples=[[{"text": "I want a beer", "src": "de"}]]
    )


class HcfyRequest(RequestFields):
    """What was selected in a page, or a paragraph of it."""

    name: EncodableText | None = Field(
        default=None, description="How the source is called in the extension; of no account.", examples=["Parlance"]
    )
    text: EncodableText = Field(description="The text; each line is a paragraph.", examples=["Ich möchte ein Bier"])
    destination: Annotated[list[Target], Field(min_length=1, max_length=10)] = Field(
        description="Chinese names of the languages to translate to: the first that the text is not in.",
        examples=[["英语", "西班牙语"]],
    )
    source: EncodableText | None = Field(
        default=None, description="Chinese name of the text's language; nothing: it is detected.", examples=["德语"]
    )


class HcfyAnswer(BaseModel):
    """One result for each paragraph."""

    model_config = ConfigDict(populate_by_name=True, serialize_by_alias=True)

    text: str = Field(description="The text that was sent.", examples=["Ich möchte ein Bier"])
    source: str = Field(alias="from", description="Chinese name of its language.", examples=["德语"])
    to: str = Field(description="Chinese name of the language of `result`.", examples=["英语"])
    result: list[str] = Field(description="The translation of each line.", examples=[["I want a beer"]])


class DeepLXRequest(RequestFields):
    """One text."""

    text: EncodableText = Field(description="The text.", examples=["Ich möchte ein Bier"])
    source_lang: Source = Field(default="", description=_SOURCE_HELP, examples=["DE"])
    target_lang: Target = Field(description="Language to translate to.", examples=["EN"])
    tag_handling: Annotated[Literal["html", "xml"] | None, BeforeValidator(lambda value: value or None)] = Field(
        default=None, description="The text holds tags; by default as it looks.", examples=["html"]
    )


class DeepLXAnswer(BaseModel):
    """As DeepLX answers."""

    code: int = Field(description="200.", examples=[200])
    id: int = Field(description="A number that means nothing.", examples=[8_354_130_001])
    data: str = Field(description="The translation.", examples=["I want a beer"])
    alternatives: list[str] = Field(description="None.", examples=[[]])
    source_lang: str = Field(description="What the text was taken for, or source_lang.", examples=["DE"])
    target_lang: str = Field(description="As it was sent, in capitals.", examples=["EN"])
    method: str = Field(description='"Free".', examples=["Free"])
