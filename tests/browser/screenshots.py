"""The pictures of docs/, taken from a real server:  python -m tests.browser.screenshots [--checkpoints FOLDER]

The demo models are what they show, so `make demo` comes first; and a font with Chinese has to be there.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from tests.browser.chromium import Watched, browser
from tests.readme import ROOT
from tests.serving import serving

DOCS = ROOT / "docs"
TRANSLATION = "#translate?pair=de.en&text=der+hund+sieht+die+roten+%C3%A4pfel&layer=1&head=1&s=4&t=4"
LYRICS = "#lyrics?prompt=%E5%88%86%E5%BC%80&seed=7&length=60"
WALK = "#walkthrough?pair=de.en&text=der+hund+sieht+die+roten+%C3%A4pfel&wLayer=1&wHead=1&wPosition=4&card=10"


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
            server.ask("/translate", {"q": "der hund sieht die roten äpfel", "source": "de", "target": "en"})
        wide = {"viewport": {"width": 1120, "height": 900}}
        picture(launched, server.base, "light", TRANSLATION, color_scheme="light", **wide)
        picture(launched, server.base, "dark", TRANSLATION, color_scheme="dark", **wide)
        picture(launched, server.base, "phone", TRANSLATION, viewport={"width": 390, "height": 1200})
        picture(launched, server.base, "lyrics", LYRICS, **wide)
        picture(launched, server.base, "walkthrough", WALK, **wide)
        picture(launched, server.base, "models", "#models", viewport={"width": 1120, "height": 720})


def picture(launched: Any, base: str, name: str, address: str, **options: Any) -> None:
    """A screenshot of the page that the link opens; of a text, once it is complete."""
    with Watched.opened(launched, base, **options) as watched:
        page = watched.goto(address)
        if address.startswith("#translate"):
            page.wait_for_selector(".inside:not(.stale) .token.locked")
        elif address.startswith("#lyrics"):
            page.click("#write:not([disabled])")
            page.wait_for_selector("text=writes them again")
            page.wait_for_selector(".strip figure, .note:has-text('does not show gates')")
        elif address.startswith("#walkthrough"):
            page.wait_for_selector(".card h2, .note:has-text('does not walk')")
        else:
            page.wait_for_selector(".training svg")
        page.wait_for_load_state("networkidle")
        path = DOCS / f"page-{name}.png"
        page.screenshot(path=path)
        watched.clean()
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
