"""Multi30k from text to scores: train with several seeds, and score the test set once each.

python -m benchmarks.multi30k --data FOLDER --out DIR [--direction de-en] [--seeds 1 2 3] [--ensemble [all]]
                              [--processes 1] [--at-once 2] [--student-epochs 10] [--teachers 1]
                              [--student-set KEY=VALUE ...] [--vocab-size N] [--moses] [--rerank] [--json]

FOLDER holds Multi30k: train.LANG.gz, val.LANG.gz and test_2016_flickr.LANG.gz (not in this repository: its licence
is for non-commercial use). Training sees train, chooses on val, and the test set is read once per model, after
training has ended; what it gave stands in DIR/NAME.test.json and is not measured again. A run that was cut off is
gone on with, and models that are there already are only scored: seeds with different options of the student are trained
by one command each, and then scored together. --ensemble scores all seeds as one system too; with --rerank the teachers
of the other direction choose from the beam of that system. Scores are printed in every form in which others have
published theirs, see `published_bleu`; with --moses, which trains on lowercased Moses tokens, only in that one.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.corpora import TEST, pairs
from benchmarks.multi30k_training import prepare_moses, teacher_folder, trained
from benchmarks.published_bleu import moses, of_tokens, scores
from benchmarks.report import argument_parser, finish, goal
from training.data.corpus_loading import read_pairs
from training.evaluation.ensemble import load_ensemble
from training.evaluation.model_outputs import translate
from training.evaluation.reranking import Reranker

WAYS = {"greedy": 1, "beam 5": 5}  # the beam of each; the length penalty is 1
GOALS = {  # direction -> (which score, by which search, the goal, what others have published in that form)
    "en-de": ("moses", "beam 5", 42.0, "41.02, Transformer-tiny of arXiv 2105.14462"),
    "de-en": ("spacy", "greedy", 41.0, "36.52, bentrevett's Transformer"),
}
STUDENT_EPOCHS = 10  # what 90 minutes of a CPU have time for; each is three times as long as a teacher's
FORMS = ("cased", "lowercased", "moses", "spacy")


def test(
    arguments: argparse.Namespace, name: str, folders: Sequence[Path], rerankers: Sequence[Path] = ()
) -> dict[str, Any]:
    """Test-set scores of a finished model, or of an ensemble of several, one object for each of WAYS; stored beside the
    models under `name`. rerankers: translators of the other direction that choose from the beam (`Reranker`)."""
    kept = folders[0].with_name(f"{name}.test.json")
    if kept.exists():
        actual: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
        return actual
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    checkpoint, network = load_ensemble(folders, device)
    rerank = Reranker(rerankers, device) if rerankers else None
    expected = read_pairs(pairs(arguments.data, TEST, arguments.direction))
    language = arguments.direction.split("-")[1]
    result: dict[str, Any] = {}
    for way, beam in WAYS.items():
        outputs = translate(checkpoint, network, expected.sources, beam=beam, rerank=rerank if beam > 1 else None)
        if arguments.moses:  # both sides are tokens already
            result[way] = {"moses": round(of_tokens(str.split, outputs, expected.targets), 2)}
        else:
            result[way] = scores(language, outputs, expected.targets)
    kept.write_text(json.dumps(result) + "\n", encoding="utf-8")
    return result


def rows_of(results: dict[int, dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each seed and way, and one for the mean and the spread of each way."""
    rows = [{"seed": seed, "search": way, **result[way]} for seed, result in results.items() for way in WAYS]
    for way in WAYS if len(results) > 1 else ():
        row: dict[str, Any] = {"seeds": len(results), "search": way}
        for name in [form for form in FORMS if all(form in result[way] for result in results.values())]:
            values = [result[way][name] for result in results.values()]
            row[name] = f"{statistics.mean(values):.2f} ± {statistics.stdev(values):.2f}"
        rows.append(row)
    return rows


