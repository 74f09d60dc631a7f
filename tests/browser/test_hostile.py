"""Texts that would be markup or code elsewhere are texts here."""

from __future__ import annotations

import json
from urllib.parse import quote_plus

import pytest

from tests.browser.chromium import Watched

pytestmark = pytest.mark.browser

HOSTILE = [
    "</script><script>window.hit = 1</script>",
    '<img src=x onerror="window.hit = 1">',
    "<svg onload=window.hit=1>",
    "{{constructor.constructor('window.hit = 1')()}} ${window.hit = 1}",
    "javascript:window.hit=1//' \" ` \u202e \ufeff 𝔘 👩‍👩‍👧",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_source_is_escaped_in_every_view(watched: Watched, text: str) -> None:
    page = watched.translated(text)
    assert page.input_value("#source") == text
    page.click(".panel:has(#kind) summary")
    page.wait_for_selector(".panel:has(#kind) table")
    assert "".join(page.locator(".token[data-side='s']").all_inner_texts())
    assert page.evaluate("window.hit") is None
    assert page.locator("main script, main img, main svg[onload]").count() == 0
    with page.expect_download() as download:
        page.click("[data-export=svg]")
    assert "<script" not in download.value.path().read_text()


@pytest.mark.parametrize("text", HOSTILE)
def test_source_in_a_link_is_escaped(watched: Watched, text: str) -> None:
    given = quote_plus(text)
    page = watched.goto(f"#translate?pair=de.en&model={given}&text=der+hund&kind={given}&forced={given}")
    watched.refused |= {400, 404, 422}
    page.wait_for_selector(".token, .problem:not(:empty)")
    page.goto(f"{watched.base}/#lyrics?prompt={given}&writer=&seed={given}")
    page.reload()
    page.wait_for_selector("#prompt")
    watched.until(f"document.querySelector('#prompt').value === {json.dumps(text)}")
    assert page.evaluate("window.hit") is None


def test_content_security_policy_is_enforced(watched: Watched) -> None:
    """Even code that got into the page could neither run inline nor reach another origin."""
    page = watched.goto()
    page.evaluate(
        """() => {
          const script = document.createElement('script');
          script.textContent = 'window.hit = 1';
          document.body.append(script);
        }"""
    )
    reached = page.evaluate("fetch('http://127.0.0.1:9/').then(() => 'reached', () => 'refused')")
    assert page.evaluate("window.hit") is None
    assert reached == "refused"
    violations = [error for error in watched.errors if "Content Security Policy" in error]
    assert len(violations) >= 2
    watched.errors.clear()
    watched.foreign.clear()
