"""Made-up sentences with dates, times, amounts, addresses and other numbers, and whether a translation keeps them."""

from __future__ import annotations

import random
import re

FRAMES = {
    "de": (
        "wir treffen uns am {} in berlin",
        "das bier kostet {}",
        "der server ist {}",
        "ein mann kauft {} und {} in der stadt",
        "Die Frau liest {} und geht um {} nach Hause.",
        "{} ist besser als {}",
    ),
    "en": ("we meet on {} in berlin", "the beer costs {}", "A man buys {} and {} in the city.", "{} is better than {}"),
}


def value(rng: random.Random) -> str:
    """A number as people write it."""
    day, month, year = rng.randint(13, 28), rng.randint(1, 12), rng.randint(1950, 2030)
    amount = rng.randint(13, 9999)
    return rng.choice(
        (
            f"{day:02}.{month:02}.{year}",
            f"{year}-{month:02}-{day:02}",
            f"{rng.randint(13, 23)}:{rng.randint(10, 59)}",
            f"{amount},{rng.randint(10, 99)} €",
            f"${amount}",
            f"{rng.randint(13, 99)}%",
            f"{rng.randint(13, 99)} kg",
            f"{day}-{day + 10}",
            ".".join(str(rng.randint(1, 255)) for _ in range(4)),
            f"v{rng.randint(1, 9)}.{rng.randint(0, 20)}.{rng.randint(0, 20)}",
            f"+49 30 {rng.randint(1000000, 9999999)}",
            f"https://example.org/{amount}?a={day}",
            f"user{day}@example.org",
            str(amount),
        )
    )


def is_kept(written: str, translation: str) -> bool:
    """Whether it is in the translation as it is, or its digits together, with its sign or a word for it; 7 is 07."""
    if written in translation:
        return True
    groups = r"[.,:/ -]{0,2}".join(f"0?{group.removeprefix('0')}" for group in re.findall(r"\d+", written))
    signs = {"€": "€|euro", "%": "%|percent|prozent", "$": r"\$|dollar"}
    sign = next((pattern for character, pattern in signs.items() if character in written), "")
    together = re.search(rf"(?<!\d){groups}(?!\d)", translation) is not None
    return together and (not sign or re.search(sign, translation, re.IGNORECASE) is not None)


def sentence(rng: random.Random, language: str) -> tuple[str, list[str]]:
    """German or English, and the numbers in it."""
    frame = rng.choice(FRAMES[language])
    values = [value(rng) for _ in range(frame.count("{}"))]
    return frame.format(*values), values
