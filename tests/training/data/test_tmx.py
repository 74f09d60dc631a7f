"""Translation memories: languages, inline markup, and what an XML file may not do."""

from __future__ import annotations

import tracemalloc
from collections import deque
from pathlib import Path

import pytest

from tests.training.data.corpus_writers import PAIRS, fault, tmx, write
from training.data.corpus_loading import read_pairs, read_tmx

DE_EN = ("de", "en")


def unit(german: str, english: str = "x") -> str:
    return (
        f'<tmx version="1.4"><body><tu><tuv xml:lang="de"><seg>{german}</seg></tuv>'
        f'<tuv xml:lang="en"><seg>{english}</seg></tuv></tu></body></tmx>'
    )


@pytest.mark.every_value
@pytest.mark.parametrize(
    "codes",
    [
        ("de", "en"),
        ("de-DE", "en-GB"),
        ("DE", "EN_us"),
        ("DE_de", "EN_gb"),
        ("deu", "eng"),
        ("ger-DE", "ENG_gb"),
    ],
)
@pytest.mark.parametrize("attribute", ["xml:lang", "lang"])
@pytest.mark.parametrize("name", ["m.tmx", "m.tmx.gz"])
def test_units_become_pairs(tmp_path: Path, codes: tuple[str, str], attribute: str, name: str) -> None:
    path = write(tmp_path / name, tmx(PAIRS, codes, attribute))
    result = read_pairs(str(path), DE_EN)
    assert list(zip(result.sources, result.targets, strict=True)) == PAIRS
    assert [result.place(i) for i in range(2)] == [f"{path}:3", f"{path}:4"]
    assert read_pairs(str(path), ("en", "de")).sources == [target for _, target in PAIRS]


@pytest.mark.parametrize("encoding", ["utf-16", "utf8", "utf-8-sig", "windows-1252"])
def test_other_encodings_that_the_file_declares(tmp_path: Path, encoding: str) -> None:
    declared = tmx(PAIRS).replace("?>", f' encoding="{encoding.removesuffix("-sig")}"?>', 1)
    path = write(tmp_path / "m.tmx", declared.encode(encoding))
    assert read_pairs(str(path), DE_EN).sources == [source for source, _ in PAIRS]


@pytest.mark.parametrize(
    ("segment", "text"),
    [
        ("Ein <hi>rotes</hi> Haus", "Ein rotes Haus"),
        ('Ein <bpt i="1">&lt;b&gt;</bpt>rotes<ept i="1">&lt;/b&gt;</ept> Haus', "Ein rotes Haus"),
        ('Haus<it pos="begin">&lt;i&gt;</it> am <hi type="x">See<ph>&lt;img&gt;</ph></hi>', "Haus am See"),
        ("Fuß<ph>{\\footnote <sub>eine Note <hi>hier</hi></sub>}</ph>note", "Fußnote"),
        ('erste Zeile<ph type="lb"/>zweite', "erste Zeile zweite"),
        ("erste Zeile<ph>&lt;br/&gt;</ph>zweite", "erste Zeile zweite"),
        ("\n    Ein Haus\n    am See\n", "Ein Haus am See"),
        ("A &amp; B &#xfc;ber <![CDATA[<C>]]>", "A & B über <C>"),
    ],
)
def test_inline_markup(tmp_path: Path, segment: str, text: str) -> None:
    path = write(tmp_path / "m.tmx", unit(segment))
    assert read_pairs(str(path), DE_EN).sources == [text]


@pytest.mark.parametrize(
    ("written", "asked"), [("iw", "he"), ("in-ID", "id"), ("he", "iw"), ("cmn", "zh"), ("zh", "chi")]
)
def test_withdrawn_and_long_codes_are_found(tmp_path: Path, written: str, asked: str) -> None:
    path = write(tmp_path / "m.tmx", tmx(PAIRS, (written, "en")))
    assert len(read_pairs(str(path), (asked, "eng"))) == 2


