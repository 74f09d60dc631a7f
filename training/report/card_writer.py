"""The model card: README.md of a checkpoint, with the front matter that the Hugging Face Hub reads, and the facts about
the machine and the sources that it states."""

from __future__ import annotations

import contextlib
import json
import math
import os
import platform
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import torch
import yaml

from models.checkpoint import CheckpointConfig, DemoCard
from training.config.run_config import LyricsConfig, TranslatorConfig
from training.config.run_file import RUN_FILE
from training.data.sentence_pairs import CorpusReport, Pairs
from training.errors import pluralize, started_command_line
from training.evaluation.memorisation import Overlap
from training.evaluation.scores import Score
from training.progress import Outcome, Sample
from training.report.progress_report import escape_markdown, shorten_repetition

KNOWN_LICENCES = re.compile(
    r"apache-2\.0|mit|cc0-1\.0|unlicense|(a|l)?gpl(-3\.0|-2\.0)?|mpl-2\.0|bsd(-[23]-clause)?|openrail"
    r"|cc-by(-nc)?(-sa|-nd)?-[34]\.0"
)  # licences that the Hub has a page for; any other is "other", with a licence name
TASKS = {"translator": "translation", "lyrics": "text-generation"}  # the Hub's names
FORGOTTEN_CHRF = 1.0  # points that are worth a sentence
GIB = 1 << 30
SIGNATURES = {"signature": "bleu", "signature_lowercased": "bleu lowercased", "signature_chrf": "chrf"}  # -> metric


def translator_card(
    config: TranslatorConfig,
    metadata: CheckpointConfig,
    train: Pairs,
    valid: Pairs | None,
    report: CorpusReport,
    outcome: Outcome,
    machine: str,
    licence: str | None,
    samples: Sequence[Sample],
    mixed: str = "",
    demo: DemoCard | None = None,
) -> str:
    """machine: its `hardware_summary`. licence: of what this run added. mixed: the general pairs that were mixed in
    (`training.data.run_corpora.mix_summary`)."""
    left_out = f"{report.left_out:,} {'was' if report.left_out == 1 else 'were'} left out"
    validation = f"; validation on {valid.origin}" if valid else ""
    mixing = f"; mixed in: {mixed}" if mixed else ""
    seen = "that data"
    if origin := metadata.training.get("from"):
        seen = f"that data and what {origin['model']} was trained on, of which it may have forgotten some"
    pairs, rest = [f"{source} → {target}" for source, target in config.pairs], ""
    if config.multilingual.pairs:
        temperature = config.multilingual.sampling_temperature
        kept = (f"{name} {pluralize(part.kept, 'pair')}" for name, part in report.language_pairs.items())
        rest = f"; in training: {', '.join(kept)}, sampled with temperature {temperature:g}"
    return model_card(
        *(config, metadata, outcome, machine, licence),
        title=", ".join(pairs),
        summary=f"Translates {', '.join(pair.replace('→', 'to') for pair in pairs)}, sentence by sentence.",
        limits="The model is for sentences like those of its data, of up to"
        f" {metadata.max_source_tokens} source tokens. The model has seen nothing but {seen}: it may get names, numbers"
        " and topics from elsewhere wrong. A server marks some of these places, and not all.",
        data=f"{train.origin}: {pluralize(report.read, 'pair')}, of which {left_out}{mixing}{validation}{rest}",
        left_out=report.table(),
        samples=samples,
        demo=demo,
    )


def lyricist_card(
    config: LyricsConfig,
    metadata: CheckpointConfig,
    data: str,
    outcome: Outcome,
    machine: str,
    licence: str | None,
    memorised: tuple[Overlap, Overlap | None],
    samples: Sequence[Sample],
    demo: DemoCard | None = None,
) -> str:
    origin = metadata.training.get("from")
    known = f"the text that {origin['model']} was trained on" if origin else "its text"
    return model_card(
        *(config, metadata, outcome, machine, licence),
        title=f"Lyrics ({config.network.get('cell', 'gru').upper()})",
        summary="Continues a text, character by character.",
        limits=f"For texts in the manner of its corpus. It knows the characters of {known} and no others, and may"
        " repeat passages of its text.",
        data=data,
        memorised=memorised,
        samples=samples,
        demo=demo,
    )


def _outcome_sentence(outcome: Outcome) -> str:
    progress = outcome.progress
    skipped = f", {progress.skipped:,} more skipped (fp16 overflow)" if progress.skipped else ""
    kept = f"; kept: {outcome.chosen}, with {outcome.validation}" if outcome.validation else ""
    return (
        f"Trained for {progress.seconds / 60:.1f} minutes, {pluralize(progress.update, 'update')}{skipped},"
        f" {pluralize(progress.epoch, 'finished epoch')}; ended by {outcome.ended_by}{kept}."
    )


