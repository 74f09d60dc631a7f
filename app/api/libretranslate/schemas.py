"""LibreTranslate's fields, and ours beside them: optional, and answered only on request."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import (
    AfterValidator,
    BeforeValidator,
    InstanceOf,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from app.api.request_body import Upload
from app.api.request_fields import (
    EncodableText,
    Examples,
    KeyField,
    RequestFields,
    check_encodable,
    check_texts,
    describe_value,
    doc,
    example_of,
    field_error,
    not_empty,
    optional,
    parse_bool,
    parse_number,
    quotable,
)
from app.api.responses import Answer, WrittenTokenAnswer, copied, round_nats, usage_fields
from app.engine.interface import (
    AlignedWord,
    FinishReason,
    Notice,
    NoticeCode,
    TranslationDetail,
    TranslationResult,
)
from app.errors import InvalidRequest
from app.storage.glossary_store import add_entry, parse_entries
from app.text.language_detection import Detection

MAX_GLOSSARY_TERMS = 1000
MAX_TERM_CHARACTERS = 200
MAX_GLOSSARY_BYTES = 2_000_000  # of a file: more than so many terms of so many characters take
_GLOSSARY_TAKES = 'it takes an object such as {"Bier": "ale"}, source terms and what each becomes, or a glossary\'s id.'

LanguageCode = Annotated[
    EncodableText,
    not_empty("send a language code as GET /languages lists them.", blank=True),
    AfterValidator(str.strip),
]
Count = Annotated[int, BeforeValidator(parse_number)]
Flag = Annotated[bool, BeforeValidator(parse_bool)]


class Texts(RequestFields):
    """One text, or several at once."""

    charged_fields: ClassVar[tuple[str, ...]] = ("q",)

    q: Annotated[str | list[str], BeforeValidator(check_texts), not_empty("send a text or a list of texts.")] = doc(
        "The text, or a list of texts.", "Ich möchte ein Bier"
    )

    @property
    def texts(self) -> list[str]:
        return [self.q] if isinstance(self.q, str) else self.q


class TranslationFields(RequestFields):
    """Between which languages, by which model, and how it searches. In forms and query parameters numbers are their
    digits, true and false their names, and an object its JSON. Unknown fields are ignored, but for misspelt names of
    these, and other programs' options."""

    blank_fields = frozenset(
        {"format", "model", "alternatives", "beam_size", "length_penalty", "max_new_tokens", "no_repeat_ngram_size"}
        | {"repetition_penalty", "split", "stream", "return"}
    )

    source: LanguageCode = doc(
        'Language code of the text, in any case, or "auto" to detect it among the languages that'
        " are translated to this target.",
        "de",
    )
    target: LanguageCode = doc("Language code to translate to, in any case.", "en")
    format: Literal["text", "html"] = doc(
        '"text", or "html": tags stay as they are, and what stands between them is translated.', "text", default="text"
    )
    model: EncodableText | None = optional(
        "Name of the translator, where several have this pair; by default the first by name. Not for pairs that need"
        " two models.",
        "everyday",
        min_length=1,
        max_length=200,
    )
    glossary: dict[str, str] | str | None = optional(
        "Source terms, and what each becomes in the translation: at most 1,000, of 200 characters each. Or"
        " the id of a glossary that this server keeps for you (POST /v3/glossaries). In a form of several parts also a"
        " file: such an object, or a table (CSV or TSV) with a source term and what it becomes in each line.",
        {"Bier": "ale"},
    )
    beam_size: Annotated[int | None, BeforeValidator(parse_number)] = optional(
        "Hypotheses that the beam search keeps; 1 is greedy. By default the server's own number.", 4, ge=1
    )
    length_penalty: Annotated[float | None, BeforeValidator(parse_number)] = optional(
        "Exponent of the length by which the beam search divides scores: above 1 favours long"
        " translations, 0 short ones. By default the server's own.",
        1.0,
        ge=0,
        le=5,
        allow_inf_nan=False,
    )
    max_new_tokens: Annotated[int | None, BeforeValidator(parse_number)] = optional(
        "Tokens at most in the translation of one sentence; what this cuts has the `finishReason`"
        ' "length". By default twice the tokens of the'
        " sentence and 20, and never more than the model takes.",
        256,
        ge=1,
    )
    no_repeat_ngram_size: Count = doc(
        "No run of so many tokens comes twice in the translation of one sentence; 0: off.", 0, default=0, ge=0, le=100
    )
    repetition_penalty: Annotated[float, BeforeValidator(parse_number)] = doc(
        "Divides the positive logits of tokens that were written before in a sentence, multiplies the others; 1 is"
        ' off. Only of greedy search: with "beam_size": 1.',
        1.0,
        default=1.0,
        ge=0.01,
        le=100,
    )
    split: Flag = doc(
        "Translate sentence by sentence; false: only what is too long for the model is split.", True, default=True
    )

    @model_validator(mode="after")
    def _penalty_without_beam(self) -> Self:
        has_beam = self.beam_size != 1 or bool(self.glossary) or bool(getattr(self, "alternatives", 0))
        if self.repetition_penalty != 1 and has_beam:
            raise field_error(
                'has "repetition_penalty", which a beam does not have: send "beam_size": 1 with it, and neither'
                " alternatives nor a glossary."
            )
        return self

    @field_validator("glossary", mode="before")
    @classmethod
    def _terms(cls, value: object) -> object:
        if isinstance(value, Upload):
            value = _uploaded_terms(value.content)
            if value == {}:
                raise field_error(f"has 0 terms; one request takes 1 to {MAX_GLOSSARY_TERMS:,}.")
        elif isinstance(value, str):
            value = _object(check_encodable(value))
        if value is None or isinstance(value, str):
            return value
        if not isinstance(value, dict):
            raise field_error(f"is {describe_value(value)}; {_GLOSSARY_TAKES}")
        if len(value) > MAX_GLOSSARY_TERMS:
            raise field_error(f"has {len(value):,} terms; one request takes {MAX_GLOSSARY_TERMS:,}.")
        terms: dict[str, str] = {}
        for source, target in value.items():
            if not isinstance(target, str):
                raise field_error(f'has {describe_value(target)} for "{quotable(source)}"; {_GLOSSARY_TAKES}')
            for term in (source, target):
                if len(check_encodable(term)) > MAX_TERM_CHARACTERS:
                    raise field_error(f"has a term of {len(term):,} characters; each may have {MAX_TERM_CHARACTERS}.")
            add_entry(terms, source, target, "glossary")
        return terms


