"""The fields of translators in browsers."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from app.api.deepl.schemas import ErrorSentence, TextList
from app.api.errors import ErrorAnswer
from app.api.field_types import EncodableText, NonBlankText, doc, example_of, field_error, optional
from app.api.request_fields import Examples, RequestFields

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

    source_lang: Source = doc(_SOURCE_HELP, "auto", default="auto")
    target_lang: NonBlankText = doc("Language to translate to.", "en")
    text_list: TextList = doc("The texts; tags in them are kept.", ["Ich möchte ein Bier"])


class ImmeTranslation(BaseModel):
    """One paragraph."""

    detected_source_lang: str = doc("What the text was taken for, or source_lang.", "de")
    text: str = doc("The translation.", "I want a beer")


class ImmeAnswer(BaseModel):
    """In the order of the texts."""

    translations: list[ImmeTranslation] = doc("One for each text.", [example_of(ImmeTranslation)])


class KissRequest(RequestFields):
    """One text, or several."""

    examples: ClassVar[Examples] = {
        "A text": {"from": "auto", "to": "en", "text": "Ich möchte ein Bier"},
        "Several texts": {"from": "auto", "to": "en", "texts": ["Ich möchte ein Bier", "hallo welt"]},
    }
    model_config = ConfigDict(populate_by_name=True)

    source: Source = doc(_SOURCE_HELP, "auto", default="auto", alias="from")
    to: NonBlankText = doc("Language to translate to.", "en")
    text: EncodableText | None = optional("The text.", "Ich möchte ein Bier")
    texts: TextList | None = optional("Or several texts.", ["Ich möchte ein Bier"])

    @model_validator(mode="after")
    def _something(self) -> Self:
        if (self.text is None) == (self.texts is None):
            raise field_error("takes text or texts, one of the two; send one text, or a list of texts.")
        return self


class KissTranslation(BaseModel):
    """One text."""

    text: str = doc("The translation.", "I want a beer")
    src: str = doc("What the text was taken for, or `from`.", "de")


class KissAnswer(BaseModel):
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


class HcfyAnswer(BaseModel):
    """One result for each paragraph."""

    model_config = ConfigDict(populate_by_name=True, serialize_by_alias=True)

    text: str = doc("The text that was sent.", "Ich möchte ein Bier")
    source: str = doc("Chinese name of its language.", "德语", alias="from")
    to: str = doc("Chinese name of the language of `result`.", "英语")
    result: list[str] = doc("The translation of each line.", ["I want a beer"])


class DeepLXRequest(RequestFields):
    """One text."""

    text: EncodableText = doc("The text.", "Ich möchte ein Bier")
    source_lang: Source = doc(_SOURCE_HELP, "DE", default="")
    target_lang: NonBlankText = doc("Language to translate to.", "EN")
    tag_handling: Annotated[Literal["html", "xml"] | None, BeforeValidator(lambda value: value or None)] = optional(
        "The text holds tags; by default as it looks.", "html"
    )


class DeepLXAnswer(BaseModel):
    """As DeepLX answers."""

    code: int = doc("200.", 200)
    id: int = doc("A number that means nothing.", 8_354_130_001)
    data: str = doc("The translation.", "I want a beer")
    alternatives: list[str] = doc("None.", [])
    source_lang: str = doc("What the text was taken for, or source_lang.", "DE")
    target_lang: str = doc("As it was sent, in capitals.", "EN")
    method: str = doc('"Free".', "Free")


class DeepLXError(BaseModel):
    """The body of every error of /deeplx."""

    code: int = doc("The status.", 400)
    message: ErrorSentence

    @classmethod
    def from_error(cls, status: int, error: ErrorAnswer) -> Self:
        return cls(code=status, message=error.error)
