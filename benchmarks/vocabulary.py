"""A large vocabulary: our decoding with and without its shortlist against CTranslate2, in one interleaved run.

python -m benchmarks.vocabulary [--models A B C --sentences FILE] [--cells NAME ...] [--rounds 5] [--json] [--out FILE]

Shape base with 58,101 entries, int8, on this machine's CPU. With random weights every output has its full length; the
bounds of a shortlist are of no use there, and the load says so. With --models, trained translators of one vocabulary,
the network is theirs side by side (`benchmarks.side_by_side`): real sentences (one a line, or .gz; at least 2,000) at
their natural length. There CTranslate2 has a vocabulary map, too: for each source token the target tokens that occur
with it most in the network's own translations of other sentences of the file, and the most frequent ones of all. Its
tokens may differ from those of all logits, and how often they do is a row; ours may not, and 2,000 sentences are
compared. CTranslate2 and we take part in each cell with the int8 layouts that a scan finds to be the fastest, two of
each, for a scan is short and a machine is rarely quiet: the faster of the two in the race counts.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.decoding import LAYOUTS, forced_cells
from benchmarks.ours import Parlance
from benchmarks.peers import ctranslate2
from benchmarks.processes import Setting, Work
from benchmarks.race import Crews, Turns, interleave, ratio, say, scan
from benchmarks.report import finish, goal
from benchmarks.sentences import natural_cells, read_sentences
from benchmarks.shapes import SHAPES, write_checkpoint
from benchmarks.side_by_side import write_side_by_side

BATCHES, BEAM_BATCHES = (1, 8, 32), (1, 8)
# by the numbers in the name of a cell: greedy at 1, 8, 32; beam 4 at 1, 8
GOALS = {("1",): 5.0, ("8",): 4.0, ("32",): 4.0, ("4", "1"): 4.0, ("4", "8"): 3.5}
COMPARED, MAPPED = 2000, 4000  # sentences
OWN_CANDIDATES, COMMON_CANDIDATES = 60, 300  # of a source token, and of every source
SLOTS = 128
FINALISTS = 2  # settings of a system that race in a cell
MOST_S = 3600.0
PARTS = ("random", "trained", "compared")


def chosen(cells: Mapping[str, Work], beginnings: Sequence[str]) -> dict[str, Work]:
    return {name: work for name, work in cells.items() if name.startswith(tuple(beginnings))}


def race(
    name: str, checkpoint: Path, peer: Path, cells: Mapping[str, Work], rounds: int, *, mapped: bool
) -> list[dict[str, Any]]:
    kinds = [kind for kind in ctranslate2.compute_types("cpu") if kind.startswith("int8")]
    plain = [ctranslate2.CTranslate2(str(peer), kind, *layout) for kind in kinds for layout in LAYOUTS]
    ours = [Parlance(str(checkpoint), *layout, "int8", SLOTS) for layout in LAYOUTS]
    systems: dict[str, Sequence[Setting]] = {
        "ours": ours,
        "all_logits": [replace(setting, shortlist=False) for setting in ours],
        "ctranslate2": plain,
        **({"ctranslate2_map": [replace(setting, vocabulary_map=True) for setting in plain]} if mapped else {}),
    }
    scanned = {system: scan(settings, cells) for system, settings in systems.items()}
    rows = []
    for cell, work in cells.items():
        say(f"race {name}: {cell}")
        finalists = {system: [one.setting for one in scanned[system][cell][:FINALISTS]] for system in systems}
        entered = [setting for settings in finalists.values() for setting in settings]
        with Crews() as crews:  # of one cell: those of all would not fit into the memory
            turns = dict(
                zip(entered, interleave([crews.of(setting) for setting in entered], work, rounds), strict=True)
            )
        row: dict[str, Any] = {"network": name, "cell": cell, "sentences": len(work.sources), "rounds": rounds}
        rows.append(row | row_of(finalists, turns))
    return rows


def row_of(finalists: Mapping[str, Sequence[Setting]], turns: Mapping[Setting, Turns]) -> dict[str, Any]:
    """The fastest setting of each system, and how many times as fast as the others ours is."""
    best = {system: min(settings, key=lambda s: turns[s].median) for system, settings in finalists.items()}
    row: dict[str, Any] = {}
    for system, setting in best.items():
        row |= {system: str(setting), f"{system}_tokens_per_second": turns[setting].tokens_per_second}
    for system in [system for system in best if system != "ours"]:
        against = ratio(turns[best["ours"]].seconds, turns[best[system]].seconds)
        row |= {f"ratio_to_{system}": against.median, f"range_to_{system}": [against.least, against.most]}
    row["ratio"] = min(row[f"ratio_to_{system}"] for system in best if system.startswith("ctranslate2"))
    return row


def write_map(checkpoint: Path, lines: Sequence[str], folder: Path) -> None:
    """CTranslate2's vmap.txt in `folder`, from our own greedy translations of these lines."""
    work = next(iter(natural_cells(checkpoint, lines, [-(-len(lines) // 4)], []).values()))
    with Crews() as crews:
        translations = crews.of(Parlance(str(checkpoint), 1, 1, "int8", SLOTS)).translate(replace(work, concurrent=64))[
            1
        ]
    together: dict[int, Counter[int]] = defaultdict(Counter)
    total: Counter[int] = Counter()
    for source, target in zip(work.sources, translations, strict=True):
        total.update(set(target))
        for token in set(source):
            together[token].update(set(target))
    common = [token for token, _ in total.most_common(COMMON_CANDIDATES)]
    with (folder / "vmap.txt").open("w", encoding="utf-8") as file:
        for token, counts in sorted(together.items()):
            own = sorted(counts, key=lambda other: -counts[other] / total[other] ** 0.5)[:OWN_CANDIDATES]
            candidates = dict.fromkeys([*own, *common])
            file.write(f"t{token}\t{' '.join(f't{candidate}' for candidate in candidates)}\n")


def compared(checkpoint: Path, peer: Path, lines: Sequence[str]) -> list[dict[str, Any]]:
    """How many of the sentences have the same tokens as with all logits."""
    cells = natural_cells(checkpoint, lines, [-(-len(lines) // 4)], [-(-len(lines) // 4)])
    kind = "int8_float32"
    rows = []
    with Crews() as crews:
        plain, ours = ctranslate2.CTranslate2(str(peer), kind, 1, 1), Parlance(str(checkpoint), 1, 1, "int8", SLOTS)
        pairs: dict[str, tuple[Setting, Setting]] = {
            "ours": (ours, replace(ours, shortlist=False)),
            "ctranslate2_map": (replace(plain, vocabulary_map=True), plain),
        }
        for beam, work in zip((1, 4), (replace(work, concurrent=32) for work in cells.values()), strict=True):
            for system, pair in pairs.items():
                one, other = (crews.of(setting).translate(work, MOST_S)[1] for setting in pair)
                equal = sum(list(a) == list(b) for a, b in zip(one, other, strict=True))
                rows.append({"equal_to_all_logits": system, "beam": beam, "of": len(one), "equal": equal})
                say(str(rows[-1]))
    return rows


def goals(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    promises = []
    for network in dict.fromkeys(row["network"] for row in rows if "network" in row):
        cells = [row for row in rows if row.get("network") == network]
        for row in cells:
            aim = GOALS[tuple(re.findall(r"\d+", row["cell"]))]
            promises.append(goal(f"{network}, {row['cell']}", row["ratio"], aim, "× CTranslate2", "higher", ""))
    for row in rows:
        if row.get("equal_to_all_logits") == "ours":
            name = f"tokens of all logits, beam {row['beam']}"
            promises.append(goal(name, 100 * row["equal"] / row["of"], 100.0, "% of sentences", "higher", ""))
    return promises


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, nargs="*", help="trained translators of the recipe tiny, one vocabulary")
    parser.add_argument("--sentences", type=Path, help="sentences in their source language, one a line, or .gz")
    parser.add_argument("--compared", type=int, default=COMPARED, help="sentences whose tokens are compared")
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=PARTS)
    parser.add_argument("--cells", nargs="*", default=[""], help="beginnings of names of cells, such as 'greedy, 32'")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, help="also write the object of --json to this file")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if bool(options.models) != bool(options.sentences):
        parser.error("--models and --sentences go together: what shall they translate?")
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if "random" in options.parts:
            random = write_checkpoint(folder / "random", SHAPES["opus"])
            peer = ctranslate2.convert(random, folder / "random-ctranslate2")
            cells = chosen(forced_cells("opus", BATCHES, BEAM_BATCHES), options.cells)
            rows += race("random weights", random, peer, cells, options.rounds, mapped=False)
        if options.models:
            trained = write_side_by_side(options.models, folder / "trained")
            peer = ctranslate2.convert(trained, folder / "trained-ctranslate2")
            lines = read_sentences(trained, options.sentences, None)
            write_map(trained, lines[options.compared :][:MAPPED], peer)
            if "trained" in options.parts:
                cells = chosen(natural_cells(trained, lines, BATCHES, BEAM_BATCHES), options.cells)
                rows += race("trained, side by side", trained, peer, cells, options.rounds, mapped=True)
            if "compared" in options.parts:
                rows += compared(trained, peer, lines[: options.compared])
    finish("vocabulary", rows, goals(rows), as_json=options.json, out=options.out)


if __name__ == "__main__":
    main()
