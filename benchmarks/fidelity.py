"""What of a text comes back as it has to: terms of a glossary, tags of a page, the layout of anything.

python -m benchmarks.fidelity --data FOLDER --checkpoint DIR [--only glossary|html|layout] [--json] [--results FILE]

FOLDER holds Multi30k (see benchmarks.multi30k), DIR is a translator of its sentences. Everything goes through
`app.translation.text_translator.Translator` over a pool of device processes, as in the service, without HTTP.

glossary: 500 sentences of the validation set with one term each, that of its reference which goes with a word of the
sentence most often in the training set: how many translations hold it, and what it costs in BLEU. html: 300 made-up
nested pages: tags and nesting, and whether the text outside of tags is the plain translation of the same text.
layout: 2,000 made-up texts: line ends, tabs, spaces and emoji.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import random
import shutil
import tempfile
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import sacrebleu

from app.engine.async_engine import AsyncEngine
from app.engine.interface import EngineSettings, TranslationOptions, TranslationResult
from app.translation import TextRequest
from app.translation.text_translator import Translator
from benchmarks.fidelity_terms import holds, terms
from benchmarks.fidelity_texts import Page, layout, layout_text, structure_of
from benchmarks.report import finish, goal
from models.checkpoint import read

TERMS, PAGES, LAYOUTS = 500, 300, 2000
AT_ONCE = 64  # texts
SEED = 20261122
SHOWN = 3  # failures of each kind that a report shows


class Corpus(NamedTuple):
    """Lines of Multi30k in the model's languages."""

    valid: tuple[list[str], list[str]]
    train: tuple[list[str], list[str]]


class Setting(NamedTuple):
    translator: Translator
    corpus: Corpus
    job: TextRequest  # with the model's languages
    counts: tuple[int, int, int]


Part = Callable[[Setting], Coroutine[Any, Any, tuple[dict[str, Any], list[dict[str, Any]]]]]


def read_corpus(folder: Path, source: str, target: str) -> Corpus:
    def lines(part: str, language: str) -> list[str]:
        return gzip.decompress((folder / f"{part}.{language}.gz").read_bytes()).decode("utf-8").split("\n")[:-1]

    valid = lines("val", source), lines("val", target)
    return Corpus(valid, (lines("train", source), lines("train", target)))


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


async def translated(setting: Setting, jobs: Sequence[TextRequest]) -> list[TranslationResult]:
    result: list[TranslationResult] = []
    for start in range(0, len(jobs), AT_ONCE):
        result += await setting.translator.translate(jobs[start : start + AT_ONCE])
    return result


async def glossary(setting: Setting) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    sources, references = setting.corpus.valid
    chosen = terms(sources, references, setting.corpus.train, setting.counts[0])
    plain = [replace(setting.job, text=sources[term.sentence]) for term in chosen]
    bound = [replace(job, glossary={term.source: term.target}) for job, term in zip(plain, chosen, strict=True)]
    expected = [[references[term.sentence] for term in chosen]]
    free, held = await translated(setting, plain), await translated(setting, bound)
    scores = [sacrebleu.BLEU().corpus_score([text.text for text in texts], expected).score for texts in (free, held)]
    kept = [holds(text.text, term.target) for text, term in zip(held, chosen, strict=True)]
    lost = [
        f"{job.text} | {term.target} | {text.text}"
        for job, term, text, well in zip(plain, chosen, held, kept, strict=True)
        if not well
    ]
    row = {
        "part": "glossary",
        "sentences": len(chosen),
        "holds_term": sum(kept),
        "held_it_without": sum(holds(text.text, term.target) for text, term in zip(free, chosen, strict=True)),
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
    sentences: Iterator[str] = cycle(rng.sample(setting.corpus.valid[0], len(setting.corpus.valid[0])))
    made = [Page(rng, sentences) for _ in range(setting.counts[1])]
    results = await translated(setting, [replace(setting.job, text=each.source, format="html") for each in made])
    plain = [text for each in made for text in each.plain if text is not None]
    # as a page shows it: spaces around a text and in a row are layout of the page's source
    expected = iter([" ".join(each.text.split()) for each in await translated(setting, _plain(setting, plain))])
    nested, pairs, broken = 0, [], []
    for page, answer in zip(made, results, strict=True):
        ways, texts = structure_of(answer.text)
        well = ways == structure_of(page.source)[0]
        nested += well
        broken += [] if well else [f"{page.source} | {answer.text}"]
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
    rng = random.Random(SEED)
    texts = [layout_text(rng, setting.corpus.valid[0]) for _ in range(setting.counts[2])]
    results = await translated(setting, _plain(setting, texts))
    pairs = list(zip(texts, results, strict=True))
    spaces = [layout(text)[0] == layout(answer.text)[0] for text, answer in pairs]
    emoji = [layout(text)[1] == layout(answer.text)[1] for text, answer in pairs]
    kept = [a and b for a, b in zip(spaces, emoji, strict=True)]
    changed = [f"{text!r} | {answer.text!r}" for (text, answer), well in zip(pairs, kept, strict=True) if not well]
    row = {"part": "layout", "texts": len(texts), "whitespace": sum(spaces), "emoji": sum(emoji), "kept": sum(kept)}
    aim = goal("texts whose layout is kept exactly", _share(sum(kept), len(texts)), 100.0, "%", "higher")
    return {**row, "changed": changed[:SHOWN]}, [aim]


def _plain(setting: Setting, texts: Sequence[str]) -> list[TextRequest]:
    return [replace(setting.job, text=text) for text in texts]


def _share(some: int, of: int) -> float:
    """Per cent, rounded down: 100 is all of them."""
    return some * 10_000 // max(1, of) / 100


PARTS: dict[str, Part] = {"glossary": glossary, "html": pages, "layout": layouts}


async def measured(
    data: Path, checkpoint: Path, names: Sequence[str], counts: tuple[int, int, int]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    config = read(checkpoint).config
    assert config.source_language, "a lyricist translates nothing"
    assert config.target_language
    corpus = read_corpus(data, config.source_language, config.target_language)
    rows, goals = [], []
    async with translating(checkpoint) as translator:
        options = TranslationOptions(config.source_language, config.target_language)
        setting = Setting(
            translator,
            corpus,
            TextRequest("", options),
            counts,
        )
        for name in names:
            row, aims = await PARTS[name](setting)
            rows.append(row)
            goals += aims
    return rows, goals


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--results", type=Path)
    chosen = parser.parse_args(arguments)
    names = [chosen.only] if chosen.only else list(PARTS)
    rows, goals = asyncio.run(measured(chosen.data, chosen.checkpoint, names, (TERMS, PAGES, LAYOUTS)))
    finish("fidelity", rows, goals, as_json=chosen.json, out=chosen.results)


if __name__ == "__main__":
    main()
