"""DeepL's fields of glossaries: of one pair (/v2) and of many (/v3)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from app.api.fields import SoundText, refusal
from app.storage.glossaries import Dictionary, Glossary
from app.storage.terms import TermsFormat, parsed

_INDEXED = re.compile(r"dictionaries\[(\d{1,3})\]\.(\w{1,20})")  # as DeepL's Node client writes a list into a form


def _code(value: Any) -> Any:
    return value.strip().lower() if isinstance(value, str) else value


def _entries_format(value: Any) -> Any:
    return value.strip().lower() if isinstance(value, str) else value


Code = Annotated[SoundText, BeforeValidator(_code)]


class DeepLDictionary(BaseModel):
    """The terms of one pair."""

    model_config = ConfigDict(strict=True)

    source_lang: Code = Field(description="Language of the source terms; regions are of no account.", examples=["de"])
    target_lang: Code = Field(description="Language of the target terms.", examples=["en"])
    entries: SoundText = Field(
        description="A line for each term: what it is, a tab or a comma, and what it becomes.", examples=["Bier\tale"]
    )
    entries_format: Annotated[TermsFormat, BeforeValidator(_entries_format)] = Field(
        default="tsv", description='"tsv", or "csv" as RFC 4180 has it.', examples=["tsv"]
    )

    @field_validator("source_lang", "target_lang")
    @classmethod
    def _something(cls, value: str) -> str:
        if not 1 <= len(value) <= 35:
            raise refusal("is no language code; send one as GET /v2/glossary-language-pairs lists them.")
        return value

    @model_validator(mode="after")
    def _two_languages(self) -> Self:
        if self.source_lang == self.target_lang:
            raise refusal(f"has {self.source_lang} twice; a glossary is for two languages.")
        return self

    @property
    def stored(self) -> Dictionary:
        return Dictionary(self.source_lang, self.target_lang, parsed(self.entries, self.entries_format))


class DeepLGlossaryRequest(DeepLDictionary):
    """A glossary of one pair."""

    name: SoundText = Field(description="What to call it.", examples=["Pub"])


def listed(fields: Any) -> Any:
    """`dictionaries[0].source_lang` of a form as the field of an object in a list."""
    if not isinstance(fields, Mapping) or "dictionaries" in fields:
        return fields
    found: dict[int, dict[str, Any]] = {}
    for name, value in fields.items():
        if match := _INDEXED.fullmatch(str(name)):
            found.setdefault(int(match[1]), {})[match[2]] = value
    return {**fields, "dictionaries": [found[index] for index in sorted(found)]} if found else fields


class DeepLMultilingualRequest(BaseModel):
    """A glossary of many pairs. In a form: dictionaries[0].source_lang and so on."""

    model_config = ConfigDict(strict=True)

    name: SoundText = Field(description="What to call it.", examples=["Pub"])
    dictionaries: list[DeepLDictionary] = Field(
        min_length=1,
        description="One for each pair.",
        examples=[[{"source_lang": "de", "target_lang": "en", "entries": "Bier\tale", "entries_format": "tsv"}]],
    )

    _listed = model_validator(mode="before")(listed)


class DeepLMultilingualChange(BaseModel):
    """What is to be changed; what is left out stays."""

    model_config = ConfigDict(strict=True)

    name: SoundText | None = Field(default=None, description="What to call it from now on.", examples=["Inn"])
    dictionaries: list[DeepLDictionary] = Field(
        default_factory=list,
        description="Terms that are there are changed, new ones are added, the others stay.",
        examples=[[{"source_lang": "de", "target_lang": "en", "entries": "Wirt\thost", "entries_format": "tsv"}]],
    )

    _listed = model_validator(mode="before")(listed)


class DeepLDictionaryInfo(BaseModel):
    """How much is in a dictionary."""

    source_lang: str = Field(description="Language of the source terms.", examples=["de"])
    target_lang: str = Field(description="Language of the target terms.", examples=["en"])
    entry_count: int = Field(description="How many terms.", examples=[1])

    @classmethod
    def of(cls, dictionary: Dictionary) -> Self:
        return cls(source_lang=dictionary.source, target_lang=dictionary.target, entry_count=len(dictionary.entries))


class DeepLGlossary(DeepLDictionaryInfo):
    """A glossary of one pair."""

    glossary_id: str = Field(description="Its id.", examples=["559192ed-8e23-4b3c-b7a3-2fa1c6f5a9a2"])
    name: str = Field(description="Its name.", examples=["Pub"])
    ready: bool = Field(description="Always: it can be used at once.", examples=[True])
    creation_time: str = Field(description="When it was made.", examples=["2026-11-22T12:00:00.000000Z"])

    @classmethod
    def shown(cls, glossary: Glossary) -> Self:
        (only,) = glossary.dictionaries
        return cls(
            **DeepLDictionaryInfo.of(only).model_dump(),
            glossary_id=glossary.id,
            name=glossary.name,
            ready=True,
            creation_time=_time(glossary),
        )


class DeepLGlossaries(BaseModel):
    """All of yours that have one pair."""

    glossaries: list[DeepLGlossary] = Field(description="The oldest first.", examples=[[]])


class DeepLMultilingual(BaseModel):
    """A glossary of many pairs."""

    glossary_id: str = Field(description="Its id.", examples=["559192ed-8e23-4b3c-b7a3-2fa1c6f5a9a2"])
    name: str = Field(description="Its name.", examples=["Pub"])
    dictionaries: list[DeepLDictionaryInfo] = Field(
        description="One for each pair.", examples=[[{"source_lang": "de", "target_lang": "en", "entry_count": 1}]]
    )
    creation_time: str = Field(description="When it was made.", examples=["2026-11-22T12:00:00.000000Z"])

    @classmethod
    def shown(cls, glossary: Glossary) -> Self:
        return cls(
            glossary_id=glossary.id,
            name=glossary.name,
            dictionaries=[DeepLDictionaryInfo.of(each) for each in glossary.dictionaries],
            creation_time=_time(glossary),
        )


class DeepLMultilinguals(BaseModel):
    """All of yours."""

    glossaries: list[DeepLMultilingual] = Field(description="The oldest first.", examples=[[]])


class DeepLEntries(BaseModel):
    """The terms of one pair."""

    dictionaries: list[DeepLDictionary] = Field(
        description="One.",
        examples=[[{"source_lang": "de", "target_lang": "en", "entries": "Bier\tale", "entries_format": "tsv"}]],
    )


class DeepLPair(BaseModel):
    """One pair of languages."""

    source_lang: str = Field(description="From this language.", examples=["de"])
    target_lang: str = Field(description="Into this one.", examples=["en"])


class DeepLPairs(BaseModel):
    """What glossaries can be for."""

    supported_languages: list[DeepLPair] = Field(
        description="Every loaded pair.", examples=[[{"source_lang": "de", "target_lang": "en"}]]
    )


def _time(glossary: Glossary) -> str:
    """With its microseconds always: DeepL's Python client reads no time without."""
    return glossary.created.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
