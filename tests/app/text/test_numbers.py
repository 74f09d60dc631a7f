"""Numbers of a text, and which of them a translation lost."""

from __future__ import annotations

import pytest

from app.text.numbers import digits, lost_numbers, numbers_in, surplus_numbers


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("1,000.00 und 1.000,00", ["1,000.00", "1.000,00"]),
        ("3.5 10 000 2'500'000 5", ["3.5", "10 000", "2'500'000", "5"]),
        ("am 3.10.2026 um 12:30", ["3.10.2026", "12:30"]),
        ("2024-03-12, 3/4/24", ["2024-03-12", "3/4/24"]),
        ("A380 50 % €5 5 600", ["A380", "50 %", "€5", "5 600"]),
        ("4,50 € US$5 £3 -5 °C (-3) a-3", ["4,50 €", "US$5", "£3", "-5 °C", "-3", "3"]),
        ("10–20 1990-1995 3:2 24/7 2x3", ["10–20", "1990-1995", "3:2", "24/7", "2x3"]),
        ("5 kg 120 km/h 5 bier 3 am Tag", ["5 kg", "120 km/h", "5", "3"]),
        ("3, 4, 5.", ["3", "4", "5"]),
        ("1.2.3", ["1", "2", "3"]),
        ("٣٫٥", ["٣٫٥"]),
    ],
)
def test_numbers_with_their_signs(text: str, wanted: list[str]) -> None:
    assert [text[number.start : number.end] for number in numbers_in(text)] == wanted


def test_numbers_beside_other_spans_are_skipped() -> None:
    assert [number.key for number in numbers_in("https://x.org/12 has 7", [(0, 16)])] == ["7"]


def test_digits_of_any_script() -> None:
    assert digits("1,000.00") == digits("1.000,00") == "100000"
    assert digits("٣٫٥") == "35"


@pytest.mark.parametrize(
    ("source", "translation"),
    [
        ("1.000,50", "1,000.50"),
        ("am 12.03.2024", "on March 12, 2024"),
        ("am 12.03.2024", "on 03/12/2024"),
        ("am 12.03.2024", "on 2024-03-12"),
        ("um 14:30", "at 2:30 p.m."),
        ("um 09:05", "at 9.05"),
        ("10-20 Leute", "10 to 20 people"),
        ("50% von 4,50 €", "50 percent of €4.50"),
        ("4,50 €", "4.50 euros"),
        ("bei -5 °C", "at minus 5 degrees"),
        ("3 bier und 1 brot", "three beers and a loaf"),
        ("am 3. Mai", "on the third of May"),
        ("3,5 kg und 0,125 g", "3.5 kg and 0.125 g"),
        ("1.234,567", "1,234.567"),
        ("um 8.30 Uhr", "at 8:30"),
        ("um 14h30", "at 14:30"),
        ("14-24", "14 to 24"),
        ("EUR 5 und § 12", "5 euros and Section 12"),
        ("am 12.03.2024", "on 12 March 2024"),
        ("in 10 min, 3 h", "in 10 minutes, 3 hours"),
        ("5 km und 2 kg", "5公里和2 кг"),
    ],
)
def test_another_way_to_write_a_number_keeps_it(source: str, translation: str) -> None:
    assert lost_numbers(numbers_in(source), translation, numbers_in(translation), "en") == []


@pytest.mark.parametrize(
    ("source", "translation", "lost"),
    [
        ("am 12.03.2024", "in 2024", [("12.03.2024", None)]),
        ("am 12.03.2024", "on the 12 03 2024", [("12.03.2024", "12 03 2024")]),
        ("um 12:30", "at 30", [("12:30", None)]),
        ("10-20 Leute", "10 20 people", [("10-20", "10 20")]),
        ("4,50 €", "the 4.50", [("4,50 €", "4.50")]),
        ("50% der Leute", "50 people", [("50%", "50")]),
        ("bei -5 °C", "at 5 °C", [("-5 °C", "5 °C")]),
        ("3 bier und 5 brote", "three beers and bread", [("5", None)]),
        ("5 und 5 und 1.000", "5 and 1,000", [("5", None)]),
        ("am 3.4.", "on the 34", [("3.4", None)]),
        ("10-12 km", "1012 km", [("10-12 km", None)]),
        ("14-24", "14 men are serving 24", [("14-24", "14 men are serving 24")]),
        ("EUR 5 und § 12", "5 and 12", [("EUR 5", "5"), ("§ 12", "12")]),
        ("27%", "at 27:00", [("27%", "27:00")]),
        ("am 22.07.1984", "on 22.17.1984", [("22.07.1984", None)]),
        ("am 14.09.2028", "on 14.4.09.2028", [("14.09.2028", "14.4.09.2028")]),
        ("am 13.01.2019", "on 13.03.101.2019", [("13.01.2019", None)]),
        ("um 14h30", "at 14", [("14h30", None)]),
        ("1 kg Brot, 5 km weit", "1 kotl bread, 5 far", [("1 kg", "1"), ("5 km", "5")]),
    ],
)
def test_lost_and_torn_numbers(source: str, translation: str, lost: list[tuple[str, str | None]]) -> None:
    result = lost_numbers(numbers_in(source), translation, numbers_in(translation), "en")
    assert [
        (source[each.number.start : each.number.end], each.place and translation[slice(*each.place)]) for each in result
    ] == lost


def test_small_numbers_may_be_words_in_a_language_without_a_table() -> None:
    assert lost_numbers(numbers_in("2 Hunde"), "xx yy", [], "qqq") == []
    assert lost_numbers(numbers_in("20 Hunde"), "xx yy", [], "qqq")


def test_surplus_numbers_are_those_of_the_translation_alone() -> None:
    translation = "12 people in 2024 and 500 more"
    surplus = surplus_numbers(numbers_in("am 12.03.2024"), numbers_in(translation))
    assert [translation[number.start : number.end] for number in surplus] == ["500"]
