"""One sentence on its way: what the engine is asked for it, and what its translation has to hold."""

from __future__ import annotations

from dataclasses import dataclass, replace

from app.engine.jobs import TranslationJob, Usage, Wanted
from app.text.glossary import Glossary, Term
from app.text.plain import one_plain_sentence
from app.text.protected import Kept, kept_spans, number_spans
from app.translation.sentence import Sentence

_PLACES: frozenset[Wanted] = frozenset({"alignment"})
_WORDS: frozenset[Wanted] = frozenset({"alignment", "tokens"})


@dataclass(frozen=True, slots=True)
class Task:
    """A sentence, what the engine is asked for it, and what the translation has to hold."""

    sentence: Sentence
    job: TranslationJob
    kept: tuple[Kept, ...]
    numbers: tuple[Kept, ...]
    terms: tuple[Term, ...]
    glossary: Glossary

    @classmethod
    def of(cls, sentence: Sentence, asked: TranslationJob, glossary: Glossary) -> Task:
        """asked: the job but for its text and its terms."""
        clean = sentence.clean
        if not glossary and not sentence.marks and one_plain_sentence(clean):
            return cls(sentence, _job(asked, clean, asked.wants), (), (), (), glossary)
        kept = tuple(kept_spans(clean))
        inside = {at for each in kept for at in range(each.start, each.end)}
        terms = tuple(term for term in glossary.find(clean) if term.start not in inside) if glossary else ()
        wants = asked.wants | (_WORDS if terms else _PLACES if sentence.shown_marks else frozenset())
        covered = [*kept, *(Kept(term.start, term.end, "") for term in terms)] if terms else kept
        numbers = tuple(number_spans(clean, covered))
        return cls(sentence, _job(asked, clean, wants), kept, numbers, terms, glossary)

    @property
    def plain(self) -> bool:
        """Whether its translation is right as it comes."""
        return not (self.sentence.shown_marks or self.kept or self.numbers or self.terms)

    @property
    def bound(self) -> TranslationJob:
        """The same, of a model that is made to write the terms."""
        return replace(self.job, required=tuple(dict.fromkeys(term.forms for term in self.terms)), alternatives=0)

    def without_links(self) -> Task:
        source = self.sentence.source
        return Task.of(Sentence.of(source, kept_spans(source)), self.job, self.glossary)


def _job(asked: TranslationJob, text: str, wants: frozenset[Wanted]) -> TranslationJob:
    """As dataclasses.replace, in a fifth of its time: it is made for every sentence."""
    return TranslationJob(
        text,
        asked.source_language,
        asked.target_language,
        asked.model,
        asked.alternatives,
        asked.beam_size,
        asked.length_penalty,
        asked.max_new_tokens,
        asked.prefix,
        (),
        asked.no_repeat_ngram_size,
        wants,
    )


def summed(first: Usage, second: Usage) -> Usage:
    return replace(
        first,
        read_tokens=first.read_tokens + second.read_tokens,
        new_tokens=first.new_tokens + second.new_tokens,
        total_s=first.total_s + second.total_s,
    )