def model_card(
    config: TranslatorConfig | LyricsConfig,
    metadata: CheckpointConfig,
    outcome: Outcome,
    machine: str,
    licence: str | None,
    *,
    title: str,
    summary: str,
    limits: str,
    data: str,
    left_out: str = "",
    memorised: tuple[Overlap, Overlap | None] | None = None,
    samples: Sequence[Sample] = (),
    demo: DemoCard | None = None,
) -> str:
    """Markdown. machine, licence: as in `translator_card`. left_out: table of dropped pairs. memorised: overlap of
    generated and held-out text with training's."""
    served = [code for pair in metadata.language_pairs for code in (pair.source, pair.target)]
    named = dict.fromkeys(served or (metadata.source_language, metadata.target_language))
    languages = [code for code in named if code]
    origin = metadata.training.get("from")
    licences = licences_of(licence, origin)
    licence_line = ", ".join(f"`{name}`" for name in licences) or "not stated; that of the training data decides"
    if licence and len(licences) > 1:
        licence_line += f" (`{licence}` for what this run added; the starting model keeps its own)"
    again = "exactly" if config.loop.max_minutes is None else "but for what a clock decided (`loop.max_minutes`)"
    left_out = f"\n## Left out of the training data\n\n{left_out}\n" if left_out else ""
    base_model = origin.get("base_model") if origin else None
    return f"""{front_matter(licences, languages, TASKS[metadata.kind], base_model)}
# {title}

{summary}
{_demo_section(demo)}
## Use and limits

{limits}

## Scores

{_scores_table(metadata.scores)}{_origin_section(origin, metadata)}
## How it was made

- Data: {data}
- Recipe: `{config.recipe}`, {metadata.parameters:,} parameters, seed {config.loop.seed}
- Command: `{started_command_line()}`
- Again, {again}: `{RUN_FILE}` beside this file holds every option
- {_outcome_sentence(outcome)}
- Hardware: {machine}; torch {torch.__version__}, Python {platform.python_version()}
{f"- Backend: {outcome.backend}{chr(10)}" if outcome.backend else ""}- Source revision: {source_revision()}
- Licence: {licence_line}
{left_out}{_memorisation_section(memorised)}{_samples_section(samples)}
## Configuration

```json
{json.dumps(asdict(config), ensure_ascii=False, indent=1)}
```
"""


def _demo_section(demo: DemoCard | None) -> str:
    """What a demo model knows, and how to get a model for real use."""
    if demo is None:
        return ""
    way, _, command = demo.way_out.partition(": ")
    examples = "".join(f"- {example}\n" for example in demo.examples)
    return f"\n**This is a demo.** {demo.summary} {way}: `{command}`\n\nTexts to try:\n\n{examples}"


def licences_of(licence: str | None, origin: Mapping[str, Any] | None) -> list[str]:
    """The licences of a model: those of the model that it was tuned from, then its own if that is another."""
    named = str(origin.get("licence") or "").split(", ") if origin else []
    named = [name for name in named if name]
    new = licence is not None and licence.lower() not in [name.lower() for name in named]
    return [*named, *([licence] if licence and new else [])]


def front_matter(licences: Sequence[str], languages: Sequence[str], task: str, base_model: str | None = None) -> str:
    """base_model: the name on the Hub of the model that this one was tuned from."""
    values: dict[str, object] = {}
    if licences:
        known = all(KNOWN_LICENCES.fullmatch(licence.lower()) for licence in licences)
        names = [licence.lower() for licence in licences]
        stated = {"license": names if len(names) > 1 else names[0]}
        values |= stated if known else {"license": "other", "license_name": " and ".join(licences)}
    if base_model:
        values |= {"base_model": base_model, "base_model_relation": "finetune"}
    if languages:
        values["language"] = [code.partition("-")[0].lower() for code in languages]
    values |= {"pipeline_tag": task, "library_name": "parlance"}
    return f"---\n{yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=math.inf)}---"


def _scores_table(scores: Mapping[str, Score]) -> str:
    """One row per measured text; the long signatures follow below."""
    if not scores:
        return "Not scored: no held-out data was given.\n"
    names = dict.fromkeys(name for row in scores.values() for name in row if name not in SIGNATURES)
    rows = [[title, *(str(row.get(name, "")) for name in names)] for title, row in scores.items()]
    table = _markdown_table(["measured on", *(name.replace("_", " ") for name in names)], rows)
    signatures = {(name, row[name]) for row in scores.values() for name in row if name in SIGNATURES}
    listed = [f"- {SIGNATURES[name]}: `{signature}`\n" for name, signature in sorted(signatures)]
    return "\n".join([table, "".join(listed)]) if signatures else table


