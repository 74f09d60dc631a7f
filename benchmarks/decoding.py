"""Our decoding against CTranslate2's and Hugging Face Marian's, with the same weights, on this machine's CPU.

python -m benchmarks.decoding [--json] [--out FILE]            random weights, forced length
python -m benchmarks.decoding --checkpoint FOLDER --data FOLDER real sentences too, at their natural length

Encoding counts on all sides: the clock runs from the sending of the sources to a contender's processes to the last
result. Forced length: the random weights never choose the end token, so that all write as many tokens as they may.
At natural length the outputs may differ by a few tokens, so a ratio is one of times for the same sentences.
Everybody counts at their best: CTranslate2 over every compute type and inter × intra threads, its batch split between
its translators; Marian over fp32, dynamic int8 and bf16; ours over precisions and processes × threads, and at the
server's default beside it. A scan picks the settings; the race itself is interleaved (`benchmarks.race`). The shares of
the CPU's int8 peak and memory bandwidth are of the work that a cell needs at least (`benchmarks.roofline`).
"""

from __future__ import annotations

import argparse
import platform
import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from itertools import zip_longest
from pathlib import Path
from typing import Any

from app.engine.dispatch.placement import cores, cpu_workers, threads_each
from benchmarks.ours import PRECISIONS, Parlance
from benchmarks.peers import ctranslate2, marian
from benchmarks.processes import ContenderError, Setting, Work
from benchmarks.race import Crews, Scanned, interleave, ratio, say, scan
from benchmarks.report import finish, goal
from benchmarks.roofline import shares
from benchmarks.sentences import natural_cells, read_sentences
from benchmarks.shapes import SHAPES, random_sources, write_checkpoint
from models.networks.transformer import TransformerConfig

SOURCE_LENGTH, TARGET_LENGTH = 20, 32
LAYOUTS = ((1, 1), (1, 2), (2, 1))  # processes (or translators) × threads of each
DEFAULT_SLOTS = 64
PEERS = ("ctranslate2", "transformers")  # Marian's
RATIO_GOAL = 2.0  # times CTranslate2, in each cell
PEAK_SHARE_GOAL, PEAK_SHARE_CELL = 0.75, "greedy 64"


def cell_name(beam: int, batch: int) -> str:
    return f"greedy {batch}" if beam == 1 else f"beam {beam} × {batch}"


def forced_cells(shape: str, batches: Sequence[int], beam_batches: Sequence[int]) -> dict[str, Work]:
    cells = {}
    for beam, sizes in ((1, batches), (4, beam_batches)):
        for batch in sizes:
            sources = tuple(map(tuple, random_sources(SHAPES[shape], batch, SOURCE_LENGTH)))
            cells[cell_name(beam, batch)] = Work(sources, (TARGET_LENGTH,) * batch, beam, batch, forced=True)
    return cells


