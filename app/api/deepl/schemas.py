"""DeepL's fields: texts, documents, glossaries, languages and usage, as JSON or as a form; and its errors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from msgspec import structs
from pydantic import AfterValidator, BeforeValidator, model_validator

from app.api.errors import ErrorAnswer
from app.api.libretranslate.schemas import OneFile
from app.api.request_fields import (
    EncodableText,
    Examples,
    NonBlankText,
    RequestFields,
    check_texts,
    doc,
    example_of,
    field_error,
    optional,
    unsupported,
)
from app.api.responses import Answer
from app.storage.document_job_store import DocumentJob
from app.storage.glossary_store import MOST_DICTIONARIES, Dictionary, EntriesFormat, Glossary, parse_entries

_UNHONOURED = unsupported(
    "is not empty, and this server cannot honour it: the translation would not be what you ask for; leave it out."
)
_MISSING = unsupported("names something that this server does not have; leave it out.")
_FLAGS = {"1": True, "true": True, "0": False, "false": False, 1: True, 0: False}
ERROR_SENTENCE: Any = doc(
    "One sentence: what is wrong, where the limit is, and the way out.",
    "Value for 'target_lang' not supported. There is no model for DE → FR here. Loaded pairs: de → en, en → es.",
)


class DeepLError(Answer):
    """The body of every error of this family."""

    message: str = ERROR_SENTENCE

    @classmethod
    def from_error(cls, status: int, error: ErrorAnswer) -> Self:
        """DeepL's clients show the message of 400 alone, and know any other error by its status. Their users look for
        the API's own sentence about a language that it does not have."""
        language = error.code == "unknown_pair" and error.field in ("source", "target")
        return cls(message=f"Value for '{error.field}_lang' not supported. {error.error}" if language else error.error)


def _check_text_list(value: object) -> list[str]:
    """A list of texts, or one text, as a form with one and old clients send it."""
    texts = check_texts(value, "a list of texts")
    return [texts] if isinstance(texts, str) else texts


def _parse_names(value: object) -> list[str]:
    """A list of names, each item of which may hold several with commas, as forms do."""
    if value is None:
        return []
    return [name.strip() for item in _check_text_list(value) for name in item.split(",") if name.strip()]


def _parse_flag(value: object) -> object:
    key = value.strip().lower() if isinstance(value, str) else value
    return _FLAGS.get(key, value) if isinstance(key, str | int) else value


def _parse_word(value: object) -> object:
    """One of a few words, in any case; an empty field of a form is one left out."""
    return value.strip().lower() or None if isinstance(value, str) else value


def _check_formality(value: str | None) -> str | None:
    if value in ("more", "less"):
        raise field_error(f'is "{value}", but these models have no formality; send "prefer_{value}" or leave it out.')
    return value


Formality = Annotated[
    Literal["default", "more", "less", "prefer_more", "prefer_less"] | None,
    BeforeValidator(_parse_word),
    AfterValidator(_check_formality),
]
TextList = Annotated[list[str], BeforeValidator(_check_text_list)]
Flag = Annotated[bool, BeforeValidator(_parse_flag)]
Names = Annotated[list[EncodableText], BeforeValidator(_parse_names)]
Code = Annotated[  # an empty field of a form is one left out
    EncodableText | None, BeforeValidator(lambda value: value.strip() or None if isinstance(value, str) else value)
]
Split = Annotated[  # 0 and 1 come as numbers, too
    Literal["0", "1", "nonewlines"] | None,
    BeforeValidator(lambda value: str(int(value)) if isinstance(value, int) else _parse_word(value)),
]


class GlossaryNames(RequestFields):
    """The glossaries of a request."""

    glossary_id: Code = optional("A stored glossary of yours (POST /v3/glossaries); needs source_lang.", "")
    glossary_ids: Names = doc(
        "Several of them, in a form with commas between; where two have a term, the earlier wins.",
        [],
        default_factory=list,
        max_length=5,
    )

    @property
    def glossaries(self) -> list[str]:
        return [self.glossary_id, *self.glossary_ids] if self.glossary_id else self.glossary_ids


