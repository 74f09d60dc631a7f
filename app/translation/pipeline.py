"""The way of a text through translation, top to bottom: a page becomes passages, a passage sentences, a sentence what a
model reads; and back. Plain code, which `app.translation.driver` runs: the engine's answers are sent to it
(`app.translation.steps`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from app.engine.interface import ModelInfo, Notice, TranslationOptions, TranslationResult
from app.engine.output.notices import still_true
from app.engine.output.output_processor import total_usage
from app.text.glossary_matching import TermMatcher
from app.text.html_page import HtmlPage, parse_page
from app.text.tag_placement import AlignedSpan
from app.text.xml_page import parse_xml
from app.translation import TextRequest
from app.translation.assemble import MAX_NOTICES, assembled, worst_finish_reason
from app.translation.concerns.dropped_sentences import with_dropped_sentences
from app.translation.concerns.messages import Framed
from app.translation.concerns.unknown_words import copying_matcher
from app.translation.mixed_languages import MixedText
from app.translation.reading import Sentence, read_without_holes
from app.translation.segments import SegmentedText, segmented, split_to_fit
from app.translation.sentence import translated_sentence
from app.translation.steps import Steps, together


@dataclass(frozen=True, slots=True)
class Context:
    """What the texts of one call share. model_of: the model that translates with some options, None if there is none.
    certain: count the tokens of all sentences. matchers: of glossaries, which requests may share."""

    model_of: Callable[[TranslationOptions], ModelInfo | None]
    certain: bool = False
    matchers: dict[int, TermMatcher] = field(default_factory=dict)

    def matcher(self, glossary: Mapping[str, str]) -> TermMatcher | None:
        if glossary and id(glossary) not in self.matchers:
            self.matchers[id(glossary)] = TermMatcher(glossary)
        return self.matchers.get(id(glossary))


@dataclass(frozen=True, slots=True)
class PreparedText:
    """A text ready to translate. sentences: one per piece of the segmented text."""

    request: TextRequest
    segmented: SegmentedText
    sentences: list[Sentence]

    def assembled(self, translations: Sequence[TranslationResult]) -> TranslationResult:
        options, text = self.request.options, self.segmented
        if not self.request.split:
            translations = [
                with_dropped_sentences(sentence.source, translation, options)
                for sentence, translation in zip(self.sentences, translations, strict=True)
            ]
        result = translations[0] if text.whole else assembled(text, translations, options.target_language)
        return replace(
            result,
            alternatives=result.alternatives[: options.alternatives],
            scores=result.scores if "scores" in options.wants else None,
            tokens=result.tokens if "tokens" in options.wants else None,
            alignment=result.alignment if "alignment" in options.wants else None,
            notices=still_true(result.notices, result.text) if result.notices else (),
        )


def translated(request: TextRequest, context: Context) -> Steps[TranslationResult]:
    """A result covers the text with its layout: worst finish_reason ("repetition", "length", "stop"), mean scores,
    spans of the whole text. model: "" if nothing was translated."""
    if request.unchanged:
        return TranslationResult(request.text, notices=(request.unchanged,))
    if request.format == "text":
        return (yield from translated_text(request, context))
    page = (parse_xml if request.format == "xml" else parse_page)(request.text, request.tags)
    texts = _texts_of_page(request, page)
    results = yield from together([translated_text(text, context) for text in texts])
    return _page_result(request, page, results)


def translated_text(request: TextRequest, context: Context) -> Steps[TranslationResult]:
    framed = Framed.of(request.text) if "{" in request.text else None
    if framed is not None:
        others = replace(request, options=replace(request.options, prefix="", alternatives=0))
        texts = [replace(request, text=framed.text), *(replace(others, text=branch) for branch in framed.branches)]
        outer, *branches = yield from together([translated_text(text, context) for text in texts])
        return framed.filled(outer, branches)
    if request.languages is not None:
        mixed = MixedText.of(request)
        results = yield from together([translated_text(part, context) for part in mixed.parts])
        return mixed.joined(results, request.options.target_language)
    text = yield from prepared(request, context)
    translations = yield from together([translated_sentence(sentence) for sentence in text.sentences])
    return text.assembled(translations)


def prepared(request: TextRequest, context: Context) -> Steps[PreparedText]:
    """The sentences of a text, each of which fits the model."""
    options = request.options
    text = segmented(request.text, options.source_language, split=request.split)
    if text.spans:
        language = options.source_language
        text = yield from split_to_fit(
            text, options, lambda piece: read_without_holes(piece, language), certain=context.certain
        )
    matcher, model = context.matcher(request.glossary), context.model_of(options)
    others = replace(options, prefix="") if options.prefix else options
    sentences = []
    for number, piece in enumerate(text.pieces):
        own = matcher
        if matcher is None and model is not None and model.source_words is not None:
            own = copying_matcher(piece, model.source_words)
        sentences.append(Sentence(piece, others if number else options, own))
    return PreparedText(request, text, sentences)


def _texts_of_page(request: TextRequest, page: HtmlPage) -> list[TextRequest]:
    wants = frozenset({"alignment", *(request.options.wants & {"scores"})})
    first = replace(request.options, alternatives=0, wants=wants)
    others = replace(first, prefix="") if first.prefix else first
    return [
        replace(request, text=text, format="text", options=others if number else first)
        for number, text in enumerate(page.texts)
    ]


def _page_result(request: TextRequest, page: HtmlPage, texts: Sequence[TranslationResult]) -> TranslationResult:
    """A page has no alternatives, tokens or alignment; its score is the mean of its texts', its prefix applies to the
    first text, and its notices are without places."""

    def spans(text: TranslationResult) -> list[AlignedSpan]:
        words = text.alignment or ()
        return [AlignedSpan(word.target_start, word.target_end, word.source_start, word.source_end) for word in words]

    pieces = page.pieces([(text.text, spans(text)) for text in texts])
    scores = [text.scores[0] for text in texts if text.scores] if "scores" in request.options.wants else []
    return TranslationResult(
        "".join(pieces),
        (),
        worst_finish_reason(text.finish_reason for text in texts),
        next((text.model for text in texts if text.model), ""),
        total_usage([text.usage for text in texts]),
        (sum(scores) / len(scores),) if scores else None,
        notices=_page_notices(texts),
    )


def _page_notices(texts: Sequence[TranslationResult]) -> tuple[Notice, ...]:
    """Of the texts of a page, each once: places in its texts are none in the page."""
    if not any(text.notices for text in texts):
        return ()
    notices = (replace(notice, start=None, end=None) for text in texts for notice in text.notices)
    return tuple(dict.fromkeys(notices))[:MAX_NOTICES]
