"""DeepL's fields of documents."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from app.api.fields import SoundText, filled, refusal
from app.api.schemas.deepl import Code, word
from app.api.schemas.files import OneFile


class DeepLDocumentRequest(OneFile):
    """One file."""

    target_lang: Annotated[SoundText, AfterValidator(filled)] = Field(
        description="Language to translate to.", examples=["EN-GB"]
    )
    source_lang: Code = Field(
        default=None, description="Language of the file; without it, it is detected.", examples=["DE"]
    )
    glossary_id: Code = Field(
        default=None, description="A stored glossary of yours; needs source_lang.", examples=[None]
    )
    formality: Annotated[
        Literal["default", "more", "less", "prefer_more", "prefer_less"] | None, BeforeValidator(word)
    ] = Field(default=None, description="As of texts.", examples=["default"])
    filename: SoundText | None = Field(
        default=None, description="Name of the file, where the form's part has none.", examples=["letter.docx"]
    )
    output_format: Code = Field(default=None, description="Refused unless it is the file's own.", examples=["docx"])

    @field_validator("formality")
    @classmethod
    def _only_preferred(cls, value: str | None) -> str | None:
        if value in ("more", "less"):
            raise refusal(f'is "{value}", but these models have no formality; send "prefer_{value}" or leave it out.')
        return value


class DeepLDocument(BaseModel):
    """With both of these the file is asked for."""

    document_id: str = Field(description="Its id.", examples=["04DE5AD98A02647D83285A36021911C6"])
    document_key: str = Field(description="Its key; nobody gets at the file without it.", examples=["0CB0054F1C132C16"])


class DeepLDocumentKey(BaseModel):
    """Whose file it is."""

    model_config = ConfigDict(strict=True)

    document_key: SoundText = Field(description="As POST /v2/document gave it.", examples=["0CB0054F1C132C16"])


class DeepLDocumentStatus(BaseModel):
    """How far it is."""

    document_id: str = Field(description="Its id.", examples=["04DE5AD98A02647D83285A36021911C6"])
    status: Literal["queued", "translating", "done", "error"] = Field(description="How far.", examples=["done"])
    billed_characters: int | None = Field(
        default=None, description="Once it is done: characters of its texts.", examples=[1337]
    )
    error_message: str | None = Field(
        default=None, description="What went wrong, in a sentence.", examples=["The file cannot be read as .docx."]
    )