class DeepLTranslateRequest(GlossaryNames):
    """Texts of one target language. What this server cannot do and what would change the translation is refused."""

    examples: ClassVar[Examples] = {
        "A text": {"text": ["Ich möchte ein Bier"], "target_lang": "EN-GB"},
        "Tags": {
            "text": ["ich möchte <b>ein bier</b>"],
            "source_lang": "DE",
            "target_lang": "EN-GB",
            "tag_handling": "html",
        },
    }

    charged_fields = ("texts",)

    texts: TextList = doc(
        "Texts to translate, each on its own. In a form the field is there once for each.",
        ["Ich möchte ein Bier"],
        min_length=1,
        alias="text",
    )
    target: NonBlankText = doc("Language to translate to; EN-GB and EN-US are EN here.", "EN-GB", alias="target_lang")
    source: Code = optional("Language of the texts; without it that of each is detected.", "DE", alias="source_lang")
    context: EncodableText | None = optional(
        "Text around the texts. Accepted and not used: these models read a sentence at a time.", "In a pub."
    )
    split_sentences: Split = optional(
        '"0" translates each text as one sentence, as far as it fits the model; all else splits it.'
        " Line ends stay in any case.",
        "1",
    )
    preserve_formatting: Flag = doc(
        "Accepted: the layout around sentences stays as it is anyway.", False, default=False
    )
    formality: Formality = optional(
        "These models have no formality: default, prefer_more and prefer_less are accepted.", "default"
    )
    tag_handling: Annotated[Literal["html", "xml"] | None, BeforeValidator(_parse_word)] = optional(
        "Texts hold tags, which stay in their place.", None
    )
    tag_handling_version: Annotated[Literal["v1", "v2"] | None, BeforeValidator(_parse_word)] = optional(
        "Accepted; this server has one way to handle tags.", "v2"
    )
    outline_detection: Flag = doc(
        "Whether the places of elements say which of them divide texts: those among elements alone do, those beside"
        " text do not. If false, only `splitting_tags` do.",
        True,
        default=True,
    )
    splitting_tags: Names = doc(
        "Names of elements that always divide texts; needs tag_handling.", [], default_factory=list, max_length=100
    )
    non_splitting_tags: Names = doc(
        "Names of elements that never divide texts; needs tag_handling.", [], default_factory=list, max_length=100
    )
    ignore_tags: Names = doc(
        "Names of elements whose content stays as it is; needs tag_handling.", [], default_factory=list, max_length=100
    )
    model_type: Annotated[
        Literal["quality_optimized", "latency_optimized", "prefer_quality_optimized"] | None,
        BeforeValidator(_parse_word),
    ] = optional("Accepted: a pair has one model here. `model_type_used` then repeats it.", "quality_optimized")
    show_billed_characters: Flag = doc("Accepted: they are always shown.", True, default=True)
    style_id: Annotated[Code, _MISSING] = optional("Refused: there are no styles here.", None)
    translation_memory_id: Annotated[Code, _MISSING] = optional(
        "Refused: there are no translation memories here.", None
    )
    custom_instructions: Annotated[
        list[str], BeforeValidator(lambda value: [] if value is None else _check_text_list(value)), _UNHONOURED
    ] = doc("Refused: these models follow no instructions.", [], default_factory=list)

    @model_validator(mode="after")
    def _what_goes_together(self) -> DeepLTranslateRequest:
        if self.glossaries and self.source is None:
            raise field_error("has a glossary without source_lang; say which language the texts are in.")
        for field in ("splitting_tags", "non_splitting_tags", "ignore_tags"):
            if getattr(self, field) and self.tag_handling is None:
                raise field_error(f'has {field} without tag_handling; send "tag_handling": "xml" or "html" too.')
        return self


class DeepLTranslation(Answer):
    """One text, translated."""

    detected_source_language: str = doc(
        "What the text was taken for, or source_lang: in capitals, without a region.", "DE"
    )
    text: str = doc("The translation.", "I want a beer")
    billed_characters: int = doc("Characters (code points) of the text.", 19)
    model_type_used: str | None = optional("Only where `model_type` was sent.", "quality_optimized")
    finish_reason: Literal["length", "repetition"] | None = optional(
        "Only where a model's limit cut the translation, or it repeats itself. Not of DeepL's form.", "length"
    )


class DeepLTranslateAnswer(Answer):
    """In the order of the texts."""

    translations: list[DeepLTranslation] = doc(
        "One for each text.", [{"detected_source_language": "DE", "text": "I want a beer", "billed_characters": 19}]
    )


class DeepLLanguage(Answer):
    """One language that some loaded model reads (type=source) or writes (type=target)."""

    language: str = doc("Code, in capitals.", "EN-GB")
    name: str = doc("English name.", "English (British)")
    supports_formality: bool | None = optional("Only of targets: never, these models have no formality.", False)


class DeepLUsage(Answer):
    """Of this key."""

    character_count: int = doc("Characters translated.", 19)
    character_limit: int = doc(
        "The quota; 1,000,000,000,000, as DeepL says it, where there is none.", 1_000_000_000_000
    )


