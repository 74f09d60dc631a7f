"""The fields of https://cloud.google.com/translate/docs/reference/rest/v2/translate."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import BaseModel, BeforeValidator

from app.api.deepl.schemas import TextList
from app.api.errors import ErrorAnswer
from app.api.field_types import EncodableText, NonBlankText, doc, example_of, optional
from app.api.request_fields import Examples, RequestFields
from app.text.language_codes import google_code
from app.text.language_detection import Detection

_STATUS_NAMES = {
    400: ("INVALID_ARGUMENT", "invalid"),
    401: ("UNAUTHENTICATED", "authError"),
    403: ("PERMISSION_DENIED", "forbidden"),
    404: ("NOT_FOUND", "notFound"),
    429: ("RESOURCE_EXHAUSTED", "rateLimitExceeded"),
    500: ("INTERNAL", "backendError"),
    503: ("UNAVAILABLE", "backendError"),
    504: ("DEADLINE_EXCEEDED", "backendError"),
}


class GoogleTranslateRequest(RequestFields):
    """Texts of one target language, as HTML unless `format` is "text"."""

    examples: ClassVar[Examples] = {
        "A text": {"q": "Ich möchte ein Bier", "target": "en", "format": "text"},
        "HTML": {"q": ["<b>hallo</b> welt", "ich möchte ein bier"], "source": "de", "target": "en"},
    }

    q: TextList = doc(
        "A text, or a list; in a form or query the field is there once for each.", ["Ich möchte ein Bier"], min_length=1
    )
    target: NonBlankText = doc("Language to translate to.", "en")
    source: EncodableText | None = optional("Language of the texts; nothing: that of each is detected.", "de")
    format: Annotated[Literal["html", "text"], BeforeValidator(lambda value: value or "html")] = doc(
        "What the texts are.", "text", default="html"
    )
    model: EncodableText | None = optional("Accepted, and of no account: a pair has one model here.", "nmt")


class GoogleDetectRequest(RequestFields):
    """Texts whose language is asked for."""

    examples: ClassVar[Examples] = {"Two texts": {"q": ["Ich möchte ein Bier", "I would like a beer"]}}

    q: TextList = doc("A text, or a list.", ["Ich möchte ein Bier"], min_length=1)


class GoogleTranslation(BaseModel):
    """One text."""

    translatedText: str = doc("The translation.", "I want a beer")
    detectedSourceLanguage: str | None = optional("Only without `source`.", "de")


class GoogleTranslations(BaseModel):
    """In the order of the texts."""

    translations: list[GoogleTranslation] = doc("One for each text.", [{"translatedText": "I want a beer"}])


class GoogleTranslateAnswer(BaseModel):
    """As Google answers."""

    data: GoogleTranslations = doc("The translations.", example_of(GoogleTranslations))


class GoogleDetection(BaseModel):
    """A language that a text may be in."""

    language: str = doc("Code of the language.", "de")
    confidence: float = doc("0 to 1.", 0.99, ge=0, le=1)
    isReliable: bool = doc("Always false; Google no longer fills it in.", False)

    @classmethod
    def of(cls, detection: Detection) -> Self:
        confidence = round(detection.confidence / 100, 3)
        return cls(language=google_code(detection.language), confidence=confidence, isReliable=False)


class GoogleDetections(BaseModel):
    """In the order of the texts."""

    detections: list[list[GoogleDetection]] = doc("A list of one for each text.", [[example_of(GoogleDetection)]])


class GoogleDetectAnswer(BaseModel):
    """As Google answers."""

    data: GoogleDetections = doc("The detections.", example_of(GoogleDetections))


class GoogleLanguage(BaseModel):
    """A language that some loaded model reads or writes."""

    language: str = doc("Code.", "de")
    name: str | None = optional("English name, only with `target`.", "German")


class GoogleLanguages(BaseModel):
    """Sorted by code."""

    languages: list[GoogleLanguage] = doc("All of them.", [{"language": "de"}])


class GoogleLanguagesAnswer(BaseModel):
    """As Google answers."""

    data: GoogleLanguages = doc("The languages.", example_of(GoogleLanguages))


class GoogleFault(BaseModel):
    """What is wrong."""

    code: int = doc("The status.", 400)
    message: str = doc(
        "One sentence: what is wrong, where the limit is, and the way out.",
        "There is no model for de → fr here. Loaded pairs: de → en, en → es.",
    )
    errors: list[dict[str, object]] = doc(
        "The same once more, as clients of version 2 read it.",
        [{"message": "There is no model into fr here.", "domain": "global", "reason": "invalid"}],
    )
    status: str = doc("Google's name of the status.", "INVALID_ARGUMENT")


class GoogleError(BaseModel):
    """The body of every error of this family."""

    error: GoogleFault = doc(
        "The status, and what is wrong.", {"code": 400, "message": "No.", "errors": [], "status": "INVALID_ARGUMENT"}
    )

    @classmethod
    def from_error(cls, status: int, error: ErrorAnswer) -> Self:
        name, reason = _STATUS_NAMES.get(status, _STATUS_NAMES[500 if status >= 500 else 400])
        again: dict[str, object] = {"message": error.error, "domain": "global", "reason": reason}
        return cls(error=GoogleFault(code=status, message=error.error, errors=[again], status=name))
