"""What of a text comes back as it has to: terms of a glossary, tags of a page, the layout of anything, numbers.

python -m benchmarks.fidelity --data FOLDER --checkpoint DIR [--only glossary|html|layout|numbers] [--json]

FOLDER holds Multi30k (see benchmarks.multi30k), DIR is a translator of its sentences; numbers take any translator of
German or English, and no FOLDER. Everything goes through `app.translation.driver.Translator` over a pool of
device processes, as in the service, without HTTP.

glossary: 500 sentences of the validation set with one term each, that of its reference which goes with a word of the
sentence most often in the training set: how many translations hold it, and what it costs in BLEU. html: 300 made-up
nested pages: tags and nesting, and whether the text outside of tags is the plain translation of the same text.
layout: 2,000 made-up texts: line ends, tabs, spaces and emoji. numbers: 1,000 made-up sentences with dates, times,
amounts, ranges, addresses, versions and telephone numbers: how many keep all of theirs.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import tempfile
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import sacrebleu

from app.engine.async_engine import AsyncEngine
from app.engine.interface import EngineSettings, TranslationOptions
from app.translation import TextRequest
from app.translation.driver import Translator
from benchmarks.corpora import multi30k_lines
from benchmarks.fidelity_numbers import is_kept, sentence
from benchmarks.fidelity_terms import holds, terms
from benchmarks.fidelity_texts import Page, layout, layout_text, structure_of
from benchmarks.report import argument_parser, finish, goal
from models.checkpoint import read

COUNTS = {"glossary": 500, "html": 300, "layout": 2000, "numbers": 1000}
AT_ONCE = 64  # texts
SEED, NUMBERS_SEED = 20261122, 20261123
SHOWN = 3  # failures of each kind that a report shows


class Setting(NamedTuple):
    """data: Multi30k's folder. job: with the model's languages. size: of the part's sentences, pages or texts."""

    translator: Translator
    data: Path | None
    job: TextRequest
    size: int

    def lines(self, part: str) -> tuple[list[str], list[str]]:
        """Of Multi30k in the model's languages."""
        if self.data is None:
            raise SystemExit("--data is needed: a folder with Multi30k.")
        source, target = self.job.options.source_language, self.job.options.target_language
        return multi30k_lines(self.data, part, source), multi30k_lines(self.data, part, target)

    async def translated(self, texts: Iterable[str], **more: Any) -> list[str]:
        """more: of each request."""
        return await translated(self.translator, [replace(self.job, text=text, **more) for text in texts])


Part = Callable[[Setting], Coroutine[Any, Any, tuple[dict[str, Any], list[dict[str, Any]]]]]