class DeepLDocumentRequest(GlossaryNames, OneFile):
    """One file."""

    target_lang: NonBlankText = doc("Language to translate to.", "EN-GB")
    source_lang: Code = optional("Language of the file; without it, it is detected.", "DE")
    formality: Formality = optional("As of texts.", "default")
    filename: EncodableText | None = optional("Name of the file, where the form's part has none.", "letter.docx")
    output_format: Code = optional("Refused unless it is the file's own.", "")


class DeepLDocument(Answer):
    """The id and the key with which a client asks for the document."""

    document_id: str = doc("Its id.", "04DE5AD98A02647D83285A36021911C6")
    document_key: str = doc("Its key; nobody gets at the file without it.", "0CB0054F1C132C16")


class DeepLDocumentKey(RequestFields):
    """The key of the document."""

    examples: ClassVar[Examples] = {"A key": {"document_key": "0CB0054F1C132C16"}}

    document_key: EncodableText = doc("As POST /v2/document gave it.", "0CB0054F1C132C16")


class DeepLDocumentStatus(Answer):
    """How far it is."""

    document_id: str = doc("Its id.", "04DE5AD98A02647D83285A36021911C6")
    status: Literal["queued", "translating", "done", "error"] = doc("How far.", "done")
    seconds_remaining: int | None = optional("While it is translated: an estimate, renewed every few seconds.", 20)
    billed_characters: int | None = optional("Once it is done: characters of its texts.", 1337)
    error_message: str | None = optional("What went wrong, in a sentence.", "The file cannot be read as .docx.")

    @classmethod
    def of(cls, job: DocumentJob) -> Self:
        characters = job.characters if job.state == "done" else None
        return cls(
            document_id=job.id,
            status=job.state,
            seconds_remaining=job.seconds_remaining if job.state == "translating" else None,
            billed_characters=characters,
            error_message=job.message or None,
        )


_INDEXED = re.compile(r"dictionaries\[(\d{1,3})\]\.(\w{1,20})")  # as DeepL's Node client writes a list into a form


def _lower(value: object) -> object:
    return value.strip().lower() if isinstance(value, str) else value


def _check_code(value: str) -> str:
    if not 1 <= len(value) <= 35:
        raise field_error("is no language code; send one as GET /v2/glossary-language-pairs lists them.")
    return value


GlossaryCode = Annotated[EncodableText, BeforeValidator(_lower), AfterValidator(_check_code)]


_DICTIONARY: dict[str, object] = {"source_lang": "de", "target_lang": "en", "entries": "Bier\tale"}


class DeepLDictionary(RequestFields):
    """The terms of one pair."""

    examples: ClassVar[Examples] = {
        "Two terms": _DICTIONARY | {"entries": "Bier\tale\nWirt\thost", "entries_format": "tsv"}
    }

    source_lang: GlossaryCode = doc("Language of the source terms; regions are of no account.", "de")
    target_lang: GlossaryCode = doc("Language of the target terms.", "en")
    entries: EncodableText = doc(
        "A line for each term: what it is, a tab or a comma, and what it becomes.", "Bier\tale"
    )
    entries_format: Annotated[EntriesFormat, BeforeValidator(_lower)] = doc(
        '"tsv", or "csv" as RFC 4180 has it.', "tsv", default="tsv"
    )

    @model_validator(mode="after")
    def _two_languages(self) -> Self:
        if self.source_lang == self.target_lang:
            raise field_error(f"has {self.source_lang} twice; a glossary is for two languages.")
        return self

    @property
    def stored(self) -> Dictionary:
        return Dictionary(self.source_lang, self.target_lang, parse_entries(self.entries, self.entries_format))


class DeepLGlossaryRequest(DeepLDictionary):
    """A glossary of one pair."""

    examples: ClassVar[Examples] = {"A glossary": {"name": "Pub", **_DICTIONARY, "entries_format": "tsv"}}

    name: EncodableText = doc("What to call it.", "Pub")


class DeepLMultilingualChange(RequestFields):
    """What is to be changed; what is left out stays."""

    examples: ClassVar[Examples] = {
        "Another name": {"name": "Inn"},
        "More terms": {"dictionaries": [_DICTIONARY | {"entries": "Wirt\thost", "entries_format": "tsv"}]},
    }

    name: EncodableText | None = optional("What to call it from now on.", "Inn")
    dictionaries: list[DeepLDictionary] = doc(
        "Terms that are there are changed, new ones are added, the others stay.",
        [example_of(DeepLDictionary, entries="Wirt\thost")],
        default_factory=list,
        max_length=MOST_DICTIONARIES,
    )

    @model_validator(mode="before")
    @classmethod
    def _gather_dictionaries(cls, fields: object) -> object:
        """`dictionaries[0].source_lang` of a form as the field of an object in a list."""
        if not isinstance(fields, Mapping) or "dictionaries" in fields:
            return fields
        dictionaries: dict[int, dict[str, object]] = {}
        for name, value in fields.items():
            if match := _INDEXED.fullmatch(str(name)):
                dictionaries.setdefault(int(match[1]), {})[match[2]] = value
        gathered = [dictionaries[index] for index in sorted(dictionaries)]
        return {**fields, "dictionaries": gathered} if gathered else fields


