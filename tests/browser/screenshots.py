"""The pictures of docs/, taken from a real server:  python -m tests.browser.screenshots [--checkpoints FOLDER]

The models that come with Parlance are what they show (`parlance import everyday lyrics-zh`). A font with
Chinese has to be there.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from PIL import Image

from tests.browser.chromium import Watched, browser
from tests.readme import ROOT
from tests.serving import serving

DOCS = ROOT / "docs"
SENTENCE = "der hund sieht die roten äpfel"
TRANSLATION = "#translate?view=inside&pair=de.en&text=der+hund+sieht+die+roten+%C3%A4pfel&layer=1&head=1"
TOUR = "#translate?view=inside&pair=de.en&text=der+hund+sieht+die+roten+%C3%A4pfel"
ALONE = "#translate?view=translate&pair=de.en"
STRANGE = "Der Quantencomputer überlegt, ob er morgen regnet."  # words that everyday was not trained on
LYRICS = "#lyrics?prompt=%E5%88%86%E5%BC%80&seed=7&length=60"
WALK = "#walkthrough?pair=de.en&text=der+hund+sieht+die+roten+%C3%A4pfel&wLayer=1&wHead=1&wPosition=4&card=10"
WIDE: dict[str, Any] = {"viewport": {"width": 1120, "height": 900}}
LOW: dict[str, Any] = {"viewport": {"width": 1120, "height": 720}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoints", type=Path, default=ROOT / "checkpoints")
    options = parser.parse_args()
    DOCS.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(options.checkpoints.resolve(), Path(folder)) as server,
        browser() as launched,
    ):
        for _ in range(3):  # the first answers of a server are slower than usual
            server.ask("/translate", {"q": SENTENCE, "source": "de", "target": "en"})
        take = partial(picture, launched, server.base)
        take("light", TRANSLATION, locked, color_scheme="light", **WIDE)
        take("dark", TRANSLATION, locked, color_scheme="dark", **WIDE)
        take("phone", TRANSLATION, locked, viewport={"width": 390, "height": 1200})
        take("empty", "", started, kept={}, **WIDE)
        take("demo", ALONE, strange, kept={}, **LOW)
        take("files", ALONE, filed, kept={}, color_scheme="dark", **LOW)
        take("tour", TOUR, toured, kept={}, **WIDE)
        take("lyrics", LYRICS, written, **WIDE)
        take("walkthrough", WALK, stepped, **WIDE)
        take("models", "#models", carded, **WIDE)


def picture(launched: Any, base: str, name: str, address: str, prepare: Callable[[Any], None], **options: Any) -> None:
    """A screenshot of the page that the link opens, after `prepare` has made it what is shown."""
    with Watched.opened(launched, base, **options) as watched:
        page = watched.goto(address)
        prepare(page)
        page.wait_for_load_state("networkidle")
        path = DOCS / f"page-{name}.png"
        page.screenshot(path=path)
        watched.clean()
    with Image.open(path) as image:  # 256 colours are enough for a page of few
        image.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size:,} bytes")


def locked(page: Any) -> None:
    page.wait_for_selector(".inside:not(.stale) .token")
    page.click(".token[data-side=t]:text-is('red')")
    page.mouse.move(5, 5)
    page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
    if page.locator(".demo:visible").count():  # it has a picture of its own
        page.click(".demo .link")


def started(page: Any) -> None:
    page.wait_for_selector("[data-door=models] .try")


def strange(page: Any) -> None:
    page.fill("#source", STRANGE)
    page.wait_for_selector(".notices li")


def filed(page: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        names = [Path(folder, name) for name in ("letter.txt", "holiday.srt", "photo.jpg")]
        names[0].write_text(f"{SENTENCE}\n")
        names[1].write_text(f"1\n00:00:01,000 --> 00:00:03,000\n{SENTENCE}\n")
        names[2].write_bytes(b"")
        with page.expect_file_chooser() as chooser:
            page.click("#choose:visible")
        chooser.value.set_files(names)
        page.wait_for_selector(".uploads li:nth-child(1) a.action")
        page.wait_for_selector(".uploads li:nth-child(2) a.action")


def toured(page: Any) -> None:
    page.wait_for_selector(".tour h2")
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    page.wait_for_selector(".map.toured")


def written(page: Any) -> None:
    page.click("#write:not([disabled])")
    page.wait_for_selector("text=writes them again")
    page.wait_for_selector(".strip figure")


def stepped(page: Any) -> None:
    page.wait_for_selector(".card h2")


def carded(page: Any) -> None:
    page.wait_for_selector(".training svg")


if __name__ == "__main__":
    main()
