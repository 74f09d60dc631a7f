"""The languages that a model serves, and the token that selects its target."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from models import checkpoint as checkpoints
from tests.training.importers.marian import folders
from training.errors import TrainingError
from training.importers.marian.convert_checkpoint import import_marian
from training.importers.marian.marian_languages import (
    MOST_PAIRS,
    THREE_LETTERS,
    TWO_LETTERS,
    choose_languages,
    language_pairs,
    matching_tokens,
)

TOKENS = (">>deu<<", ">>nds<<", ">>cmn_Hans<<", ">>cmn_Hant<<", ">>pt_br<<", ">>pt<<", ">>nob<<", ">>fr<<")


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        *(("de", [">>deu<<"]), ("deu", [">>deu<<"]), ("DE", [">>deu<<"]), ("nds", [">>nds<<"]), ("fr", [">>fr<<"])),
        *(("fra", [">>fr<<"]), ("zh", [">>cmn_Hans<<", ">>cmn_Hant<<"]), ("cmn-Hant", [">>cmn_Hant<<"])),
        *(("zh-Hant", [">>cmn_Hant<<"]), ("pt-BR", [">>pt_br<<"]), ("pt", [">>pt<<"]), ("no", [">>nob<<"])),
        *(("nb", [">>nob<<"]), ("ja", []), ("d", [])),
    ],
)
def test_a_language_finds_its_token(code: str, expected: list[str]) -> None:
    assert matching_tokens(code, TOKENS) == expected


def test_two_and_three_letters_belong_together() -> None:
    assert THREE_LETTERS["zh"] == ("zho", "cmn")
    assert TWO_LETTERS["deu"] == "de"
    assert TWO_LETTERS["nob"] == "nb"  # and not the no that is written so too
    assert all(len(two) == 2 and all(len(name) == 3 for name in names) for two, names in THREE_LETTERS.items())


def imported_languages(
    source: str | None = "en", target: str | None = "de", prefix: str | None = None, **options: Any
) -> Any:
    return choose_languages(source, target, prefix, options, {}, TOKENS)


def test_the_token_follows_from_the_target_or_is_given() -> None:
    assert imported_languages() == ("en", "de", ">>deu<<")
    assert imported_languages(target="zh", prefix="cmn_Hans") == ("en", "zh", ">>cmn_Hans<<")
    assert imported_languages(target="zh", prefix=">>cmn_Hans<<").prefix == ">>cmn_Hans<<"
    assert imported_languages(prefix="none").prefix is None


def test_the_folder_may_name_the_languages() -> None:
    assert imported_languages(None, None, source_lang="eng", target_lang="deu") == ("en", "de", ">>deu<<")
    assert imported_languages("fr", None, source_lang="eng", target_lang="nds") == ("fr", "nds", ">>nds<<")


@pytest.mark.parametrize("group", ["roa", "mul", "ROMANCE", "", 7])
def test_language_groups_are_no_language(group: Any) -> None:
    with pytest.raises(TrainingError, match="does not say which its source language is: give --source"):
        imported_languages(None, "de", source_lang=group)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (("en", "ja"), "This model has several target languages: give another --target or a --prefix"),
        (("en", "zh"), r"several language tokens for zh \(>>cmn_Hans<<, >>cmn_Hant<<\)"),
        (("en", "de", "ja"), r"holds no language token >>ja<<; it holds >>deu<<, >>nds<<"),
        (("auto", "de"), "--source must be a language code such as de or pt-BR, not 'auto'"),
        (("en", "d/e"), "--target must be a language code"),
        ((None, "de"), "give --source, such as de"),
    ],
)
def test_ambiguous_languages_are_refused(given: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(TrainingError, match=sentence) as refusal:
        imported_languages(*given)
    if "several" in sentence:
        assert all(token in str(refusal.value) for token in TOKENS)


def test_a_prefix_stands_before_every_text_that_names_no_language(tmp_path: Path) -> None:
    folder = folders.write(tmp_path / "folder", languages=[">>eng<<", ">>spa<<"])
    import_marian(str(folder), tmp_path / "out", target="es")
    checkpoint = checkpoints.read(tmp_path / "out")
    reader, config = checkpoint.tokenizers["source"], checkpoint.config
    english, spanish = (reader.encode(f">>{name}<<")[0] for name in ("eng", "spa"))
    assert (config.source_language, config.target_language) == ("de", "es")
    assert config.source_prefix == (spanish,)
    text = reader.encode("der hund")
    assert len(text) > 1
    assert checkpoint.source_ids("der hund") == (spanish, *text, *config.source_suffix)
    assert checkpoint.source_ids(">>eng<< der hund") == (english, *text, *config.source_suffix)
    assert checkpoint.source_ids("") == (spanish, *config.source_suffix)


def test_without_a_choice_each_text_names_its_own(tmp_path: Path) -> None:
    folder = folders.write(tmp_path / "folder", languages=[">>eng<<", ">>spa<<"])
    import_marian(str(folder), tmp_path / "out", prefix="none")
    checkpoint = checkpoints.read(tmp_path / "out")
    assert checkpoint.config.source_prefix == ()
    assert checkpoint.source_ids("") == checkpoint.config.source_suffix


def test_several_targets_are_imported_at_once(tmp_path: Path) -> None:
    folder = folders.write(tmp_path / "folder", languages=[">>eng<<", ">>spa<<"])
    summary = import_marian(str(folder), tmp_path / "out", target="es,en")
    checkpoint = checkpoints.read(tmp_path / "out")
    reader = checkpoint.tokenizers["source"]
    english, spanish = (reader.encode(f">>{name}<<")[0] for name in ("eng", "spa"))
    assert [(pair.source, pair.target, pair.source_prefix) for pair in checkpoint.config.language_pairs] == [
        ("de", "es", (spanish,)),
        ("de", "en", (english,)),
    ]
    pairs = summary["language_pairs"]
    assert isinstance(pairs, list)
    assert [pair["prefix"] for pair in pairs] == [">>spa<<", ">>eng<<"]
    text = reader.encode("der hund")
    assert checkpoint.for_pair("de", "en").source_ids("der hund")[:-1] == (english, *text)
    import_marian(str(folder), tmp_path / "all", target="all")
    every = checkpoints.read(tmp_path / "all").config.language_pairs
    assert [(pair.target, pair.source_prefix) for pair in every] == [("en", (english,)), ("es", (spanish,))]
    card = (tmp_path / "all/README.md").read_text()
    assert "Translates de to en, de to es, sentence by sentence." in card
    assert "behind the language token of its target, `>>eng<<`, `>>spa<<`" in card


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"target": "es,fr"}, "This model has several target languages: give another --target"),
        ({"target": "es,en", "prefix": "spa"}, "--prefix is the token of one target"),
    ],
)
def test_several_targets_need_a_token_each(tmp_path: Path, options: dict[str, str], sentence: str) -> None:
    folder = folders.write(tmp_path / "folder", languages=[">>eng<<", ">>spa<<"])
    with pytest.raises(TrainingError, match=sentence):
        import_marian(str(folder), tmp_path / "out", **options)


# The lines on languages of four generations of OPUS-MT model cards, and the source and target in tokenizer_config.json
OPUS_2020 = (
    "### opus-mt-ROMANCE-en\n\n* source languages: fr,fr_BE,fr_CA,es,es_AR,pt_br,ze_zh,wa\n* target languages: en\n"
)
TATOEBA = (
    "* source group: English \n* target group: Chinese \n* source language(s): eng\n"
    "* target language(s): cmn cmn_Hans cmn_Hant yue_Hant\n* a sentence initial language token is required\n"
)
TC_BIG = (
    "* source language(s): rus ukr\n* target language(s): dan nob nor swe\n* valid target language labels: >>dan<<\n"
)
TC_BIBLE = (
    "- **Language(s):**  \n  - Source Language(s): deu eng\n  - Target Language(s): afr deu\n"
    "  - Valid Target Language Labels: >>act<< >>afr<< >>deu<<\n"
)
CHINESE_TOKENS = (">>cmn<<", ">>cmn_Hans<<", ">>cmn_Hant<<", ">>yue_Hant<<", ">>zho<<")


@pytest.mark.parametrize(
    ("recorded", "tokens", "card", "expected"),
    [
        (("ROMANCE", "en"), (), OPUS_2020, "fr→en es→en pt-br→en wa→en"),
        (("eng", "zho"), CHINESE_TOKENS, TATOEBA, "en→zh en→zh-Hans en→zh-Hant en→yue-Hant"),
        (("zle", "gmq"), (">>dan<<", ">>nob<<", ">>nor<<", ">>swe<<", ">>qer<<"), TC_BIG,
         "ru→da ru→nb ru→no ru→sv uk→da uk→nb uk→no uk→sv"),
        (("deu+eng", "gmw"), (">>act<<", ">>afr<<", ">>deu<<"), TC_BIBLE, "de→af en→af en→de"),
        (("deu_eng", "gmw"), (">>act<<", ">>afr<<", ">>deu<<"), "", "de→act de→af en→act en→af en→de"),
        (("en", "zh"), (">>cmn<<", ">>zho<<", ">>cmn_Hans<<", ">>zho_Hans<<"), "",
         "en→cmn en→zh en→cmn-Hans en→zh-Hans"),
        (("pt_br", "en"), (), "", "pt_br→en"),
        (("zle", "en"), (), "* source language(s): rus\n", "ru→en"),
    ],
)  # fmt: skip
def test_a_multilingual_folder_offers_every_pair_of_its_card(
    recorded: tuple[str, str], tokens: tuple[str, ...], card: str, expected: str
) -> None:
    options = dict(zip(("source_lang", "target_lang"), recorded, strict=True))
    pairs = language_pairs(None, None, None, options, {}, tokens, card)
    assert " ".join(f"{pair.source}→{pair.target}" for pair in pairs) == expected
    for pair in pairs:
        assert pair.prefix in tokens if tokens else pair.prefix is None


def test_every_token_of_two_scripts_keeps_a_code_of_its_own() -> None:
    tokens = (">>srp_Cyrl<<", ">>srp_Latn<<", ">>ara<<", ">>arb<<", ">>pt_br<<", ">>pt_BR<<")
    pairs = language_pairs("en", "all", None, {}, {}, tokens)
    expected = {"sr-Cyrl": 0, "sr-Latn": 1, "ar": 2, "arb": 3, "pt-br": 4}
    assert {pair.target: pair.prefix for pair in pairs} == {code: tokens[i] for code, i in expected.items()}


def test_too_many_pairs_are_refused_before_a_choice() -> None:
    codes = [a + b + c for a in "abcdef" for b in "abcdefghij" for c in "xyz"][: int(MOST_PAIRS**0.5) + 1]
    card = f"* source language(s): {' '.join(codes)}\n* target language(s): {' '.join(codes)}\n"
    tokens = tuple(f">>{code}<<" for code in codes)
    with pytest.raises(TrainingError, match="reads 101 languages and writes 101, too many pairs to serve all of them"):
        language_pairs(None, None, None, {"source_lang": "mul", "target_lang": "mul"}, {}, tokens, card)
    assert len(language_pairs(",".join(codes[:3]), None, None, {}, {}, tokens, card)) == 3 * 101 - 3


def test_a_multilingual_folder_is_imported_without_a_choice(tmp_path: Path) -> None:
    folder = folders.write(
        tmp_path / "folder",
        languages=[">>eng<<", ">>fra<<", ">>spa<<"],
        tokenizer={"target_lang": "itc", "model_max_length": 100},
    )
    (folder / "README.md").write_text("* source language(s): deu\n* target language(s): fra spa\n", encoding="utf-8")
    import_marian(str(folder), tmp_path / "out")
    config = checkpoints.read(tmp_path / "out").config
    assert [(pair.source, pair.target) for pair in config.language_pairs] == [("de", "fr"), ("de", "es")]
    assert config.max_source_tokens == 100  # and not the 128 positions
