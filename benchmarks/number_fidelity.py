"""How many dates, times, amounts, addresses and other numbers of generated sentences a translation keeps.

python -m benchmarks.number_fidelity --checkpoint DIR [DIR ...] [--count 1000] [--results FILE] [--json]
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
from models import checkpoint as checkpoints

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
    """Whether it is in the translation as it is, or its digits together, with its sign or a word for it; 7 is 07."""
    if written in translation:
        return True
    groups = r"[.,:/ -]{0,2}".join(f"0?{group.removeprefix('0')}" for group in re.findall(r"\d+", written))
    signs = {"€": "€|euro", "%": "%|percent|prozent", "$": r"\$|dollar"}
    sign = next((pattern for character, pattern in signs.items() if character in written), "")
    together = re.search(rf"(?<!\d){groups}(?!\d)", translation) is not None
    return together and (not sign or re.search(sign, translation, re.IGNORECASE) is not None)


async def measured(checkpoint: Path, count: int) -> dict[str, Any]:
    """Of a translator's first pair, from German or English."""
    config = checkpoints.read(checkpoint).single_pairs()[0].config
    source, target = str(config.source_language), str(config.target_language)
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
    model = f"{checkpoint.name} ({source} → {target})"
    return {"model": model, "sentences": count, "whole": count - len(lost), "lost": lost[:SHOWN]}


def main(argv: Sequence[str] | None = None) -> None:
    top = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    top.add_argument("--checkpoint", type=Path, nargs="+", required=True)
    top.add_argument("--count", type=int, default=1000)
    top.add_argument("--results", type=Path, help="a file that gets the object that --json prints")
    top.add_argument("--json", action="store_true")
    given = top.parse_args(argv)
    rows = [asyncio.run(measured(checkpoint, given.count)) for checkpoint in given.checkpoint]
    shares = {
        f"sentences of {row['model']} that keep all numbers": 100 * row["whole"] / row["sentences"] for row in rows
    }
    goals = [goal(name, share, 100.0, "%", "higher") for name, share in shares.items()]
    finish("number_fidelity", rows, goals, as_json=given.json, out=given.results)


if __name__ == "__main__":
    main()
