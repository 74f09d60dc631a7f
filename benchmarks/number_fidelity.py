"""How many dates, times, amounts, addresses and other numbers of generated sentences a translation keeps.

python -m benchmarks.number_fidelity --checkpoint DIR [--source de] [--target en] [--count 1000] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from app.engine.interface import TranslationOptions
from app.translation import TextRequest
from benchmarks.fidelity import translating
from benchmarks.report import finish, goal

SEED = 20261123
AT_ONCE = 64  # sentences
SHOWN = 5
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
    """Whether it is in the translation as it is, or its digits together, with its sign or a word for it."""
    if written in translation:
        return True
    groups = r"[.,:/ -]{0,2}".join(re.findall(r"\d+", written))
    signs = {"€": "€|euro", "%": "%|percent|prozent", "$": r"\$|dollar"}
    sign = next((pattern for character, pattern in signs.items() if character in written), "")
    together = re.search(rf"(?<!\d){groups}(?!\d)", translation) is not None
    return together and (not sign or re.search(sign, translation, re.IGNORECASE) is not None)


async def measured(checkpoint: Path, source: str, target: str, count: int) -> dict[str, Any]:
    rng = random.Random(SEED)
    sentences: list[tuple[str, list[str]]] = []
    for _ in range(count):
        frame = rng.choice(FRAMES[source])
        values = [value(rng) for _ in range(frame.count("{}"))]
        sentences.append((frame.format(*values), values))
    translations: list[str] = []
    async with translating(checkpoint) as translator:
        for start in range(0, count, AT_ONCE):
            texts = [text for text, _ in sentences[start : start + AT_ONCE]]
            jobs = [TextRequest(text, TranslationOptions(source, target)) for text in texts]
            translations += [each.text for each in await translator.translate(jobs)]
    lost = [
        f"{text} | {translation}"
        for (text, values), translation in zip(sentences, translations, strict=True)
        if not all(is_kept(each, translation) for each in values)
    ]
    return {"sentences": count, "whole": count - len(lost), "lost": lost[:SHOWN]}


def main(argv: Sequence[str] | None = None) -> None:
    top = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    top.add_argument("--checkpoint", type=Path, required=True)
    top.add_argument("--source", default="de", choices=FRAMES)
    top.add_argument("--target", default="en")
    top.add_argument("--count", type=int, default=1000)
    top.add_argument("--results", type=Path, help="a file that gets the object that --json prints")
    top.add_argument("--json", action="store_true")
    given = top.parse_args(argv)
    row = asyncio.run(measured(given.checkpoint, given.source, given.target, given.count))
    share = round(100 * row["whole"] / row["sentences"], 2)
    goals = [goal("generated sentences that keep all their numbers", share, 100.0, "%", "higher")]
    finish("number_fidelity", [row], goals, as_json=given.json, out=given.results)


if __name__ == "__main__":
    main()
