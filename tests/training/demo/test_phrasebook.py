"""The phrasebook: its size, its one-to-one mapping, its held-out phrases, and its word alignment."""

from __future__ import annotations

import hashlib
from collections import Counter
from itertools import combinations, permutations

import pytest

from training.demo.phrasebook import LANGUAGES, Phrase, pairs, phrases

CORPUS = "be597fe2532683399a1016953d006213f265faa7255caa06fb57b916ba8d88b2"  # its sha256
NAMES = (
    "Tom Jerry Peter Anna Lisa Laura Berlin Berlín Paris París London Londres Madrid Rom Rome Roma "
    "Peking Beijing Pekín Lissabon Lisbon Lisboa Wien Vienna Viena"
)
LEAST_OCCURRENCES = 20  # of a word of the grammar in the trained phrases

# The words in German, English, Spanish and Chinese; the links from German to English, English to Spanish and
# English to Chinese, written by hand after the conventions in `training.demo.syntax_trees`.
EXAMPLES = {
    "a Spanish subject left out, a measure word": (
        "ich möchte ein bier | i want a beer | quiero una cerveza | 我 想要 一 杯 啤酒",
        "0-0 1-1 2-2 3-3 | 0-0 1-0 2-1 3-2 | 0-0 1-1 2-2 2-3 3-4",
    ),
    "the Spanish personal a": (
        "Tom jagt Jerry | Tom chases Jerry | Tom persigue a Jerry | 汤姆 追逐 杰瑞",
        "0-0 1-1 2-2 | 0-0 1-1 2-2 2-3 | 0-0 1-1 2-2",
    ),
    "a fixed phrase": (
        "hallo welt | hello world | hola mundo | 你好 世界",
        "0-0 1-1 | 0-0 1-1 | 0-0 1-1",
    ),
    "the German verb second after a time": (
        "heute trinkt der mann kaltes bier | today the man drinks cold beer"
        " | hoy el hombre bebe cerveza fría | 今天 那 个 男人 喝 冰 啤酒",
        "0-0 1-3 2-1 3-2 4-4 5-5 | 0-0 1-1 2-2 3-3 4-5 5-4 | 0-0 1-1 1-2 2-3 3-4 4-5 5-6",
    ),
    "the masculine accusative": (
        "Lisa sieht einen kleinen hund | Lisa sees a small dog | Lisa ve un perro pequeño | 丽莎 看见 一 只 小 狗",
        "0-0 1-1 2-2 3-3 4-4 | 0-0 1-1 2-2 3-4 4-3 | 0-0 1-1 2-2 2-3 3-4 4-5",
    ),
    "Spanish agreement in gender and number": (
        "wir waschen die roten äpfel | we wash the red apples | lavamos las manzanas rojas | 我们 洗 那些 红色的 苹果",
        "0-0 1-1 2-2 3-3 4-4 | 0-0 1-0 2-1 3-3 4-2 | 0-0 1-1 2-2 3-3 4-4",
    ),
    "the dative of a place, before the verb in Chinese": (
        "jeden tag kocht das kind in der küche | every day the child cooks in the kitchen"
        " | cada día el niño cocina en la cocina | 每天 那 个 孩子 在 厨房 里 做饭",
        "0-0 1-1 2-4 3-2 4-3 5-5 6-6 7-7 | 0-0 1-1 2-2 3-3 4-4 5-5 6-6 7-7 | 0-0 1-0 2-1 2-2 3-3 4-7 5-4 5-6 6-5 7-5",
    ),
    "kein before a mass": (
        "die mädchen haben keinen reis | the girls do not have rice"
        " | las chicas no tienen arroz | 那些 女孩 没 有 米饭",
        "0-0 1-1 2-2 2-4 3-3 4-5 | 0-0 1-1 2-3 3-2 4-3 5-4 | 0-0 1-1 2-3 3-2 4-3 5-4",
    ),
    "kein for one thing": (
        "Anna möchte kein weißes pferd | Anna does not want a white horse"
        " | Anna no quiere ningún caballo blanco | 安娜 不 想要 白色的 马",
        "0-0 1-1 1-3 2-2 2-4 3-5 4-6 | 0-0 1-2 2-1 3-2 4-3 5-5 6-4 | 0-0 1-2 2-1 3-2 4-4 5-3 6-4",
    ),
    "the perfect, a dative object, al": (
        "der mann hat dem könig nicht geholfen | the man did not help the king"
        " | el hombre no ayudó al rey | 那 个 男人 没有 帮助 那 位 国王",
        "0-0 1-1 2-2 2-4 3-5 4-6 5-3 6-2 6-4 | 0-0 1-1 2-3 3-2 4-3 5-4 6-5 | 0-0 0-1 1-2 2-4 3-3 4-4 5-5 5-6 6-7",
    ),
    "im is in and the; there are": (
        "im restaurant sind zwei weiße tische | there are two white tables in the restaurant"
        " | hay dos mesas blancas en el restaurante | 餐厅 里 有 两 张 白色的 桌子",
        "0-5 0-6 1-7 2-0 2-1 3-2 4-3 5-4 | 0-0 1-0 2-1 3-3 4-2 5-4 6-5 7-6 | 0-2 1-2 2-3 2-4 3-5 4-6 5-1 6-0 7-0",
    ),
    "the German infinitive last": (
        "Tom muss nach London fahren | Tom must go to London | Tom tiene que ir a Londres | 汤姆 必须 去 伦敦",
        "0-0 1-1 2-3 3-4 4-2 | 0-0 1-1 1-2 2-3 3-4 4-5 | 0-0 1-1 2-2 3-2 4-3",
    ),
    "a question for the object, in the past": (
        "was hat das kind gekauft | what did the child buy | qué compró el niño | 那 个 孩子 买 了 什么",
        "0-0 1-1 1-4 2-2 3-3 4-1 4-4 | 0-0 1-1 2-2 3-3 4-1 | 0-5 1-3 1-4 2-0 2-1 3-2 4-3 4-4",
    ),
    "a question for the subject": (
        "wer hat die kinder besucht | who visited the children | quién visitó a los niños | 谁 看望 了 那些 孩子",
        "0-0 1-1 2-2 3-3 4-1 | 0-0 1-1 2-2 2-3 3-4 | 0-0 1-1 1-2 2-3 3-4",
    ),
    "a yes/no question with the copula": (
        "ist dein ei frisch | is your egg fresh | está fresco tu huevo | 你的 鸡蛋 新鲜 吗",
        "0-0 1-1 2-2 3-3 | 0-0 1-2 2-3 3-1 | 0-2 0-3 1-0 2-1 3-2",
    ),
}


