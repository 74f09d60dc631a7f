"""Mistakes that people make on the command line, and the one sentence that each of them is told."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.tiny import write_translator
from tests.training.cli.commands import refused
from training.__main__ import main
from training.data.corpus_loading import FORMATS

PAIR = '{"de": "a", "en": "b"}'
FILES: dict[str, str | bytes] = {
    "empty.tsv": "",
    "blank.tsv": "\n\n \n",
    "utf16.tsv": "ja\tyes\n".encode("utf-16"),
    "latin.tsv": "Tür\tdoor\n".encode("latin-1"),
    "table.xlsx": b"PK\x03\x04",
    "one.txt": "nur eine Spalte\n" * 3,
    "three.tsv": "a\tb\tc\n",
    "a.de": "x\n" * 5,
    "a.en": "x\n" * 6,
    "keys.jsonl": '{"german": "a", "english": "b"}\n',
    "list.json": f"[{PAIR}]\n",
    "pretty.json": PAIR.replace("{", "{\n").replace("}", "\n}\n"),
    "french.csv": "fr,en\nbonjour,hello\nmerci,thanks\n",
    "memory.tmx": "<tmx><body/></tmx>",
    "broken.tmx": "<tmx><body>\n<tu>A & B</tu></body></tmx>",
    "lines.gz": "no gzip",
    "same.tsv": "a b\tc d\n" * 3,
    "short.txt": "la " * 20,
    "none.txt": " \n",
    "run.toml": "recipe = tiny",
}
TRAIN = "translator --source de --target en --out o --device cpu --train"
SING = "lyrics --out o --device cpu --corpus"
ONE_COLUMN = (
    "line 1 has 1 column; a pair is two texts with one tab between; two files of parallel lines are named with a comma"
    " between: a.de,a.en."
)
JQ = "jq -c 'if type == \"array\" then .[] else . end' rewrites a file so."
MISTAKES = [
    (f"{TRAIN} nowhere.tsv", f"nowhere.tsv does not exist: give {FORMATS}."),
    (f"{TRAIN} pairs.tvs", "pairs.tvs does not exist, did you mean pairs.tsv?"),
    (f"{TRAIN} a.de,a.em", "a.em does not exist."),
    (f"{TRAIN} folder", "folder is a folder, and a file is needed."),
    (f"{TRAIN} empty.tsv", "empty.tsv holds no pair of sentences."),
    (f"{TRAIN} blank.tsv", "blank.tsv holds no pair of sentences."),
    (
        f"{TRAIN} utf16.tsv",
        "utf16.tsv is UTF-16, and texts are read as UTF-8: convert it (iconv -f UTF-16 -t UTF-8 utf16.tsv), or save it"
        " as UTF-8.",
    ),
    (f"{TRAIN} latin.tsv", "latin.tsv is not valid UTF-8: line 1 has a broken character; convert it."),
    (
        f"{TRAIN} table.xlsx",
        "table.xlsx is a document or an archive, not a text: save it as plain text, a table as .csv; a server"
        " translates .docx and .odt (POST /translate_file).",
    ),
    (f"{TRAIN} one.txt", f"one.txt {ONE_COLUMN}"),
    (f"{TRAIN} a.de a.en", f"a.de {ONE_COLUMN}"),
    (
        f"{TRAIN} three.tsv",
        "three.tsv line 1 has 3 columns (1 'a', 2 'b', 3 'c'): say which hold the source and the target, such as"
        " --columns 1,2.",
    ),
    (
        f"{TRAIN} a.de,a.en",
        "a.de has 5 lines and a.en has 6: line n of one must translate line n of the other, and they part at line 6 at"
        " the latest.",
    ),
    (
        f"{TRAIN} keys.jsonl",
        "keys.jsonl line 1 has the keys 'german', 'english'; a pair needs 'de' and 'en', or 'source' and 'target'.",
    ),
    (f"{TRAIN} list.json", f"list.json line 1 is a JSON list: every line must be one object; {JQ}"),
    (f"{TRAIN} pretty.json", f"pretty.json line 1 holds a part of an object: every line must be a whole one; {JQ}"),
    (
        f"{TRAIN} french.csv",
        "french.csv begins with the titles fr, en, and de and en are not both among them: check --source and --target,"
        " or say by --columns 1,2 which columns hold them.",
    ),
    (f"{TRAIN} memory.tmx", "memory.tmx has no unit with both de and en; its languages and their segments: none."),
    (
        f"{TRAIN} broken.tmx",
        "broken.tmx is no well-formed TMX: line 2, column 8 (not well-formed (invalid token)); --clean malformed=skip"
        " leaves such units out.",
    ),
    (f"{TRAIN} lines.gz", "lines.gz cannot be read (no gzip file, or a damaged one): get it once more."),
    (
        f"{TRAIN} same.tsv",
        "same.tsv has 1 pair of 3 after cleaning (exact duplicate 2); training needs at least two.",
    ),
    (
        f"{TRAIN} pairs.tsv --valid pairs.tsv",
        "pairs.tsv has no pairs of 40 after cleaning (in the validation set 40); training needs at least two: these are"
        " the pairs of --valid, which takes others.",
    ),
    (
        f"{TRAIN} pairs.tsv --set tokenizer.kind=sentencepiece --vocab-size 5",
        "A vocabulary of 5 pieces cannot hold every character of this corpus: it takes at least 13.",
    ),
    (
        "translator --source german --target en --train pairs.tsv --out o",
        "This cannot start: source_language must be a language code such as de or pt-BR, not 'german', did you mean"
        " de?",
    ),
    (f"{TRAIN} pairs.tsv --epochs 3", "This cannot start: --epochs is no option, did you mean --max-epochs EPOCHS?"),
    (
        f"{TRAIN} pairs.tsv --config run.toml",
        "run.toml is no TOML file of options: Invalid value (at line 1",
    ),
    (f"{TRAIN} pairs.tsv --resume", "o has no run to resume; leave --resume out to start one."),
    (f"{SING} none.txt", "none.txt has no text."),
    (f"{SING} folder", "folder has no .txt or .txt.gz file."),
    (
        f"{SING} short.txt --batch-size 4 --bptt 20",
        "The text has 60 characters, and a batch of 4 windows of 20 characters needs 93, of which 9 are held out: give"
        " a longer text, or a lower --batch-size or --bptt.",
    ),
    (
        f"{SING} song.txt --from model",
        "model is a translator, not a lyricist: tune it with `python -m training translator`.",
    ),
    ("evaluate model", "model is a translator: give --test SOURCE,TARGET."),
    ("evaluate model --test one.txt", f"one.txt {ONE_COLUMN}"),
    (
        "evaluate model --test pairs.tsv --output same.tsv",
        "--output same.tsv exists: choose another name, or replace it",
    ),
    ("evaluate model --test pairs.tsv --source en --target de", "model translates de → en, and not en → de."),
    ("translate model a.de --out a.en", "a.en exists; choose another --out."),
    ("translate a.de model", "model is a folder, not a text: several models translate with --ensemble."),
    (
        "distil model --train pairs.tsv --out o.tsv",
        "This cannot start: --out must end in .jsonl or .jsonl.gz, not be o.tsv.",
    ),
    ("inspect-corpus pairs.tsv --source de", "Give --source and --target together, or neither."),
]


@pytest.mark.parametrize(("command", "sentence"), MISTAKES, ids=[command for command, _ in MISTAKES])
def test_mistake_is_told_in_one_sentence(
    here: Path, capsys: pytest.CaptureFixture[str], command: str, sentence: str
) -> None:
    for name, content in FILES.items():
        (here / name).write_bytes(content.encode() if isinstance(content, str) else content)
    (here / "folder").mkdir()
    if "model" in command:
        write_translator(here / "model", "de", "en")
    before = sorted(here.iterdir())
    told = refused(capsys, *shlex.split(command))
    assert told.startswith(sentence)
    assert told == sentence or sentence.endswith(("replace it", "line 1"))
    assert sorted(here.iterdir()) == before


def test_a_text_of_the_length_that_the_sentence_names_is_long_enough(
    here: Path, capsys: pytest.CaptureFixture[str], no_curves: None
) -> None:
    command = [*shlex.split(SING), "song.txt", "--batch-size", "4", "--bptt", "20", "--max-epochs", "1"]
    for size in (33, 92):
        (here / "song.txt").write_text(("la du so " * 20)[:size])
        assert "needs 93, of which 9 are held out" in refused(capsys, *command)
    (here / "song.txt").write_text(("la du so " * 20)[:93])
    assert main(command) == 0
