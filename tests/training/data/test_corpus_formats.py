"""The table of corpus formats: each row reads its sample, and is documented."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from training.data.corpus_loading import CORPUS_FILES, PAIR_FORMATS, TAB_SEPARATED, CorpusFile, read_pairs

SAMPLES = {
    ".csv": "German;English\nein Bier;a beer\nzwei Biere;two beers\n",
    ".jsonl": '{"de": "ein Bier", "en": "a beer"}\n{"de": "zwei Biere", "en": "two beers"}\n',
    ".tmx": "<tmx><body>"
    + "".join(
        f'<tu><tuv xml:lang="de"><seg>{german}</seg></tuv><tuv xml:lang="en"><seg>{english}</seg></tuv></tu>'
        for german, english in (("ein Bier", "a beer"), ("zwei Biere", "two beers"))
    )
    + "</body></tmx>",
    ".tsv": "ein Bier\ta beer\nzwei Biere\ttwo beers\n",
}
DOCS = Path(__file__).parents[3] / "docs" / "training.md"


def test_every_format_has_a_sample() -> None:
    missing = {row.suffixes[0] for row in CORPUS_FILES} - SAMPLES.keys()
    assert not missing, f"Add to SAMPLES of this file two pairs in the format {missing}."


def test_every_format_is_documented() -> None:
    text = DOCS.read_text()
    missing = [row.suffixes[0] for row in CORPUS_FILES if f"{row.suffixes[0]}` |" not in text]
    assert not missing, f"Add to the table of corpora in docs/training.md a row for {missing}."


def test_a_suffix_belongs_to_one_format() -> None:
    assert len(set(PAIR_FORMATS)) == len(PAIR_FORMATS)


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("suffix", [*PAIR_FORMATS, ".tsv", ".unknown"])
def test_file_of_every_suffix_is_read(tmp_path: Path, suffix: str, compressed: bool) -> None:
    row: CorpusFile = next((row for row in CORPUS_FILES if suffix in row.suffixes), TAB_SEPARATED)
    content = SAMPLES[row.suffixes[0] if row.suffixes else ".tsv"].encode()
    path = tmp_path / f"pairs{suffix}{'.gz' if compressed else ''}"
    path.write_bytes(gzip.compress(content) if compressed else content)
    pairs = read_pairs(str(path), ("de", "en"))
    assert (pairs.sources, pairs.targets) == (["ein Bier", "zwei Biere"], ["a beer", "two beers"])