def _object(text: str) -> object:
    """The object of a form's field; any other text is an id, and an empty field is one left out."""
    if not text.lstrip().startswith("{"):
        return text.strip() or None
    try:
        return json.loads(text, object_pairs_hook=_object_without_repeats)
    except (ValueError, RecursionError):
        raise field_error(f"is {describe_value(text)}, which is no JSON; {_GLOSSARY_TAKES}") from None


def _object_without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Repeated names of JSON would be lost in a dict."""
    if len(dict(pairs)) < len(pairs):
        raise InvalidRequest('"glossary" has a source term twice; leave one out.', field="glossary")
    return dict(pairs)


def _uploaded_terms(content: bytes) -> object:
    """The terms of a form's file: an object's JSON, or a table of two columns. A tab in the first line makes it a TSV,
    whatever the file is called."""
    if len(content) > MAX_GLOSSARY_BYTES:
        raise field_error(f"is a file of {len(content):,} bytes; a file of terms may have {MAX_GLOSSARY_BYTES:,}.")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise field_error('is a file that is not UTF-8; save it as UTF-8 (in Excel as "CSV UTF-8").') from None
    return _object(text) if text.lstrip().startswith("{") else parse_entries(text, None, "glossary")


_WANTED = get_args(TranslationDetail)
_ONE_TEXT = {
    "prefix": 'begins a translation, but "q" is a list; send its texts one at a time, or leave it out.',
    "stream": 'is true, but "q" is a list; stream one text at a time, or leave "stream" out.',
}
_TOKENS = [{"id": 41, "text": "I want", "logprob": -0.12}, {"id": 7, "text": " a beer", "logprob": -0.05}]


class TranslateRequest(TranslationFields, Texts):
    """One text, or several at once; each is translated, and its language detected, on its own."""

    examples: ClassVar[Examples] = {
        "A text": {"q": "Ich möchte ein Bier", "source": "de", "target": "en"},
        "Several texts": {"q": ["ich möchte ein bier", "hallo welt"], "source": "auto", "target": "en"},
        "HTML": {"q": "<p>ich möchte <b>ein bier</b></p>", "source": "de", "target": "en", "format": "html"},
        "A glossary": {"q": "ich möchte ein bier", "source": "de", "target": "en", "glossary": {"bier": "tea"}},
        "Alternatives and scores": {
            "q": "ich möchte ein bier",
            "source": "de",
            "target": "en",
            "alternatives": 2,
            "return": ["scores", "alignment"],
        },
        "A stream": {"q": "ich möchte ein bier", "source": "de", "target": "en", "stream": True},
    }

    alternatives: Count = doc("How many further translations of each text to return.", 0, default=0, ge=0)
    prefix: EncodableText = doc(
        "What the translation begins with, word for word; for a single text.", "I would like", default=""
    )
    stream: Flag = doc(
        "Send the translation as server-sent events while it is found; for a single text.", False, default=False
    )
    wanted: frozenset[TranslationDetail] = doc(
        'What to tell beside the text: any of "scores", "tokens" and "alignment", as a list, or with'
        " commas between them.",
        ["scores", "tokens", "alignment"],
        default=frozenset(),
        alias="return",
    )
    api_key: KeyField = None

    @field_validator("wanted", mode="before")
    @classmethod
    def _known(cls, value: object) -> object:
        names = [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else value
        if not isinstance(names, list):
            raise field_error(f'is {describe_value(names)}; it takes a list of "scores", "tokens" and "alignment".')
        for name in names:
            if name not in _WANTED:
                raise field_error(f'holds {describe_value(name)}; it takes "scores", "tokens" and "alignment".')
        return frozenset(names)

    @field_validator("prefix", "stream")
    @classmethod
    def _of_one_text(cls, value: str | bool, info: ValidationInfo) -> str | bool:
        if value and isinstance(info.data.get("q"), list):
            raise field_error(_ONE_TEXT[str(info.field_name)])
        return value


class DetectedLanguage(Answer):
    """What a text was taken for."""

    confidence: float = doc("0 to 100; 0 means that the text shows no language at all.", 99.9, ge=0, le=100)
    language: str = doc("Code of the language.", "de")


class AlignedWordAnswer(Answer):
    """A word of the translation, and the source word that the model read most while it wrote it. Places count code
    points of the two texts from 0; ends are exclusive."""

    target_start: int = doc("Where the word begins in the translation.", 7)
    target_end: int = doc("Where it ends there.", 11)
    source_start: int = doc("Where the source word begins in the text.", 15)
    source_end: int = doc("Where it ends there.", 19)
    weight: float = doc("The share of the model's attention that it had, 0 to 1.", 0.91)

    @classmethod
    def of(cls, word: AlignedWord) -> Self:
        """A float32's share has no more than six decimals."""
        return cls(**asdict(word) | {"weight": round(word.weight, 6)})


