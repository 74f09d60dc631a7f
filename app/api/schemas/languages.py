"""LibreTranslate's fields for detection and for frontends."""

from __future__ import annotations

from pydantic import BaseModel, Field

from app.api.fields import KeyField
from app.api.schemas.translation import Texts


class DetectRequest(Texts):
    """One text, or several that are ranked together."""

    api_key: KeyField = None


class NamedCode(BaseModel):
    """A language as a menu shows it."""

    code: str = Field(description='Language code, or "auto".', examples=["en"])
    name: str = Field(description="English name.", examples=["English"])


class FrontendLanguages(BaseModel):
    """What is chosen at first."""

    source: NamedCode = Field(description="To translate from.", examples=[{"code": "auto", "name": "Auto Detect"}])
    target: NamedCode = Field(description="To translate to.", examples=[{"code": "en", "name": "English"}])


class FrontendSettings(BaseModel):
    """What a page needs to know of this server."""

    charLimit: int = Field(description="Characters (code points) of one text.", examples=[100_000])  # noqa: N815
    frontendTimeout: int = Field(  # noqa: N815
        description="Milliseconds that a page waits after the last key before it translates.", examples=[500]
    )
    apiKeys: bool = Field(description="Whether keys are known here.", examples=[False])  # noqa: N815
    keyRequired: bool = Field(description="Whether nobody is answered without a key.", examples=[False])  # noqa: N815
    suggestions: bool = Field(description="Whether POST /suggest is switched on.", examples=[False])
    filesTranslation: bool = Field(description="Whether POST /translate_file is switched on.", examples=[True])  # noqa: N815
    supportedFilesFormat: list[str] = Field(  # noqa: N815
        description="Extensions of the files that it takes.", examples=[[".txt", ".srt", ".html", ".docx", ".odt"]]
    )
    language: FrontendLanguages = Field(
        description="What a page shows before anybody has chosen.",
        examples=[
            {"source": {"code": "auto", "name": "Auto Detect"}, "target": {"code": "en", "name": "English"}},
        ],
    )
