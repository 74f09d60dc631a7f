"""Texts whose sentences have several languages. Neighbouring sentences of one language are a text of their own, which
the model of its language pair translates; sentences that stay as they are become layout between these texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.engine.interface import Notice, TranslationOptions, TranslationResult
from app.translation import TextRequest
from app.translation.assemble import MAX_NOTICES, assembled
from app.translation.segments import SegmentedText, segmented


@dataclass(frozen=True, slots=True)
class MixedText:
    """parts: the requests of the parts of one language, in order; their `languages` is None. parted: the text with the
    spans of the parts. left: notices about the sentences that stay."""

    parts: tuple[TextRequest, ...]
    parted: SegmentedText
    left: tuple[Notice, ...] = ()

    @classmethod
    def of(cls, request: TextRequest) -> MixedText:
        """A single part that is all of the text where the sentences have one language, or the request names none."""
        options = request.options
        whole = SegmentedText(request.text, options.source_language, ((0, len(request.text)),))
        if request.languages is None:
            return cls((request,), whole)
        text = segmented(request.text, options.source_language, split=request.split)
        verdicts = request.languages(text.pieces, options)
        if all(verdict == options for verdict in verdicts):
            return cls((replace(request, languages=None),), whole)
        runs, left = list[tuple[int, int, TranslationOptions]](), list[Notice]()
        within = None  # the options of the run that the sentence before is in
        for (start, end), verdict in zip(text.spans, verdicts, strict=True):
            if isinstance(verdict, TranslationOptions):
                if verdict == within:
                    start = runs.pop()[0]
                runs.append((start, end, verdict))
            elif verdict is not None:
                left.append(replace(verdict, start=start, end=end))
            within = verdict if isinstance(verdict, TranslationOptions) else None
        parts = tuple(
            replace(
                request,
                text=request.text[start:end],
                options=replace(own, prefix="") if number else own,
                languages=None,
            )
            for number, (start, end, own) in enumerate(runs)
        )
        return cls(parts, replace(text, spans=tuple((start, end) for start, end, _ in runs)), tuple(left))

    def layout(self, target_language: str) -> list[str]:
        """What stands before, between and after the parts."""
        return self.parted.layout(target_language)

    def joined(self, translations: Sequence[TranslationResult], target_language: str) -> TranslationResult:
        """translations: of the parts."""
        if self.parted.whole:
            return translations[0]
        result = assembled(self.parted, translations, target_language)
        return replace(result, notices=(*self.left, *result.notices)[:MAX_NOTICES])