SOUND = "<tu><tuv xml:lang='de'><seg>gut</seg></tuv><tuv xml:lang='en'><seg>good</seg></tuv></tu>"
BROKEN_UNITS = {
    "bare ampersand": (unit("a & b"), "malformed: no well-formed XML"),
    "illegal character": (unit("a \x02 b"), "malformed: no well-formed XML"),
    "unclosed tag": (unit("a <hi>b"), "malformed: no well-formed XML"),
    "no end": ("<tu><tuv xml:lang='de'><seg>a</seg></tuv>", "malformed: no well-formed XML"),
    "entity": (unit("a&nbsp;b"), "malformed: no well-formed XML"),
    "broken UTF-8": (unit("a \udcff b"), "malformed: characters or entities"),
}


@pytest.mark.every_value
@pytest.mark.parametrize("case", BROKEN_UNITS)
@pytest.mark.parametrize("chunk", [5, 1 << 16])
@pytest.mark.parametrize("place", [0, 1])
def test_malformed_unit_is_left_out_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str, chunk: int, place: int
) -> None:
    monkeypatch.setattr("training.data.tmx.CHUNK", chunk)
    broken, reason = BROKEN_UNITS[case]
    lines = [f"<tmx><body>{SOUND}", f"{SOUND}<tu/>", "</body></tmx>"]
    lines.insert(1 + place, broken.removeprefix('<tmx version="1.4"><body>').removesuffix("</body></tmx>"))
    path = write(tmp_path / "m.tmx", "\n".join(lines).encode(errors="surrogateescape"))
    assert "--clean malformed=skip leaves such units out" in fault(path, DE_EN) or case == "entity"
    pairs = read_pairs(str(path), DE_EN, skip_malformed=True)
    assert pairs.sources == ["gut", "gut"]
    dropped = {name: [e.place for e in drops.examples] for name, drops in pairs.reported().dropped.items()}
    assert dropped == {reason: [f"{path}:{2 + place}"], "no segment in de or en": [f"{path}:{3 - place}"]}


def test_declared_encoding_is_read_where_malformed_units_are_left_out(tmp_path: Path) -> None:
    for encoding in ("utf-16", "utf-16-le", "utf-16-be", "utf8", "windows-1252"):
        declared = tmx(PAIRS).replace("?>", f' encoding="{encoding}"?>', 1)
        path = write(tmp_path / "m.tmx", declared.encode(encoding))
        pairs = read_pairs(str(path), DE_EN, skip_malformed=True)
        assert list(zip(pairs.sources, pairs.targets, strict=True)) == PAIRS


def test_file_with_malformed_units_alone_names_the_first(tmp_path: Path) -> None:
    path = write(tmp_path / "m.tmx", unit("a & b"))
    with pytest.raises(
        ValueError, match=r"no unit with both de and en.*left out the first: .* line 1 is not well-formed"
    ):
        read_pairs(str(path), DE_EN, skip_malformed=True)


def test_a_unit_without_one_of_the_languages_is_counted(tmp_path: Path) -> None:
    other = '<tu><tuv xml:lang="fr"><seg>Bonjour</seg></tuv><tuv xml:lang="en"><seg>Hello</seg></tuv></tu>'
    path = write(tmp_path / "m.tmx", tmx(PAIRS).replace("<body>", f"<body>{other}<tu/>"))
    result = read_pairs(str(path), DE_EN)
    assert result.sources == [source for source, _ in PAIRS]
    counts = {name: drops.count for name, drops in result.reported().dropped.items()}
    assert counts == {"no segment in de": 1, "no segment in de or en": 1}


def test_of_two_variants_of_a_language_the_first_is_taken_and_a_region_keeps_apart(tmp_path: Path) -> None:
    two = '<tuv xml:lang="pt-PT"><seg>autocarro</seg></tuv><tuv xml:lang="pt-BR"><seg>ônibus</seg></tuv>'
    path = write(tmp_path / "m.tmx", unit("Bus").replace("<tu>", f"<tu>{two}"))
    assert read_pairs(str(path), ("pt-BR", "de")).sources == ["ônibus"]
    assert read_pairs(str(path), ("pt", "de")).sources == ["autocarro"]
    assert "no unit with both pt-AO and de" in fault(path, ("pt-AO", "de"))


