"""Glossaries in files: whole, bounded, each owner's own."""

from __future__ import annotations

import logging
import threading
import tracemalloc
from datetime import UTC
from pathlib import Path

import pytest

from app.errors import EngineUnavailable, InvalidRequest, UnknownGlossary
from app.storage.glossary_store import Dictionary, Glossary, GlossaryLimits, GlossaryStore, write_atomically

BEER = Dictionary("de", "en", {"Bier": "ale", "Wirt": "host"})
WINE = Dictionary("en", "es", {"wine": "caldo"})
NOWHERE = "00000000-0000-0000-0000-000000000000"
UNWRITABLE = "This server cannot keep glossaries: it cannot write to its folder PARLANCE_DATA."


def everything(glossaries: GlossaryStore, owner: str) -> list[Glossary]:
    return glossaries.all(owner, lambda glossary: glossary)


def test_added_glossary_survives_a_restart(tmp_path: Path) -> None:
    added = GlossaryStore(tmp_path).add("anna", "Pub", [BEER, WINE])
    again = GlossaryStore(tmp_path)
    assert again.get("anna", added.id) == added
    assert everything(again, "anna") == [added]
    assert (added.name, added.dictionaries, added.created.tzinfo) == ("Pub", (BEER, WINE), UTC)
    assert again.find("anna", added.id, "de", "en") == {"Bier": "ale", "Wirt": "host"}
    assert again.find("anna", added.id, "DE", "en-GB") == BEER.entries


def test_glossary_of_another_owner_is_unknown(tmp_path: Path) -> None:
    glossaries = GlossaryStore(tmp_path)
    added = glossaries.add("anna", "Pub", [BEER])
    assert everything(glossaries, "bert") == []
    for attempt in (glossaries.get, glossaries.delete):
        with pytest.raises(UnknownGlossary):
            attempt("bert", added.id)
    assert everything(glossaries, "anna") == [added]


@pytest.mark.parametrize("name", ["", "../../x", "0" * 36, "../anna/00000000-0000-0000-0000-000000000000"])
def test_malformed_id_is_unknown_and_never_a_path(tmp_path: Path, name: str) -> None:
    with pytest.raises(UnknownGlossary, match="You have no glossary with this id"):
        GlossaryStore(tmp_path).get("anna", name)
    assert list(tmp_path.iterdir()) == []


def test_missing_pair_names_the_existing_pairs(tmp_path: Path) -> None:
    glossaries = GlossaryStore(tmp_path)
    added = glossaries.add("anna", "Pub", [BEER])
    with pytest.raises(InvalidRequest) as excinfo:
        glossaries.find("anna", added.id, "en", "de")
    assert excinfo.value.message == "This glossary has no dictionary for en → de; its pairs: de → en."
    assert excinfo.value.field == "glossary_id"


def test_merge_put_drop_and_rename(tmp_path: Path) -> None:
    glossaries = GlossaryStore(tmp_path)
    first = glossaries.add("anna", "Pub", [BEER])
    merged = glossaries.merge("anna", first.id, [Dictionary("de", "en", {"Bier": "beer", "Glas": "pint"}), WINE])
    assert merged.dictionaries == (Dictionary("de", "en", {"Bier": "beer", "Wirt": "host", "Glas": "pint"}), WINE)
    put = glossaries.put("anna", first.id, Dictionary("de", "en", {"Hopfen": "hop"}))
    assert put.dictionaries == (Dictionary("de", "en", {"Hopfen": "hop"}), WINE)
    assert glossaries.drop("anna", first.id, "DE", "EN").dictionaries == (WINE,)
    with pytest.raises(UnknownGlossary, match="no dictionary for DE → EN"):
        glossaries.drop("anna", first.id, "DE", "EN")
    renamed = glossaries.rename("anna", first.id, "Inn")
    assert (renamed.name, renamed.id, renamed.created) == ("Inn", first.id, first.created)
    glossaries.delete("anna", first.id)
    assert everything(glossaries, "anna") == []


@pytest.mark.parametrize(
    ("name", "dictionaries", "sentence"),
    [
        ("", [BEER], '"name" has 0 characters; names of glossaries have 1 to 1,024'),
        ("a", [Dictionary("de", "en", {})], '"entries" has 0 terms; one dictionary has 1 to 2.'),
        ("a", [Dictionary("de", "en", dict.fromkeys("abc", "x"))], '"entries" has 3 terms; one dictionary has 1 to 2.'),
        ("a", [Dictionary("de", "en", {"ü" * 6: "x"})], '"entries" has a term of 12 bytes; a term has 1 to 10'),
        ("a", [Dictionary("de", "en", {"a": " "})], '"entries" has a term of 1 bytes; a term has 1 to 10'),
        ("a", [Dictionary("de", "en", {"a": "b\u2028c"})], "a term with a control character"),
        ("a", [BEER, BEER], "Two dictionaries have the same pair; make one of them."),
        ("a", [BEER, WINE, Dictionary("de", "es", {"a": "b"})], "would have 3 dictionaries; one may have 2."),
        ("n" * 1000, [BEER], "one may have 300. Make several of it."),
    ],
)
def test_limits_are_enforced(tmp_path: Path, name: str, dictionaries: list[Dictionary], sentence: str) -> None:
    glossaries = GlossaryStore(tmp_path, GlossaryLimits(dictionaries=2, entries=2, term_bytes=10, file_bytes=300))
    with pytest.raises(InvalidRequest, match=sentence.replace("(", r"\(")):
        glossaries.add("anna", name, dictionaries)
    assert everything(glossaries, "anna") == []