def our_settings(checkpoint: Path, cells: Mapping[str, Work]) -> tuple[Parlance, list[Setting]]:
    """The server's default, and all that are scanned; these have slots for a whole batch."""
    rows = max(work.concurrent * work.beam for work in cells.values())
    default, *others = PRECISIONS
    scanned: list[Setting] = [
        Parlance(str(checkpoint), processes, threads, precision, max(DEFAULT_SLOTS, -(-rows // processes)))
        for precision in others
        for processes, threads in LAYOUTS
    ]
    workers = cpu_workers(0)
    return Parlance(str(checkpoint), workers, threads_each(0, workers), default, DEFAULT_SLOTS), scanned


def peers(
    checkpoint: Path, folder: Path, names: Sequence[str] = PEERS
) -> tuple[list[Setting], list[Setting], list[str]]:
    """CTranslate2's settings, Marian's, and why one of them is not there."""
    theirs: list[Setting] = []
    face: list[Setting] = []
    missing = [f"{name} is not installed" for name in names if find_spec(name) is None]
    if "ctranslate2" in names and find_spec("ctranslate2"):
        try:
            converted = str(ctranslate2.convert(checkpoint, folder))
            kinds = ctranslate2.compute_types("cpu")
            theirs = [ctranslate2.CTranslate2(converted, kind, *layout) for kind in kinds for layout in LAYOUTS]
        except ValueError as error:
            missing.append(str(error))
    if "transformers" in names and find_spec("transformers"):
        kinds = marian.PRECISIONS
        face = [marian.Marian(str(checkpoint), *layout, kind) for kind in kinds for layout in ((1, 0), (2, 1))]
    return theirs, face, missing


def run_cells(
    name: str, checkpoint: Path, cells: Mapping[str, Work], rounds: int, names: Sequence[str] = PEERS
) -> list[dict[str, Any]]:
    """The race of one network: a row for each cell. name: of a shape, or of a checkpoint."""
    network = SHAPES[name].config() if name in SHAPES else None
    default, mine = our_settings(checkpoint, cells)
    with tempfile.TemporaryDirectory() as temporary, Crews() as crews:
        theirs, face, missing = peers(checkpoint, Path(temporary) / "ctranslate2", names)
        ours, ct2, hf = scan(mine, cells), scan(theirs, cells), scan(face, cells, runs=1)
        rows = []
        for cell, work in cells.items():
            say(f"race {name}: {cell}")
            try:
                rows.append(race_cell(crews, work, default, ours[cell], ct2[cell], hf[cell], rounds, network))
            except ContenderError as error:
                rows.append({"failed": str(error)})
            rows[-1] = {"network": name, "cell": cell, **rows[-1], **({"missing": missing} if missing else {})}
    return rows


def race_cell(
    crews: Crews,
    work: Work,
    default: Parlance,
    ours: Sequence[Scanned],
    ct2: Sequence[Scanned],
    hf: Sequence[Scanned],
    rounds: int,
    network: TransformerConfig | None = None,
) -> dict[str, Any]:
    """CTranslate2's two fastest settings of the scan take part and the faster of them counts; so do ours: the default
    and the best. Marian, far behind, runs a third of the rounds. network: of forced work, whose demand is counted."""
    if not ours:
        raise ContenderError("no setting of ours ran; its error stands on standard error")
    mine = [ours[0].setting, default]
    theirs = [scanned.setting for scanned in ct2[:2]]
    entered = [setting for pair in zip_longest(mine, theirs) for setting in pair if setting is not None]
    turns = dict(zip(entered, interleave([crews.of(setting) for setting in entered], work, rounds), strict=True))
    best = min(mine, key=lambda setting: turns[setting].median)
    row: dict[str, Any] = {
        "sentences": len(work.sources),
        "ours": str(best),
        "tokens_per_second": turns[best].tokens_per_second,
        "ours_default": str(default),
        "default_tokens_per_second": turns[default].tokens_per_second,
    }
    if network is not None and best.precision in ("auto", "int8"):
        row |= shares(network, work, turns[best].median, best.processes, best.threads or cores())
    if theirs:
        fastest = min(theirs, key=lambda setting: turns[setting].median)
        result, by_default = (ratio(turns[which].seconds, turns[fastest].seconds) for which in (best, default))
        row |= {
            "ctranslate2": str(fastest),
            "ctranslate2_tokens_per_second": turns[fastest].tokens_per_second,
            "ratio": result.median,
            "ratio_min": result.least,
            "ratio_max": result.most,
            "default_ratio": by_default.median,
            "rounds": rounds,
        }
    if hf:
        face = hf[0].setting
        pair = interleave([crews.of(best), crews.of(face)], work, max(1, rounds // 3))
        row |= {
            "marian": str(face),
            "marian_tokens_per_second": pair[1].tokens_per_second,
            "marian_ratio": ratio(pair[0].seconds, pair[1].seconds).median,
        }
    return row


def agreement(shape: str, checkpoint: Path) -> list[dict[str, Any]]:
    """The same weights indeed: in fp32, how many of eight greedy outputs of each peer are ours to the token."""
    sources = tuple(map(tuple, random_sources(SHAPES[shape], 8, SOURCE_LENGTH, seed=3)))
    work = Work(sources, (TARGET_LENGTH,) * len(sources), 1, len(sources))
    with tempfile.TemporaryDirectory() as temporary, Crews() as crews:
        settings: dict[str, Setting] = {}
        if find_spec("ctranslate2"):
            converted = str(ctranslate2.convert(checkpoint, Path(temporary) / "ctranslate2"))
            settings["ctranslate2"] = ctranslate2.CTranslate2(converted, "float32", 1, 1)
        if find_spec("transformers"):
            settings["marian"] = marian.Marian(str(checkpoint), 1, 1, "fp32")
        ours = crews.of(Parlance(str(checkpoint), 1, 1, "fp32")).translate(work)[1]
        others = {name: crews.of(setting).translate(work)[1] for name, setting in settings.items()}
    return [
        {"network": shape, "equal_outputs_in_fp32": name, "of": len(ours), "equal": sum(map(list.__eq__, ours, theirs))}
        for name, theirs in others.items()
    ]


def goals(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    promises = []
    for row in rows:
        if row.get("network") not in SHAPES or "cell" not in row:
            continue
        name = f"{row['network']}, {row['cell']}"
        why = str(row.get("failed") or ", ".join(row.get("missing", ())))
        ratio_value, share = row.get("ratio"), row.get("int8_share")
        promises.append(goal(name, ratio_value, RATIO_GOAL, "× CTranslate2", "higher", "" if ratio_value else why))
        if row["network"] == "base" and row["cell"] == PEAK_SHARE_CELL:
            why = why or "the peak of this CPU is not known here"
            promises.append(goal(name, share, PEAK_SHARE_GOAL, "of the int8 peak", "higher", "" if share else why))
    return promises


def machine() -> dict[str, Any]:
    """What `environment` does not say."""
    versions = {}
    for name in ("ctranslate2", "transformers"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "absent"
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if Path("/proc/cpuinfo").exists() else []
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return {"processor": model or platform.processor(), **versions}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", nargs="*", choices=list(SHAPES), default=["base", "tiny"])
    parser.add_argument("--batches", type=int, nargs="*", default=[1, 8, 32, 64, 128], help="of greedy search")
    parser.add_argument("--beam-batches", type=int, nargs="*", default=[1, 8, 32], help="of beam search with 4")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=PEERS, help="whom to race; default: all")
    parser.add_argument("--checkpoint", type=Path, help="a trained translator, for the natural-length run")
    parser.add_argument("--sentences", type=Path, help="real sentences in its source language, one a line, or .gz")
    parser.add_argument("--data", type=Path, help="Multi30k's folder, instead of --sentences: its test set")
    parser.add_argument("--out", type=Path, help="also write the object of --json to this file")
    parser.add_argument("--json", action="store_true")
    result = parser.parse_args()
    if result.checkpoint and not (result.sentences or result.data):
        parser.error("--checkpoint needs --sentences FILE or --data FOLDER: what shall it translate?")
    return result


def main() -> None:
    options = arguments()
    rows: list[dict[str, Any]] = [machine()]
    for shape in options.shapes:
        with tempfile.TemporaryDirectory() as temporary:
            checkpoint = write_checkpoint(Path(temporary) / shape, SHAPES[shape])
            rows += agreement(shape, checkpoint)
            cells = forced_cells(shape, options.batches, options.beam_batches)
            rows += run_cells(shape, checkpoint, cells, options.rounds, options.peers) if cells else []
    if options.checkpoint:
        lines = read_sentences(options.checkpoint, options.sentences, options.data)
        natural = natural_cells(options.checkpoint, lines, options.batches, options.beam_batches)
        rows += run_cells(
            f"{options.checkpoint.name}, natural length", options.checkpoint, natural, options.rounds, options.peers
        )
    finish("decoding", rows, goals(rows), as_json=options.json, out=options.out)


if __name__ == "__main__":
    main()
