"""Our decoding against CTranslate2's, with the same weights, on this machine's CPU.

python -m benchmarks.decoding [--shapes base tiny] [--rounds 7] [--json] [--out FILE]

Encoding counts on both sides: the clock runs from the sending of the sources to a contender's processes to the last
result. The random weights never choose the end token, so that all write as many tokens as they may. Both count at their
best: CTranslate2 over every compute type and inter × intra threads, its batch split between its translators; ours over
precisions and processes × threads, and at the server's default beside it. A scan picks the settings; the race itself is
interleaved (`benchmarks.race`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from itertools import zip_longest
from pathlib import Path
from typing import Any

from app.engine.dispatch.placement import cpu_workers, threads_each
from benchmarks.ours import PRECISIONS, Parlance
from benchmarks.peers import ctranslate2
from benchmarks.processes import ContenderError, Setting, Work
from benchmarks.race import Crews, interleave, ratio, say, scan
from benchmarks.report import Rows, argument_parser, finish, goal
from benchmarks.shapes import SHAPES, random_sources, write_checkpoint

SOURCE_LENGTH, TARGET_LENGTH = 20, 32
LAYOUTS = ((1, 1), (1, 2), (2, 1))  # processes (or translators) × threads of each
DEFAULT_SLOTS = 64
RATIO_GOAL = 2.0  # times CTranslate2, in each cell


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


def run_cells(shape: str, checkpoint: Path, converted: Path, cells: Mapping[str, Work], rounds: int) -> Rows:
    """The race of one network: a row for each cell."""
    default, mine = our_settings(checkpoint, cells)
    theirs: list[Setting] = [
        ctranslate2.CTranslate2(str(converted), kind, *layout)
        for kind in ctranslate2.compute_types("cpu")
        for layout in LAYOUTS
    ]
    rows = []
    with Crews() as crews:
        ours, peer = scan(mine, cells), scan(theirs, cells)
        for cell, work in cells.items():
            say(f"race {shape}: {cell}")
            try:
                row = race_cell(crews, work, default, ours[cell], peer[cell], rounds)
            except ContenderError as error:
                row = {"failed": str(error)}
            rows.append({"network": shape, "cell": cell, **row})
    return rows


def race_cell(
    crews: Crews, work: Work, default: Parlance, ours: Sequence[Setting], peer: Sequence[Setting], rounds: int
) -> dict[str, Any]:
    """CTranslate2's two fastest settings of the scan take part and the faster of them counts; so do ours: the default
    and the best."""
    if not ours or not peer:
        raise ContenderError("no setting of one side ran; its error stands on standard error")
    mine, theirs = [ours[0], default], peer[:2]
    entered = [setting for pair in zip_longest(mine, theirs) for setting in pair if setting is not None]
    turns = dict(zip(entered, interleave([crews.of(setting) for setting in entered], work, rounds), strict=True))
    best, fastest = (min(side, key=lambda setting: turns[setting].median) for side in (mine, theirs))
    result, by_default = (ratio(turns[which].seconds, turns[fastest].seconds) for which in (best, default))
    return {
        "sentences": len(work.sources),
        "ours": str(best),
        "tokens_per_second": turns[best].tokens_per_second,
        "ours_default": str(default),
        "default_tokens_per_second": turns[default].tokens_per_second,
        "ctranslate2": str(fastest),
        "ctranslate2_tokens_per_second": turns[fastest].tokens_per_second,
        "ratio": result.median,
        "ratio_min": result.least,
        "ratio_max": result.most,
        "default_ratio": by_default.median,
        "rounds": rounds,
    }


def agreement(shape: str, checkpoint: Path, converted: Path) -> dict[str, Any]:
    """The same weights indeed: in fp32, how many of eight greedy outputs of CTranslate2 are ours to the token."""
    sources = tuple(map(tuple, random_sources(SHAPES[shape], 8, SOURCE_LENGTH, seed=3)))
    work = Work(sources, (TARGET_LENGTH,) * len(sources), 1, len(sources))
    settings = Parlance(str(checkpoint), 1, 1, "fp32"), ctranslate2.CTranslate2(str(converted), "float32", 1, 1)
    with Crews() as crews:
        ours, theirs = (crews.of(setting).translate(work)[1] for setting in settings)
    return {"network": shape, "of": len(ours), "equal_outputs_in_fp32": sum(map(list.__eq__, ours, theirs))}


def goals(rows: Rows) -> Rows:
    promises = []
    for row in rows:
        if "cell" in row:
            name, why = f"{row['network']}, {row['cell']}", row.get("failed", "")
            promises.append(goal(name, row.get("ratio"), RATIO_GOAL, "× CTranslate2", "higher", why))
    return promises


def main() -> None:
    top = argument_parser("decoding", __doc__)
    top.add_argument("--shapes", nargs="*", choices=list(SHAPES), default=["base", "tiny"])
    top.add_argument("--batches", type=int, nargs="*", default=[1, 8, 32, 64, 128], help="of greedy search")
    top.add_argument("--beam-batches", type=int, nargs="*", default=[1, 8, 32], help="of beam search with 4")
    top.add_argument("--rounds", type=int, default=7)
    options = top.parse_args()
    rows: Rows = [{"ctranslate2": version("ctranslate2")}]
    for shape in options.shapes:
        with tempfile.TemporaryDirectory() as temporary:
            checkpoint = write_checkpoint(Path(temporary) / shape, SHAPES[shape])
            converted = ctranslate2.convert(checkpoint, Path(temporary) / "ctranslate2")
            rows.append(agreement(shape, checkpoint, converted))
            cells = forced_cells(shape, options.batches, options.beam_batches)
            rows += run_cells(shape, checkpoint, converted, cells, options.rounds)
    finish(options, rows, goals(rows))


if __name__ == "__main__":
    main()