class NoticeAnswer(Answer):
    """Something that a reader of the translation should know. Places count code points of the text in `q` from 0; ends
    are exclusive."""

    code: NoticeCode = doc(
        '"unknown_words": one word that the model does not know; "invented_words": one word of the translation that its'
        ' training texts never had; "repetition": the translation goes round in circles;'
        ' "low_probability": the model is unsure of it; "dropped_sentences": with `split` false, the translation has'
        " fewer sentences than the text, and is much shorter;"
        ' "already_in_target_language": the text came back as it is;'
        ' "unsupported_language": so did this one, in a language that no model here reads;'
        ' "pivot": translated through a third language;'
        ' "translated_in_parts": the model loses a part of the sentence, around which its text was translated.',
        "unknown_words",
    )
    message: str = doc("One sentence for people.", "“Quokka” is no word that everyday was trained on.")
    start: int | None = optional("Where the place begins; left out where the notice has none.", 8)
    end: int | None = optional("Where it ends.", 14)
    models: list[str] | None = optional('Only of "pivot": the models used, in order.', None)
    word: str | None = optional('Only of "invented_words": the word, as the translation has it.', None)

    @classmethod
    def of(cls, notice: Notice) -> Self:
        models = list(notice.models) or None
        return cls(
            code=notice.code,
            message=notice.message,
            start=notice.start,
            end=notice.end,
            models=models,
            word=notice.word or None,
        )