@asynccontextmanager
async def translating(checkpoint: Path) -> Any:
    """A translator over a pool with this one model."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(checkpoint, Path(folder) / checkpoint.name, ignore=shutil.ignore_patterns("resume"))
        pool = AsyncEngine(EngineSettings(checkpoints=Path(folder), request_timeout_s=600, max_queue_age_s=600))
        await pool.start()
        try:
            while not pool.status().ready:
                if pool.registry.problems:
                    raise SystemExit(next(iter(pool.registry.problems.values())))
                await asyncio.sleep(0.05)
            yield Translator(pool)
        finally:
            await pool.stop()


async def translated(translator: Translator, requests: Sequence[TextRequest]) -> list[str]:
    texts = list[str]()
    for start in range(0, len(requests), AT_ONCE):
        texts += [each.text for each in await translator.translate(requests[start : start + AT_ONCE])]
    return texts


async def glossary(setting: Setting) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    sources, references = setting.lines("val")
    chosen = terms(sources, references, setting.lines("train"), setting.size)
    expected = [[references[term.sentence] for term in chosen]]
    free = await setting.translated(sources[term.sentence] for term in chosen)
    bound = [replace(setting.job, text=sources[term.sentence], glossary={term.source: term.target}) for term in chosen]
    held = await translated(setting.translator, bound)
    scores = [sacrebleu.BLEU().corpus_score(texts, expected).score for texts in (free, held)]
    kept = [holds(text, term.target) for text, term in zip(held, chosen, strict=True)]
    lost = [
        f"{job.text} | {job.glossary} | {text}" for job, text, well in zip(bound, held, kept, strict=True) if not well
    ]
    row = {
        "part": "glossary",
        "sentences": len(chosen),
        "holds_term": sum(kept),
        "held_it_without": sum(holds(text, term.target) for text, term in zip(free, chosen, strict=True)),
        "bleu_without": round(scores[0], 2),
        "bleu_with": round(scores[1], 2),
        "lost": lost[:SHOWN],
    }
    fall = scores[0] - scores[1]
    return row, [
        goal("outputs that hold their term", _share(sum(kept), len(kept)), 100.0, "%", "higher"),
        goal("what BLEU falls by with a term", round(fall, 2), 0.5, "BLEU", "lower"),
    ]


async def pages(setting: Setting) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    rng = random.Random(SEED)
    lines = setting.lines("val")[0]
    sentences: Iterator[str] = cycle(rng.sample(lines, len(lines)))
    made = [Page(rng, sentences) for _ in range(setting.size)]
    results = await setting.translated((page.source for page in made), format="html")
    plain = [text for each in made for text in each.plain if text is not None]
    # as a page shows it: spaces around a text and in a row are layout of the page's source
    expected = iter([" ".join(text.split()) for text in await setting.translated(plain)])
    nested, pairs, broken = 0, [], []
    for page, answer in zip(made, results, strict=True):
        ways, texts = structure_of(answer)
        well = ways == structure_of(page.source)[0]
        nested += well
        broken += [] if well else [f"{page.source} | {answer}"]
        there = [" ".join(text.split()) for text in texts]
        there += [""] * (len(page.plain) - len(there))
        pairs += [(here, next(expected)) for here, each in zip(there, page.plain, strict=False) if each is not None]
    other = [f"{here} | {each}" for here, each in pairs if here != each]
    blocks, equal = len(pairs), len(pairs) - len(other)
    row = {"part": "html", "pages": len(made), "nested": nested, "texts": blocks, "equal": equal}
    return {**row, "broken": broken[:SHOWN], "other": other[:SHOWN]}, [
        goal("pages whose tags and nesting are kept", _share(nested, len(made)), 100.0, "%", "higher"),
        goal("texts outside of tags that are the plain translation", _share(equal, blocks), 95.0, "%", "higher"),
    ]


async def layouts(setting: Setting) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    rng, lines = random.Random(SEED), setting.lines("val")[0]
    texts = [layout_text(rng, lines) for _ in range(setting.size)]
    pairs = zip(texts, await setting.translated(texts), strict=True)
    changed = [f"{text!r} | {answer!r}" for text, answer in pairs if layout(text) != layout(answer)]
    kept = len(texts) - len(changed)
    aim = goal("texts whose layout is kept exactly", _share(kept, len(texts)), 100.0, "%", "higher")
    return {"part": "layout", "texts": len(texts), "kept": kept, "changed": changed[:SHOWN]}, [aim]


async def numbers(setting: Setting) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    rng = random.Random(NUMBERS_SEED)
    made = [sentence(rng, setting.job.options.source_language) for _ in range(setting.size)]
    answers = await setting.translated(text for text, _ in made)
    lost = [
        f"{text} | {answer}"
        for (text, values), answer in zip(made, answers, strict=True)
        if not all(is_kept(each, answer) for each in values)
    ]
    kept = len(made) - len(lost)
    aim = goal("sentences that keep all numbers", _share(kept, len(made)), 100.0, "%", "higher")
    return {"part": "numbers", "sentences": len(made), "kept": kept, "lost": lost[:SHOWN]}, [aim]


def _share(some: int, of: int) -> float:
    """Per cent, rounded down: 100 is all of them."""
    return some * 10_000 // max(1, of) / 100


PARTS: dict[str, Part] = {"glossary": glossary, "html": pages, "layout": layouts, "numbers": numbers}


async def measured(
    data: Path | None, checkpoint: Path, counts: Mapping[str, int]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """counts: of each part that is measured."""
    config, rows, goals = read(checkpoint).single_pairs()[0].config, list[dict[str, Any]](), list[dict[str, Any]]()
    job = TextRequest("", TranslationOptions(str(config.source_language), str(config.target_language)))
    async with translating(checkpoint) as translator:
        for name, count in counts.items():
            row, aims = await PARTS[name](Setting(translator, data, job, count))
            rows.append(row)
            goals += aims
    return rows, goals


def main() -> None:
    top = argument_parser("fidelity", __doc__)
    top.add_argument("--data", type=Path)
    top.add_argument("--checkpoint", type=Path, required=True)
    top.add_argument("--only", choices=PARTS)
    chosen = top.parse_args()
    counts = {name: count for name, count in COUNTS.items() if chosen.only in (None, name)}
    finish(chosen, *asyncio.run(measured(chosen.data, chosen.checkpoint, counts)))


if __name__ == "__main__":
    main()
