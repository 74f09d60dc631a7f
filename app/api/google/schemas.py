"""The fields of Google's Translation API v2.

https://cloud.google.com/translate/docs/reference/rest/v2/translate"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field

from app.api.deepl.schemas import check_text_list
from app.api.field_types import EncodableText, RequestFields, check_not_blank

Queries = Annotated[list[str], BeforeValidator(check_text_list)]


class GoogleTranslateRequest(RequestFields):
    """Texts of one target language, as HTML unless `format` is "text"."""

    q: Queries = Field(
        min_length=1,
        description="A text, or a list; in a form or query the field is there once for each.",
        examples=[["Ich möchte ein Bier"]],
    )
    target: Annotated[EncodableText, AfterValidator(check_not_blank)] = Field(
        description="Language to translate to.", examples=["en"]
    )
    source: EncodableText | None = Field(
        default=None, description="Language of the texts; nothing: that of each is detected.", examples=["de"]
    )
    format: Annotated[Literal["html", "text"], BeforeValidator(lambda value: value or "html")] = Field(
        default="html", description="What the texts are.", examples=["text"]
    )
    model: EncodableText | None = Field(
        default=None, description="Accepted, and of no account: a pair has one model here.", examples=["nmt"]
    )


class GoogleDetectRequest(RequestFields):
    """Texts whose language is asked for."""

    q: Queries = Field(min_length=1, description="A text, or a list.", examples=[["Ich möchte ein Bier"]])


class GoogleTranslation(BaseModel):
    """One text."""

    translatedText: str = Field(description="The translation.", examples=["I want a beer"])  # noqa: N815
    detectedSourceLanguage: str | None = Field(  # noqa: N815
        default=None, description="Only without `source`.", examples=["de"]
    )


class GoogleTranslations(BaseModel):
    """In the order of the texts."""

    translations: list[GoogleTranslation] = Field(
        description="One for each text.", examples=[[{"translatedText": "I want a beer"}]]
    )


class GoogleTranslateAnswer(BaseModel):
    """As Google answers."""

    data: GoogleTranslations = Field(
        description="The translations.", examples=[{"translations": [{"translatedText": "I want a beer"}]}]
    )


class GoogleDetection(BaseModel):
    """A language that a text may be in."""

    language: str = Field(description="Code, among those that are loaded.", examples=["de"])
    confidence: float = Field(ge=0, le=1, description="0 to 1.", examples=[0.99])
    isReliable: bool = Field(description="Always false; Google no longer fills it in.", examples=[False])  # noqa: N815


class GoogleDetections(BaseModel):
    """In the order of the texts."""

    detections: list[list[GoogleDetection]] = Field(
        description="A list of one for each text.",
        examples=[[[{"language": "de", "confidence": 0.99, "isReliable": False}]]],
    )


class GoogleDetectAnswer(BaseModel):
    """As Google answers."""

    data: GoogleDetections = Field(
        description="The detections.",
        examples=[{"detections": [[{"language": "de", "confidence": 0.99, "isReliable": False}]]}],
    )


class GoogleLanguage(BaseModel):
    """A language that some loaded model reads or writes."""

    language: str = Field(description="Code.", examples=["de"])
    name: str | None = Field(default=None, description="English name, only with `target`.", examples=["German"])


class GoogleLanguages(BaseModel):
    """Sorted by code."""

    languages: list[GoogleLanguage] = Field(description="All of them.", examples=[[{"language": "de"}]])


class GoogleLanguagesAnswer(BaseModel):
    """As Google answers."""

    data: GoogleLanguages = Field(description="The languages.", examples=[{"languages": [{"language": "de"}]}])