def test_missing_languages_error_lists_present_ones(tmp_path: Path) -> None:
    path = write(tmp_path / "m.tmx", tmx(PAIRS))
    expected = f"{path} has no unit with both de and fr; its languages and their segments: de-DE (2), en-GB (2)."
    assert fault(path, ("de", "fr")) == expected
    assert fault(path) == f"{path} may hold many languages: say which with --source and --target."
    empty = write(tmp_path / "e.tmx", "<tmx><body/></tmx>")
    assert fault(empty, DE_EN).endswith("segments: none.")


BOMB = '<!DOCTYPE tmx [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]>\n'
SECRET = '<!DOCTYPE tmx [\n<!ENTITY a SYSTEM "file:///etc/hostname">]>\n'


@pytest.mark.parametrize(("head", "line"), [(BOMB, 1), (SECRET, 2), ('<!DOCTYPE t [<!ENTITY % a "x"> %a;]>', 1)])
def test_a_declared_entity_is_refused(tmp_path: Path, head: str, line: int) -> None:
    path = write(tmp_path / "m.tmx", head + unit("&a;"))
    assert fault(path, DE_EN) == f"{path} line {line} declares the entity 'a', which is refused: write it out."


def test_the_usual_document_type_is_not_fetched(tmp_path: Path) -> None:
    head = '<?xml version="1.0"?>\n<!DOCTYPE tmx SYSTEM "http://localhost:9/tmx14.dtd">\n'
    path = write(tmp_path / "m.tmx", head + unit("Haus"))
    assert read_pairs(str(path), DE_EN).sources == ["Haus"]
    path = write(tmp_path / "m.tmx", head + unit("Haus&nbsp;am See"))
    assert fault(path, DE_EN) == f"{path} line 3 uses the entity 'nbsp', which the file does not define."


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        (tmx(PAIRS)[:-20], "no element found"),
        (unit("a & b"), "not well-formed (invalid token)"),
        ("", "no element found"),
        ("a\tb\n", "syntax error"),
        (tmx(PAIRS).encode().replace("ü".encode(), b"\xfc"), "not well-formed (invalid token)"),
    ],
)
def test_malformed_xml_names_the_line(tmp_path: Path, content: str | bytes, wanted: str) -> None:
    message = fault(write(tmp_path / "m.tmx", content), DE_EN)
    assert f"{tmp_path / 'm.tmx'} is no well-formed TMX: line " in message
    assert wanted in message


def test_unknown_xml_encoding_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "m.tmx", '<?xml version="1.0" encoding="klingon"?>' + unit("a"))
    assert fault(path, DE_EN).startswith(f"{path}")
    assert "encoding" in fault(path, DE_EN)


def test_a_long_file_is_read_in_bounded_memory(tmp_path: Path) -> None:
    content = tmx([(source * 30, target * 30) for source, target in PAIRS] * 1000)
    path = write(tmp_path / "m.tmx.gz", content)
    tracemalloc.start()
    deque(read_tmx(path, DE_EN), maxlen=0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < len(content) / 4


def test_another_region_is_refused_with_the_code_that_reads_it(tmp_path: Path) -> None:
    path = write(tmp_path / "m.tmx", tmx(PAIRS, ("de-DE", "en-US")))
    has = f"{path} has no unit with both"
    segments = "its languages and their segments: de-DE (2), en-US (2)"
    assert fault(path, ("en-GB", "de")) == (
        f"{has} en-GB and de; {segments}; a code without a region reads every region: en."
    )
    assert fault(path, ("en-GB", "fr-CA")).endswith("reads every region: en.")
    assert fault(path, ("fr-CA", "de")) == f"{has} fr-CA and de; {segments}."
    assert read_pairs(str(path), ("en", "de")).sources == [target for _, target in PAIRS]
