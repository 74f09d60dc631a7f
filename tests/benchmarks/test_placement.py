"""Whether the judge of `benchmarks.placement` agrees with a reader."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.placement import SYNTAXES, in_slots, tokens

REFERENCES = {
    "Ich heiße {name} und wohne in {city}.": (
        "My name is {name} and I live in {city}.",
        "I am called {name} and live in {city}.",
    ),
    "Ein Hund namens {name} jagt {item}.": ("A dog named {name} is chasing {item}.",),
    "Möchten Sie {item} oder Tee?": ("Would you like {item} or tea?",),
    "Guten Morgen, {name}!": ("Good morning, {name}!",),
    "Ich fahre morgen nach {city}.": ("I am going to {city} tomorrow.", "Tomorrow I am going to {city}."),
}


@pytest.mark.parametrize(
    ("source", "translation", "right"),
    [
        ("Ich heiße {name} und wohne in {city}.", "My name is {name} and I live in {city}.", True),
        ("Ich heiße {name} und wohne in {city}.", "I'm {name} and I work in {city}.", True),
        ("Ich heiße {name} und wohne in {city}.", "My name is and I {name} live in {city}.", False),
        ("Ich heiße {name} und wohne in {city}.", "My name is {city} and I live in {name}.", False),
        ("Ich heiße {name} und wohne in {city}.", "My name is {name} and I live in Berlin.", False),
        ("Ich heiße {name} und wohne in {city}.", "My name is {name} {name} and I live in {city}.", False),
        ("Ein Hund namens {name} jagt {item}.", "A dog called {name} is chasing {item}.", True),
        ("Ein Hund namens {name} jagt {item}.", "A dog is chasing {item} {name}.", False),
        ("Möchten Sie {item} oder Tee?", "Do you {item} want oder?", False),
        ("Guten Morgen, {name}!", "Good morning, {name}!", True),
        ("Guten Morgen, {name}!", "Good morning {name},!", False),
        ("Ich fahre morgen nach {city}.", "Tomorrow I'm going to {city}.", True),
        ("Ich fahre morgen nach {city}.", "I am going to tomorrow {city}.", False),
    ],
)
def test_placeholders_are_judged_by_order_and_neighbours(source: str, translation: str, right: bool) -> None:
    names = re.findall(r"\{(\w+)\}", source)
    references = [tokens(reference, names, SYNTAXES[0]) for reference in REFERENCES[source]]
    assert in_slots(tokens(translation, names, SYNTAXES[0]), references, [f"⟨{name}⟩" for name in names]) is right


def test_every_reference_has_the_placeholders_of_its_sentence() -> None:
    folder = Path("benchmarks/placement_sentences")
    counts = {}
    for file in folder.iterdir():
        lines = [line.split(" | ") for line in file.read_text(encoding="utf-8").splitlines() if line[0] != "#"]
        counts[file.stem] = len(lines)
        for line in lines:
            names = [sorted(re.findall(r"\{(\w+)\}", text)) for text in line]
            assert 1 <= len(set(names[0])) == len(names[0]) <= 3
            assert all(each == names[0] for each in names[1:]), line
    assert counts == {"demo_de-en": 300, "demo_en-es": 60, "multi30k_de-en": 150}
