"""The fields of POST /translate_file and POST /suggest."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, InstanceOf, WithJsonSchema

from app.api.fields import KeyField, SoundText, filled, refusal
from app.api.multipart import Upload
from app.api.schemas.translation import TranslationOptions


def _a_file(value: object) -> object:
    if not isinstance(value, Upload):
        raise refusal("is no file; send it as a part of the form that has a file name, as curl -F file=@NAME does.")
    return value


class OneFile(BaseModel):
    """A form with a file."""

    model_config = ConfigDict(strict=True)

    file: Annotated[
        InstanceOf[Upload],
        BeforeValidator(_a_file),
        WithJsonSchema({"type": "string", "contentMediaType": "application/octet-stream"}),
    ] = Field(
        description="The file; the end of its name says what it is, and GET /frontend/settings what is taken.",
        examples=["letter.txt"],
    )


class TranslateFileRequest(TranslationOptions, OneFile):
    """One file. `format` is its own and need not be said."""

    api_key: KeyField = None


class TranslateFileAnswer(BaseModel):
    """Where the translated file is."""

    translatedFileUrl: str = Field(  # noqa: N815
        description="Address of the translated file, which whoever has it can fetch for a while.",
        examples=["http://127.0.0.1:8000/download_file/6Qn1mS0dO8pYkq2Wn0C7J3m5Lx4Vh9tB2aZrKe8uFgI.txt"],
    )


class SuggestRequest(BaseModel):
    """A better translation."""

    model_config = ConfigDict(strict=True)

    q: Annotated[SoundText, AfterValidator(filled)] = Field(description="The text.", examples=["Ich möchte ein Bier"])
    s: Annotated[SoundText, AfterValidator(filled)] = Field(
        description="What its translation should be.", examples=["I would like a beer"]
    )
    source: SoundText = Field(description='Language code of the text, or "auto".', examples=["de"])
    target: SoundText = Field(description="Language code of the translation.", examples=["en"])
    api_key: KeyField = None


class SuggestAnswer(BaseModel):
    """It is kept."""

    success: bool = Field(default=True, description="Always true.", examples=[True])