def test_concurrent_adds_respect_the_limit_per_owner(tmp_path: Path) -> None:
    glossaries, refused = GlossaryStore(tmp_path, GlossaryLimits(glossaries_per_owner=3)), []

    def add() -> None:
        try:
            glossaries.add("anna", "Pub", [BEER])
        except InvalidRequest as error:
            refused.append(error.message)

    threads = [threading.Thread(target=add) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(everything(glossaries, "anna")) == 3
    assert len(refused) == 5
    assert refused[0].startswith("You have 3 glossaries, the most that this server keeps for one")
    assert glossaries.add("bert", "Pub", [BEER]).name == "Pub"


def test_concurrent_merges_keep_all_terms(tmp_path: Path) -> None:
    glossaries = GlossaryStore(tmp_path)
    added = glossaries.add("anna", "Pub", [BEER])

    def merge(number: int) -> None:
        GlossaryStore(tmp_path).merge("anna", added.id, [Dictionary("de", "en", {f"t{number}": "x"})])

    threads = [threading.Thread(target=merge, args=[number]) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(glossaries.find("anna", added.id, "de", "en")) == {"Bier", "Wirt", *(f"t{n}" for n in range(12))}


def test_broken_file_is_skipped_and_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    glossaries = GlossaryStore(tmp_path)
    broken, whole = (glossaries.add("anna", name, [BEER]) for name in ("Pub", "Inn"))
    next(tmp_path.rglob(f"{broken.id}.json")).write_bytes(b'{"id":')
    with caplog.at_level(logging.ERROR):
        assert everything(glossaries, "anna") == [whole]
    assert f"{broken.id}.json is not a glossary of this server" in caplog.text
    with pytest.raises(UnknownGlossary):
        glossaries.get("anna", broken.id)


def test_bytes_per_owner_are_bounded(tmp_path: Path) -> None:
    glossaries = GlossaryStore(tmp_path, GlossaryLimits(bytes_per_owner=900))
    big = Dictionary("de", "en", {"Bier": "x" * 300})
    first = glossaries.add("anna", "Pub", [big])
    size = next(tmp_path.rglob("*.json")).stat().st_size
    second = glossaries.add("anna", "Inn", [BEER])
    for attempt in (
        lambda: glossaries.add("anna", "Bar", [big]),
        lambda: glossaries.merge("anna", second.id, [Dictionary("de", "en", {"Glas": "x" * 300})]),
        lambda: glossaries.put("anna", second.id, Dictionary("de", "es", {"Glas": "x" * 300})),
    ):
        with pytest.raises(InvalidRequest) as excinfo:
            attempt()
        sentence = "Your glossaries take all the room that one caller has (900 bytes); delete some."
        assert excinfo.value.message == sentence
    assert everything(glossaries, "anna") == [first, second]
    assert glossaries.add("bert", "Bar", [big]).name == "Bar", "another has room of his own"
    less = GlossaryStore(tmp_path, GlossaryLimits(bytes_per_owner=size))
    assert less.put("anna", first.id, BEER).dictionaries == (BEER,), "what becomes less is no more than there was"
    glossaries.delete("anna", second.id)
    assert glossaries.add("anna", "Bar", [BEER]).name == "Bar"


def test_listing_holds_the_entries_of_one_glossary_at_a_time(tmp_path: Path) -> None:
    glossaries = GlossaryStore(tmp_path)
    entries = {f"{number:04}": "x" * 1000 for number in range(500)}
    for number in range(12):
        glossaries.add("anna", f"{number}", [Dictionary("de", "en", entries)])
    tracemalloc.start()
    try:
        result = glossaries.all("anna", lambda glossary: (glossary.name, len(glossary.dictionaries[0].entries)))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert result == [(f"{number}", 500) for number in range(12)]
    assert most < 2_500_000, "12 of 500 kB"


def test_unknown_id_creates_no_folder(tmp_path: Path) -> None:
    glossaries = GlossaryStore(tmp_path)
    for attempt in (
        lambda: glossaries.get("anna", NOWHERE),
        lambda: glossaries.delete("anna", NOWHERE),
        lambda: glossaries.rename("anna", NOWHERE, "Pub"),
        lambda: glossaries.merge("anna", NOWHERE, [BEER]),
        lambda: glossaries.put("anna", NOWHERE, BEER),
        lambda: glossaries.drop("anna", NOWHERE, "de", "en"),
    ):
        with pytest.raises(UnknownGlossary, match="You have no glossary with this id"):
            attempt()
    assert list(tmp_path.iterdir()) == []


def test_unwritable_folder_raises_engine_unavailable(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "data").touch()  # root can write to every folder, but not into a file
    with pytest.raises(EngineUnavailable) as excinfo:
        GlossaryStore(tmp_path / "data").add("anna", "Pub", [BEER])
    assert excinfo.value.message == UNWRITABLE
    assert "cannot be written" in caplog.text
    assert everything(GlossaryStore(tmp_path / "data"), "anna") == []
    with pytest.raises(UnknownGlossary):
        GlossaryStore(tmp_path / "data").delete("anna", NOWHERE)


def test_unreadable_file_raises_engine_unavailable(tmp_path: Path) -> None:
    glossaries = GlossaryStore(tmp_path)
    added = glossaries.add("anna", "Pub", [BEER])
    path = next(tmp_path.rglob("*.json"))
    path.unlink()
    path.mkdir()
    with pytest.raises(EngineUnavailable, match="cannot read glossaries in its folder PARLANCE_DATA"):
        glossaries.get("anna", added.id)


def test_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    write_atomically(path, b"old")

    def full(_: int) -> None:
        raise OSError("no space")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(EngineUnavailable) as excinfo:
        write_atomically(path, b"new")
    assert excinfo.value.message == UNWRITABLE
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