def goal_of(direction: str, results: Sequence[dict[str, Any]], models: str = "") -> dict[str, Any]:
    """The mean of the results against the goal, in the form in which others published theirs. models: what they are
    of, where it is not one model each."""
    form, way, aim, others = GOALS[direction]
    mean = statistics.mean(result[way][form] for result in results)
    name = f"Multi30k {direction}, lowercased {form} tokens, {way}{models} (others: {others})"
    return goal(name, round(mean, 2), aim, "BLEU", "higher")


def parser() -> argparse.ArgumentParser:
    top = argument_parser("multi30k", __doc__)
    top.add_argument("--data", type=Path, required=True)
    top.add_argument("--out", type=Path, required=True, help="where the models go, a folder each")
    top.add_argument("--direction", choices=sorted(GOALS), default="de-en")
    top.add_argument("--seeds", type=int, nargs="+", default=[1])
    top.add_argument("--student-epochs", type=int, default=STUDENT_EPOCHS, help="20 is as many as pay")
    text = "score all seeds as one system too; all: together with their direction's teachers"
    top.add_argument("--ensemble", choices=("students", "all"), nargs="?", const="students", help=text)
    top.add_argument("--processes", type=int, default=1, help="training processes of each model, of one thread each")
    top.add_argument("--at-once", type=int, default=1, help="models that are trained at the same time")
    top.add_argument("--teachers", type=int, default=1, help="of each direction; a student learns from all of them")
    top.add_argument("--student-set", nargs="+", default=[], metavar="KEY=VALUE", help="options of the student")
    top.add_argument("--vocab-size", type=int, help="pieces, instead of the recipe's")
    top.add_argument("--moses", action="store_true", help="train on lowercased Moses tokens, and score in these alone")
    text = "the teachers of the other direction choose from the beam of the --ensemble"
    top.add_argument("--rerank", action="store_true", help=text)
    return top


def main(argv: Sequence[str] | None = None) -> None:
    arguments = parser().parse_args(argv)
    if arguments.ensemble == "students" and len(arguments.seeds) < 2:
        raise SystemExit("An ensemble has two members at least: give --seeds 1 2.")
    if arguments.rerank and not arguments.ensemble:
        raise SystemExit("--rerank is of an --ensemble.")
    if arguments.moses and GOALS[arguments.direction][0] != "moses":
        raise SystemExit(f"The goal of {arguments.direction} is not scored in Moses' tokens: leave --moses out.")
    # a package that is not there is missed now, not after hours
    if arguments.moses:
        arguments.data = prepare_moses(arguments.data, arguments.out, arguments.direction)
        moses(arguments.direction.split("-")[1])
    else:
        scores(arguments.direction.split("-")[1], ["."], ["."])
    folders = trained(arguments)
    results = {seed: test(arguments, folder.name, [folder]) for seed, folder in folders.items()}
    ensemble = None
    members = list(folders.values())
    if arguments.ensemble:
        name = "+".join(map(str, arguments.seeds))
        if arguments.ensemble == "all":
            seeds = range(1, arguments.teachers + 1)
            members += [teacher_folder(arguments, arguments.direction, seed) for seed in seeds]
            name += f"+{arguments.teachers}-teachers"
        rerankers = []
        if arguments.rerank:
            other = "-".join(reversed(arguments.direction.split("-")))
            rerankers = [teacher_folder(arguments, other, seed) for seed in range(1, arguments.teachers + 1)]
            name += "-reranked"
        ensemble = test(arguments, f"multi30k-{arguments.direction}-{name}", members, rerankers)
    rows = rows_of(results)
    rows += [{"ensemble": len(members), "search": way, **ensemble[way]} for way in WAYS if ensemble]
    aims = [goal_of(arguments.direction, list(results.values()))]
    what = f", ensemble of {len(members)}{', reranked' if arguments.rerank else ''}"
    aims += [goal_of(arguments.direction, [ensemble], what)] if ensemble else []
    finish(arguments, rows, aims)


if __name__ == "__main__":
    main()
