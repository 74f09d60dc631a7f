"""Debian's Chromium behind Playwright, and a page that remembers what went wrong in it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

# The browser's own requests must not appear among the page's.
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
TIMEOUT_MS = 90_000
SETTLED = {"view": "inside", "tour": "done"}  # somebody who looks inside, and has taken the tour


def executable() -> str | None:
    """The browser of this machine; none is ever downloaded."""
    return os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


@contextlib.contextmanager
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=executable(), args=ARGUMENTS)
        try:
            yield launched
        finally:
            launched.close()


def pair_of(page: Any) -> str:
    """The languages that are chosen, such as "de.en"."""
    return ".".join(page.input_value(f"#{side}") for side in ("from", "to"))


def choose_pair(page: Any, pair: str) -> None:
    for side, code in zip(("from", "to"), pair.split("."), strict=True):
        page.select_option(f"#{side}", code)


@dataclass
class Watched:
    """A page, what it said on the console as errors, and which requests left its origin."""

    base: str
    page: Any
    errors: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    sent_requests: list[tuple[str, Any]] = field(default_factory=list)
    refused: set[int] = field(default_factory=set)

    @classmethod
    @contextlib.contextmanager
    def opened(
        cls, browser: Any, base: str, kept: Mapping[str, str] = MappingProxyType(SETTLED), **options: Any
    ) -> Iterator[Watched]:
        """kept: the choices that this browser remembers from an earlier visit; {}: this is the first visit."""
        context = browser.new_context(locale=options.pop("locale", "en-GB"), accept_downloads=True, **options)
        context.set_default_timeout(TIMEOUT_MS)
        context.add_init_script(
            f"for (const [name, value] of Object.entries({json.dumps(dict(kept))}))"
            " localStorage.getItem(`parlance.${name}`) ?? localStorage.setItem(`parlance.${name}`, value);"
        )
        watched = cls(base, context.new_page())
        watched.page.on("console", watched._said)
        watched.page.on("pageerror", lambda error: watched.errors.append(str(error)))
        watched.page.on("request", watched._requested)
        try:
            yield watched
        finally:
            context.close()

    def goto(self, address: str = "") -> Any:
        """The page at that hash, its models loaded."""
        self.page.goto(f"{self.base}/{address}")
        self.page.wait_for_selector("#rooms a")
        return self.page

    def translated(self, text: str, pair: str = "de.en") -> Any:
        """The page with that text translated and its maps drawn."""
        page = self.goto(f"#translate?pair={pair}")
        page.fill("#source", text)
        page.wait_for_selector(".token")
        return page

    def until(self, expression: str) -> None:
        """Polls from outside: Playwright's own waiting evaluates a string in the page, against the page's policy."""
        end = time.monotonic() + TIMEOUT_MS / 1000
        while not self.page.evaluate(expression):
            assert time.monotonic() < end, f"this did not become true: {expression}"
            self.page.wait_for_timeout(50)

    def clean(self) -> None:
        """No error on the console but for the statuses that a test expects, and no request elsewhere."""
        expected = [f"the server responded with a status of {status} " for status in self.refused]
        assert [error for error in self.errors if not any(part in error for part in expected)] == []
        assert self.foreign == []

    def _said(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(f"{message.type}: {message.text}")

    def _requested(self, request: Any) -> None:
        if request.url.startswith(("blob:", "data:")):
            return
        at = urlsplit(request.url)
        if f"{at.scheme}://{at.netloc}" != self.base:
            self.foreign.append(request.url)
        is_json = request.headers.get("content-type") == "application/json"  # a file is sent as a form
        self.sent_requests.append((at.path, request.post_data_json if is_json else None))
