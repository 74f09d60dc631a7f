"""Made-up documents and pages for every reader: each is read and written again, or refused with a sentence."""

from __future__ import annotations

import pytest
from hypothesis import given, seed
from hypothesis import strategies as st

from app.documents.readers import READERS
from app.errors import InvalidRequest
from app.text.html_page import page_sections, parse_page
from tests.app.documents.sample_documents import SAMPLES
from tests.fuzz.examples import REPEATS, SEED, fuzzed
from tests.time_limits import processor_seconds

pytestmark = pytest.mark.fuzz


@pytest.mark.parametrize("extension", [extension for extension, sample in SAMPLES.items() if sample.pieces])
def test_made_up_files_are_written_again_or_refused(extension: str) -> None:
    pieces = st.lists(st.sampled_from(SAMPLES[extension].pieces) | st.text(max_size=5), max_size=40).map("".join)

    @seed(SEED)
    @fuzzed
    @given(pieces, REPEATS)
    def read(content: str, times: int) -> None:
        with processor_seconds(20):
            try:
                document = READERS[extension].read(SAMPLES[extension].made_of(content * times))
                document.written(document.texts, "en")
            except InvalidRequest as refusal:
                assert str(refusal).endswith(".")

    read()


@pytest.mark.parametrize("extension", READERS)
def test_changed_bytes_are_written_again_or_refused(extension: str) -> None:
    whole = SAMPLES[extension].content()

    @seed(SEED)
    @fuzzed
    @given(st.lists(st.tuples(st.integers(0, len(whole) - 1), st.integers(0, 255)), max_size=8))
    def read(changes: list[tuple[int, int]]) -> None:
        content = bytearray(whole)
        for place, byte in changes:
            content[place] = byte
        with processor_seconds(20):
            try:
                document = READERS[extension].read(bytes(content))
                document.written(document.texts, "en")
            except InvalidRequest as refusal:
                assert str(refusal).endswith(".")

    read()


@seed(SEED)
@fuzzed
@given(st.lists(st.sampled_from(SAMPLES[".html"].pieces), max_size=60).map("".join), st.integers(1, 300))
def test_sections_of_a_page_are_the_page(page: str, characters: int) -> None:
    sections = list(page_sections(page, characters))
    assert "".join(sections) == page
    assert [text for section in sections for text in parse_page(section).texts] == parse_page(page).texts