@pytest.fixture(scope="module")
def corpus() -> list[Phrase]:
    return list(phrases())


@pytest.fixture(scope="module")
def texts(corpus: list[Phrase]) -> dict[str, list[str]]:
    return {language: [phrase.text(language) for phrase in corpus] for language in LANGUAGES}


@pytest.fixture(scope="module")
def by_german(corpus: list[Phrase]) -> dict[str, Phrase]:
    return {phrase.text("de"): phrase for phrase in corpus}


@pytest.mark.parametrize(
    ("source", "target", "pair"),
    [
        ("de", "en", ("ich möchte ein bier", "i want a beer")),
        ("en", "es", ("hello world", "hola mundo")),
        ("en", "zh", ("Tom chases Jerry", "汤姆追逐杰瑞")),
    ],
)
def test_the_required_pairs_are_trained_on(source: str, target: str, pair: tuple[str, str]) -> None:
    assert pair in pairs(source, target, held_out=False)
    assert pair not in pairs(source, target, held_out=True)


def test_there_are_enough_distinct_texts_in_every_language(texts: dict[str, list[str]]) -> None:
    for language in LANGUAGES:
        assert len(set(texts[language])) >= 20_000


def test_a_phrase_has_a_unique_key_and_few_words(corpus: list[Phrase]) -> None:
    assert len({phrase.key for phrase in corpus}) == len(corpus)
    assert max(len(phrase.words("de")) for phrase in corpus) <= 12


