"""The fields of Google's Translation API v2.

https://cloud.google.com/translate/docs/reference/rest/v2/translate"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from app.api.deepl.schemas import check_text_list
from app.api.field_types import EncodableText, check_not_blank

Queries = Annotated[list[str], BeforeValidator(check_text_list)]


class GoogleTranslateRequest(BaseModel):
    """Texts of one target language, as HTML unless `format` is "text"."""

    model_config = ConfigDict(strict=True)

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


class GoogleDetectRequest(BaseModel):
    """Texts whose language is asked for."""

    model_config = ConfigDict(strict=True)

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


class GoogleFault(BaseModel):
    """What is wrong."""

    code: int = Field(description="The status.", examples=[400])
    message: str = Field(
        description="One sentence: what is wrong, where the limit is, and the way out.",
        examples=["There is no model for de → fr here. Loaded pairs: de → en, en → es."],
    )
    errors: list[dict[str, Any]] = Field(
        description="The same once more, as clients of version 2 read it.",
        examples=[[{"message": "There is no model into fr here.", "domain": "global", "reason": "invalid"}]],
    )
    status: str = Field(description="Google's name of the status.", examples=["INVALID_ARGUMENT"])


class GoogleError(BaseModel):
    """The body of every error of this family."""

    error: GoogleFault = Field(
        description="The status, and what is wrong.",
        examples=[{"code": 400, "message": "No.", "errors": [], "status": "INVALID_ARGUMENT"}],
    )
