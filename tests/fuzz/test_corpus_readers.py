"""Made-up corpora and glossaries: translation memories and tables are read, or refused with one sentence."""

from __future__ import annotations

import io
from pathlib import Path
from unittest import mock
from xml.etree import ElementTree

import pytest
from hypothesis import given, seed
from hypothesis import strategies as st

from app.errors import InvalidRequest
from app.storage.glossary_store import EntriesFormat, entries_as_tsv, parse_entries
from tests.fuzz.examples import REPEATS, SEED, fuzzed
from tests.time_limits import processor_seconds
from training.data import tmx
from training.data.sentence_pairs import LeftOutRow, Row
from training.data.tables import read_table
from training.errors import TrainingError

pytestmark = pytest.mark.fuzz
UNIT = '<tu><tuv xml:lang="de"><seg>eins</seg></tuv><tuv lang="en"><seg>one</seg></tuv></tu>'
MARKUP = (
    *('<?xml version="1.0"?>', '<?xml version="1.0" encoding="latin-1"?>', '<?xml version="1.0" encoding="x"?>'),
    *("<!DOCTYPE tmx>", '<!DOCTYPE tmx [<!ENTITY a "b">]>', "<!DOCTYPE tmx SYSTEM 'a.dtd'>", "&a;", "&amp;", "&#0;"),
    *("<tmx>", "</tmx>", "<body>", "</body>", "<tu>", "</tu>", "<tuv>", '<tuv xml:lang="de">', '<tuv lang="de">'),
    *("</tuv>", "<seg>", "</seg>", "<hi>", "</hi>", "<ph>", "</ph>", "<ph type='lb'/>", "<bpt>", "</bpt>", "<sub/>"),
    *("&lt;br", "<![CDATA[", "]]>", "<!--", "-->", "<?a?>", "wort", "\n", "\r", " ", "\0", "ä", "\ufeff", UNIT, UNIT),
)
CELLS = (
    *('"', '""', ",", ";", "\t", "\n", "\r\n", "\r", " ", "\0", "\ufeff", "\ud800", "\u2028", "a", "wort", "1"),
    *(
        "source,target\n",
        "de;en\n",
        "German\tEnglish\n",
        "a,b\n",
        "a;b\n",
        '"a","b"\n',
        "Attribution: ",
        "PK\x03\x04",
        "wort" * 500,
    ),
)
times = st.tuples(st.lists(st.sampled_from(CELLS) | st.text(max_size=5), max_size=25).map("".join), REPEATS)


def units(content: bytes) -> list[tuple[int, dict[str, str]]]:
    return list(tmx.translation_units(io.BytesIO(content), Path("m.tmx")))


@seed(SEED)
@fuzzed
@given(
    whole=st.booleans(),
    pieces=st.lists(st.sampled_from(MARKUP) | st.text(max_size=5), max_size=25).map("".join),
    repeats=REPEATS,
    change=st.none() | st.tuples(st.integers(0, 10**6), st.binary(max_size=3)),
    chunk=st.integers(1, 9),
)
def test_translation_memory_is_read_or_refused(
    whole: bool, pieces: str, repeats: int, change: tuple[int, bytes] | None, chunk: int
) -> None:
    content = (f"<tmx><body>{pieces * repeats}</body></tmx>" if whole else pieces * repeats).encode(
        errors="surrogatepass"
    )
    if change is not None:
        place = change[0] % (len(content) + 1)
        content = content[:place] + change[1] + content[place + len(change[1]) :]
    with processor_seconds(20):
        try:
            read = units(content)
        except TrainingError as error:
            assert str(error).endswith((".", "?"))
            assert "\n" not in str(error)
            return
        if len(content) < 5000:  # where the file is cut for the parser is of no consequence
            with mock.patch.object(tmx, "CHUNK", chunk):
                assert units(content) == read
    root = ElementTree.fromstring(content)
    outermost, nested = root.findall(".//tu"), root.findall(".//tu//tu")
    assert len(read) == len(outermost) - len(nested) + (root.tag == "tu" and not nested)


def rows(path: Path, columns: tuple[int, int] | None, skip: bool) -> list[Row | LeftOutRow] | None:
    """None if the table is refused, in one sentence."""
    try:
        return list(read_table(path, columns, ("de", "en"), skip_malformed=skip))
    except TrainingError as error:
        assert str(error).endswith((".", "?"))
        assert "\n" not in str(error)
        return None


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_table_is_read_or_refused(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"pairs{suffix}"

    @seed(SEED)
    @fuzzed
    @given(times, st.none() | st.tuples(st.integers(1, 4), st.integers(1, 4)))
    def read(content: tuple[str, int], columns: tuple[int, int] | None) -> None:
        text = content[0] * content[1]
        path.write_bytes(text.encode(errors="surrogatepass"))
        with processor_seconds(20):
            strict, tolerant = rows(path, columns, False), rows(path, columns, True)
        assert strict in (None, tolerant)
        found = tolerant or []
        numbers = [row.number if isinstance(row, LeftOutRow) else row[0] for row in found]
        assert numbers == sorted(numbers)
        assert all(1 <= number <= 1 + text.count("\n") for number in numbers)
        for row in found:
            assert isinstance(row, LeftOutRow) or not {"\n", "\0"} & {*row[1], *row[2]}

    read()


@pytest.mark.parametrize("form", ["csv", "tsv"])
def test_glossary_is_read_or_refused(form: EntriesFormat) -> None:
    @seed(SEED)
    @fuzzed
    @given(times)
    def read(content: tuple[str, int]) -> None:
        with processor_seconds(20):
            try:
                entries = parse_entries(content[0] * content[1], form)
            except InvalidRequest as refusal:
                assert str(refusal).endswith(".")
                return
        if form == "tsv":
            assert parse_entries(entries_as_tsv(entries), "tsv") == entries

    read()