class TranslateAnswer(Answer):
    """For a list in `q`, each member is a list of the same length and order."""

    # Lists of objects or of lists of them, and not either list: generated clients tell the items apart, not the lists.

    translatedText: str | list[str] = doc("The translation; white space alone comes back as it is.", "I want a beer")
    detectedLanguage: DetectedLanguage | list[DetectedLanguage] | None = optional(
        'Only for `source` "auto": what each text was taken for.', example_of(DetectedLanguage)
    )
    alternatives: list[str] | list[list[str]] | None = optional(
        "Only for `alternatives` above 0: further translations, best first, perhaps fewer than asked for.",
        ["I would like a beer"],
    )
    finishReason: FinishReason | list[FinishReason] | None = optional(
        'Only where a translation did not end by itself: "length" ran into its token limit,'
        ' "repetition" goes round in circles.',
        "length",
    )
    notices: list[NoticeAnswer | list[NoticeAnswer]] | None = optional(
        "Only where there is something to say of a translation; for a list in `q`, a list for each text.",
        [example_of(NoticeAnswer)],
    )
    scores: list[float] | list[list[float]] | None = optional(
        'Only for "scores" in `return`: of the translation and of each alternative, its log-probability'
        " in nats over its length to the power of the length penalty, the mean of its sentences.",
        [-0.17],
    )
    tokens: list[WrittenTokenAnswer | list[WrittenTokenAnswer]] | None = optional(
        'Only for "tokens" in `return`: the tokens of the translation.', _TOKENS
    )
    alignment: list[AlignedWordAnswer | list[AlignedWordAnswer]] | None = optional(
        'Only for "alignment" in `return`: the words of the translation, with what each was read from.',
        [example_of(AlignedWordAnswer)],
    )

    @classmethod
    def of(
        cls,
        request: TranslateRequest,
        translations: Sequence[TranslationResult],
        detections: Sequence[Detection] | None,
        **more: Any,
    ) -> Self:
        """Lists for a list in `q`, or else their only member."""
        columns: dict[str, Sequence[Any]] = {"translatedText": [text.text for text in translations]}
        if detections is not None:
            columns["detectedLanguage"] = copied(detections, list[DetectedLanguage])
        if request.alternatives:
            columns["alternatives"] = [text.alternatives for text in translations]
        if any(text.finish_reason != "stop" for text in translations):
            columns["finishReason"] = [text.finish_reason for text in translations]
        if any(text.notices for text in translations):
            columns["notices"] = [[NoticeAnswer.of(notice) for notice in text.notices] for text in translations]
        if "scores" in request.wanted:  # this and the next two are empty for a text that needed no model
            columns["scores"] = [[round_nats(score) for score in text.scores or ()] for text in translations]
        if "tokens" in request.wanted:
            columns["tokens"] = [[WrittenTokenAnswer.of(each) for each in text.tokens or ()] for text in translations]
        if "alignment" in request.wanted:
            columns["alignment"] = [
                [AlignedWordAnswer.of(each) for each in text.alignment or ()] for text in translations
            ]
        one = not isinstance(request.q, list)
        fields: dict[str, Any] = {name: column[0] if one else column for name, column in columns.items()}
        return cls(**fields, **more)