def _origin_section(origin: Mapping[str, Any] | None, metadata: CheckpointConfig) -> str:
    """What a tuned model was tuned from. origin: `StartingPoint.record`, with the scores of the starting weights on the
    texts of this run. metadata: of the tuned model."""
    if not origin:
        return ""
    rows, scores = [], metadata.scores
    for text, before in origin.get("scores_before", {}).items():
        rows += [
            [text, name.replace("_", " "), str(before[name]), str(scores[text][name])]
            for name in ("bleu", "chrf", "nats_per_token", "nats_per_character")
            if name in before and name in scores.get(text, {})
        ]
    measured = f"\n{_markdown_table(['measured on', 'score', 'starting weights', 'tuned'], rows)}" if rows else ""
    measured += "".join(f"\n**{sentence}**\n" for sentence in tuning_verdict(metadata))
    its_own = {f"the origin's own: {name}": row for name, row in origin["scores"].items()}
    published = f"\nIts own scores, as its makers or its run gave them:\n\n{_scores_table(its_own)}" if its_own else ""
    languages = f", {' → '.join(origin['languages'])}" if origin["languages"] else ""
    aligned = "- Its alignment heads are kept; how well they align words was not measured again\n"
    aligned = aligned if metadata.alignment else ""
    return f"""
## Origin

- Tuned from: `{origin["model"]}`{languages}
- SHA-256 of its weights: `{origin["sha256"]}`
- Its licence: {f"`{origin['licence']}`" if origin["licence"] else "not stated; ask its makers before passing this on"}
{aligned}{measured}{published}"""


def tuning_verdict(metadata: CheckpointConfig) -> list[str]:
    """Sentences where a tuned model is no better than its start on texts of the run, or has forgotten others."""
    origin, verdict = metadata.training.get("from") or {}, []
    for text, before in origin.get("scores_before", {}).items():
        after = metadata.scores.get(text, {})
        nats = "nats_per_token" if "nats_per_token" in before else "nats_per_character"
        own = text.startswith(("validation", "held-out end"))
        if own and (-after.get("bleu", 0), after[nats]) >= (-before.get("bleu", 0), before[nats]):
            verdict.append(f"Tuning gained nothing on {text}: keep the old model, {origin['model']}.")
        lost = 0.0 if own else before.get("chrf", 0.0) - after.get("chrf", 0.0)
        if lost >= FORGOTTEN_CHRF:
            less = "general pairs in --mix make it forget less"
            verdict.append(f"Tuning lost {lost:.1f} chrF on {text}: {less}.")
    return verdict


def _memorisation_section(measured: tuple[Overlap, Overlap | None] | None) -> str:
    if measured is None:
        return ""
    overlaps = {"generated text": measured[0], "held-out text": measured[1]}
    rows = [
        [
            f"{name}, {pluralize(overlap.characters, 'character')}",
            f"{pluralize(len(overlap.longest), 'character')}: {json.dumps(overlap.longest, ensure_ascii=False)}",
            *("–" if share is None else f"{share:.2%}" for share in overlap.shares.values()),
        ]
        for name, overlap in overlaps.items()
        if overlap is not None
    ]
    spans = [f"spans of {length} that are copies" for length in measured[0].shares]
    return f"""
## Memorisation

What stands word for word in the training text. Held-out text was copied from nowhere: what it shares is the language's.

{_markdown_table(["text", "longest copied span", *spans], rows)}"""


def _samples_section(samples: Sequence[Sample]) -> str:
    if not samples:
        return ""
    with_references = any(reference for _, reference, _ in samples)
    head = ["source", "reference", "model"] if with_references else ["opening", "model"]
    lines = [head, ["---"] * len(head)]
    for source, reference, output in samples:
        cells = [source, reference, output] if with_references else [source, output]
        lines.append([escape_markdown(cell) for cell in [*cells[:-1], shorten_repetition(output)]])
    return "\n## Samples\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _markdown_table(head: Sequence[str], rows: Iterable[list[str]]) -> str:
    lines = [list(head), ["---"] * len(head), *rows]
    escapes = str.maketrans({"\\": "\\\\", "|": "\\|", "\n": "<br>"})
    return "".join(f"| {' | '.join(cell.translate(escapes) for cell in line)} |\n" for line in lines)


def hardware_summary(device: torch.device, processes: int = 1, machines: int = 1) -> str:
    """One line, of this machine: "NVIDIA H200, 1 of 1, 139 GiB; AMD EPYC, 8 cores, 4 threads, 64 GiB of memory"."""
    gpu = ""
    if device.type == "cuda":
        there, used = torch.cuda.get_device_properties(device), processes // machines
        each = " each" if used > 1 else ""
        gpu = f"{there.name}, {used} of {torch.cuda.device_count()}, {there.total_memory / GIB:.0f} GiB{each}; "
    threads = pluralize(torch.get_num_threads(), "thread")
    if processes > 1:
        where = f" on {machines} machines," if machines > 1 else ""
        threads = f"{processes} processes{where} of {threads} each"
    return f"{gpu}{processor_name()}, {pluralize(os.cpu_count() or 1, 'core')}, {threads}{_memory_size()}"


def processor_name() -> str:
    """The processor's model name if known, else its architecture."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or f"{platform.machine()} CPU"


def _memory_size() -> str:
    with contextlib.suppress(AttributeError, ValueError, OSError):
        return f", {os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / GIB:.0f} GiB of memory"
    return ""


@cache
def source_revision() -> str:
    """The revision of this source tree, or "unknown" for an installed package."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(command, capture_output=True, text=True, timeout=5, check=True).stdout.strip()
    return "unknown"