class DeepLMultilingualRequest(DeepLMultilingualChange):
    """A glossary of many pairs. In a form: dictionaries[0].source_lang and so on."""

    examples: ClassVar[Examples] = {
        "A glossary": {"name": "Pub", "dictionaries": [_DICTIONARY | {"entries_format": "tsv"}]}
    }

    name: EncodableText = doc("What to call it.", "Pub")
    dictionaries: list[DeepLDictionary] = doc(
        "One for each pair.", [example_of(DeepLDictionary)], min_length=1, max_length=MOST_DICTIONARIES
    )


class DeepLDictionaryInfo(Answer):
    """How much is in a dictionary."""

    source_lang: str = doc("Language of the source terms.", "de")
    target_lang: str = doc("Language of the target terms.", "en")
    entry_count: int = doc("How many terms.", 1)

    @classmethod
    def from_dictionary(cls, dictionary: Dictionary) -> Self:
        return cls(source_lang=dictionary.source, target_lang=dictionary.target, entry_count=len(dictionary.entries))


class DeepLGlossary(DeepLDictionaryInfo):
    """A glossary of one pair."""

    glossary_id: str = doc("Its id.", "559192ed-8e23-4b3c-b7a3-2fa1c6f5a9a2")
    name: str = doc("Its name.", "Pub")
    ready: bool = doc("Always: it can be used at once.", True)
    creation_time: str = doc("When it was made.", "2026-11-22T12:00:00.000000Z")

    @classmethod
    def from_glossary(cls, glossary: Glossary) -> Self:
        (only,) = glossary.dictionaries
        info, made = structs.asdict(DeepLDictionaryInfo.from_dictionary(only)), _creation_time(glossary)
        return cls(**info, glossary_id=glossary.id, name=glossary.name, ready=True, creation_time=made)


class DeepLGlossaries(Answer):
    """All of yours that have one pair."""

    glossaries: list[DeepLGlossary] = doc("The oldest first.", [])


class DeepLMultilingual(Answer):
    """A glossary of many pairs."""

    glossary_id: str = doc("Its id.", "559192ed-8e23-4b3c-b7a3-2fa1c6f5a9a2")
    name: str = doc("Its name.", "Pub")
    dictionaries: list[DeepLDictionaryInfo] = doc("One for each pair.", [example_of(DeepLDictionaryInfo)])
    creation_time: str = doc("When it was made.", "2026-11-22T12:00:00.000000Z")

    @classmethod
    def from_glossary(cls, glossary: Glossary) -> Self:
        infos = [DeepLDictionaryInfo.from_dictionary(each) for each in glossary.dictionaries]
        made = _creation_time(glossary)
        return cls(glossary_id=glossary.id, name=glossary.name, dictionaries=infos, creation_time=made)


class DeepLMultilinguals(Answer):
    """All of yours."""

    glossaries: list[DeepLMultilingual] = doc("The oldest first.", [])


class DeepLDictionaryAnswer(Answer):
    """The terms of one pair."""

    source_lang: str = doc("Language of the source terms.", "de")
    target_lang: str = doc("Language of the target terms.", "en")
    entries: str = doc("A line for each term: what it is, a tab, and what it becomes.", "Bier\tale")
    entries_format: Literal["tsv"] = doc('Always "tsv".', "tsv", default="tsv")


class DeepLEntries(Answer):
    """The terms of one pair."""

    dictionaries: list[DeepLDictionaryAnswer] = doc("One.", [example_of(DeepLDictionaryAnswer)])


class DeepLPair(Answer):
    """One pair of languages."""

    source_lang: str = doc("From this language.", "de")
    target_lang: str = doc("Into this one.", "en")


class DeepLPairs(Answer):
    """What glossaries can be for."""

    supported_languages: list[DeepLPair] = doc("Every loaded pair.", [example_of(DeepLPair)])


def _creation_time(glossary: Glossary) -> str:
    """Always with microseconds: DeepL's Python client reads no time without."""
    return glossary.created.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