class TranslateDone(TranslateAnswer):
    """The last event of a stream."""

    usage: dict[str, int] = doc("Tokens that were read and written.", {"source_tokens": 6, "new_tokens": 5})
    timing: dict[str, float] = doc("Milliseconds.", {"queued_ms": 0.4, "first_token_ms": 9.1, "total_ms": 21.7})

    @classmethod
    def of_stream(
        cls, request: TranslateRequest, translation: TranslationResult, detections: Sequence[Detection] | None
    ) -> Self:
        return cls.of(request, [translation], detections, **usage_fields(translation.usage, "source_tokens"))


class Language(Answer):
    """One language that some loaded model reads or writes."""

    code: str = doc("Code to use in requests.", "de")
    name: str = doc("English name.", "German")
    targets: list[str] = doc(
        "Codes of the languages it can be translated to, those of one model first, then those through a third language"
        " by two; empty if it is a target only.",
        ["en"],
    )


class DetectRequest(Texts):
    """One text, or several that are ranked together."""

    examples: ClassVar[Examples] = {
        "A text": {"q": "Ich möchte ein Bier"},
        "Several texts": {"q": ["ich möchte ein bier", "hallo welt"]},
    }

    starts_work: ClassVar[bool] = False

    api_key: KeyField = None


class NamedCode(Answer):
    """A language as a menu shows it."""

    code: str = doc('Language code, or "auto".', "en")
    name: str = doc("English name.", "English")


class FrontendLanguages(Answer):
    """What is chosen at first."""

    source: NamedCode = doc("To translate from.", {"code": "auto", "name": "Auto Detect"})
    target: NamedCode = doc("To translate to.", {"code": "en", "name": "English"})


class FrontendSettings(Answer):
    """What a page needs to know of this server."""

    charLimit: int = doc("Characters (code points) of one text.", 100_000)
    frontendTimeout: int = doc("Milliseconds that a page waits after the last key before it translates.", 500)
    apiKeys: bool = doc("Whether keys are known here.", False)
    keyRequired: bool = doc("Whether nobody is answered without a key.", False)
    suggestions: bool = doc("Always false: this server keeps no suggestions.", False)
    filesTranslation: bool = doc("Whether POST /translate_file is switched on.", True)
    supportedFilesFormat: list[str] = doc(
        "Extensions of the files that it takes.", [".txt", ".srt", ".html", ".docx", ".odt"]
    )
    beamSize: int = doc("Hypotheses that the beam search keeps where a request does not say.", 4)
    modelChanges: Literal["off", "key", "allowed"] = doc(
        'Whether the key of this request may load, unload and import models; "key": only an admin key may.', "off"
    )
    language: FrontendLanguages = doc("What a page shows before anybody has chosen.", example_of(FrontendLanguages))


def _check_file(value: object) -> object:
    if not isinstance(value, Upload):
        raise field_error("is no file; send it as a part of the form that has a file name, as curl -F file=@NAME does.")
    return value


class OneFile(RequestFields):
    """A form with a file."""

    takes_files: ClassVar[bool] = True

    file: Annotated[
        InstanceOf[Upload],
        BeforeValidator(_check_file),
        WithJsonSchema({"type": "string", "contentMediaType": "application/octet-stream"}),
    ] = doc("The file; the end of its name says what it is, and GET /frontend/settings what is taken.", "letter.txt")

    def charged_texts(self) -> Iterator[str]:
        """Each byte as a character, before the file is read."""
        yield self.file.content.decode("latin-1")


class TranslateFileRequest(TranslationFields, OneFile):
    """One file. `format` is its own and need not be said."""

    starts_work: ClassVar[bool] = False

    api_key: KeyField = None


class TranslateFileAnswer(Answer):
    """Where the translated file is."""

    translatedFileUrl: str = doc(
        "Address of the translated file, which whoever has it can fetch for a while.",
        "http://127.0.0.1:8000/download_file/6Qn1mS0dO8pYkq2Wn0C7J3m5Lx4Vh9tB2aZrKe8uFgI.txt",
    )