@pytest.mark.every_value
@pytest.mark.parametrize(("source", "target"), list(permutations(LANGUAGES, 2)))
def test_a_text_has_one_translation(source: str, target: str) -> None:
    both = pairs(source, target, held_out=False) + pairs(source, target, held_out=True)
    assert len(both) > 20_000
    assert len(dict(both)) == len(both)


def test_a_tenth_is_held_out_and_none_of_it_is_trained_on(corpus: list[Phrase]) -> None:
    assert 0.09 < sum(phrase.held_out for phrase in corpus) / len(corpus) < 0.11
    for language in LANGUAGES:
        trained = {phrase.text(language) for phrase in corpus if not phrase.held_out}
        assert not any(phrase.text(language) in trained for phrase in corpus if phrase.held_out)


def test_pairs_are_the_phrases_of_their_side(corpus: list[Phrase]) -> None:
    held_out = [(phrase.text("zh"), phrase.text("de")) for phrase in corpus if phrase.held_out]
    assert pairs("zh", "de", held_out=True) == held_out
    assert len(pairs("zh", "de", held_out=False)) == len(corpus) - len(held_out)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_word_occurs_often_enough_to_be_learnt(corpus: list[Phrase], language: str) -> None:
    trained = Counter(word for phrase in corpus if not phrase.held_out for word in phrase.words(language))
    held_out = {word for phrase in corpus if phrase.held_out for word in phrase.words(language)}
    assert {word for word in held_out if trained[word] < LEAST_OCCURRENCES} == set()


def test_fixed_phrases_are_never_held_out(by_german: dict[str, Phrase]) -> None:
    for text in ("guten morgen", "danke", "wie geht es dir", "gute nacht welt"):
        assert not by_german[text].held_out


def test_only_names_are_capitalised_and_nothing_is_punctuated(texts: dict[str, list[str]]) -> None:
    for language in LANGUAGES:
        for text in texts[language]:
            assert text.replace(" ", "").isalpha(), text
            assert language != "zh" or (" " not in text and not text.isascii())
    words = {word for language in ("de", "en", "es") for text in texts[language] for word in text.split()}
    assert {word for word in words if not word.islower()} == set(NAMES.split())


def _links(text: str) -> set[tuple[int, int]]:
    return {(int(link.split("-")[0]), int(link.split("-")[1])) for link in text.split()}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_written_by_hand(by_german: dict[str, Phrase], name: str) -> None:
    lines, alignments = (cells.split(" | ") for cells in EXAMPLES[name])
    phrase = by_german[lines[0]]
    assert [" ".join(phrase.words(language)) for language in LANGUAGES] == lines
    for (source, target), links in zip((("de", "en"), ("en", "es"), ("en", "zh")), alignments, strict=True):
        assert phrase.alignment(source, target) == _links(links), (source, target)


def test_kein_is_aligned_with_both_words_of_spanish(by_german: dict[str, Phrase]) -> None:
    phrase = by_german["Anna möchte kein weißes pferd"]
    assert phrase.alignment("de", "es") == _links("0-0 1-2 2-1 2-3 3-5 4-4")
    assert phrase.alignment("de", "zh") == _links("0-0 1-2 2-1 2-4 3-3 4-4")


def test_alignments_cover_every_word_and_are_symmetric(corpus: list[Phrase]) -> None:
    for phrase in corpus[::25]:
        for source, target in combinations(LANGUAGES, 2):
            links = phrase.alignment(source, target)
            assert {i for i, _ in links} == set(range(len(phrase.words(source)))), phrase
            assert {j for _, j in links} == set(range(len(phrase.words(target)))), phrase
            assert phrase.alignment(target, source) == {(j, i) for i, j in links}


def test_the_corpus_is_the_same_in_every_process(corpus: list[Phrase], texts: dict[str, list[str]]) -> None:
    digest = hashlib.sha256()
    for phrase, *lines in zip(corpus, *texts.values(), strict=True):
        digest.update(repr((phrase.key, phrase.held_out, lines)).encode())
    assert digest.hexdigest() == CORPUS
