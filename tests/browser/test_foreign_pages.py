"""A page of another origin in the browser of somebody whose machine runs a server without keys: what it sends changes
nothing and computes nothing, and by no name of its own does it read anything."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.chromium import ARGUMENTS, executable
from tests.serving import Server, serving

pytestmark = pytest.mark.browser

# Everything that a page sends to another origin without a preflight; "sent" where the browser did.
SEND = """async (base) => {
  const fields = { q: "bier", s: "beer", source: "de", target: "en" };
  const json = JSON.stringify(fields);
  const form = new FormData();
  Object.entries(fields).forEach(([name, value]) => form.set(name, value));
  const file = new FormData();
  file.set("file", new File(["der hund"], "x.txt"));
  file.set("source", "de");
  file.set("target", "en");
  const bodies = [new URLSearchParams(fields), form, file, json, new Blob([json])];
  const results = [];
  const paths = ["translate", "translate_file", "v2/glossaries", "v2/document", "generate"];
  for (const path of [...paths, "models/tiny-de-en/unload"])
    for (const body of bodies)
      results.push(await fetch(`${base}/${path}`, { method: "POST", mode: "no-cors", credentials: "include", body })
        .then((answer) => answer.type, () => "failed"));
  return results;
}"""
# Everything that needs a preflight, or reads an answer.
READ = """async (base) => {
  const results = [];
  const body = '{"q":"bier","source":"de","target":"en"}';
  for (const [path, options] of [
    ["models", {}], ["languages", {}], ["v2/glossaries", {}], ["openapi.json", {}],
    ["translate", { method: "POST", headers: { "Content-Type": "application/json" }, body }],
    ["models", { headers: { Authorization: "Bearer x" } }],
    ["v2/glossaries/1", { method: "DELETE" }],
  ]) results.push(await fetch(`${base}/${path}`, options).then((answer) => answer.text(), () => "blocked"));
  return results;
}"""


class _Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>elsewhere</title>")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def elsewhere() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.fixture
def open_server(tiny_checkpoints: Path, tmp_path: Path) -> Iterator[Server]:
    with serving(tiny_checkpoints, tmp_path, DATA=str(tmp_path / "data")) as server:
        yield server


def computed(server: Server) -> list[str]:
    """What the models have done, by the server's own count."""
    names = ("parlance:request_success_total", "parlance:prompt_tokens_total", "parlance:prefill_tokens_total")
    lines = server.page("/metrics").decode().splitlines()
    return [line for line in lines if line.startswith(names) and not line.endswith(" 0.0")]


@pytest.mark.parametrize("place", ["another port", "localhost", "sandbox"])
def test_page_of_another_origin_neither_changes_nor_computes_nor_reads(
    chromium: Any, open_server: Server, elsewhere: str, tmp_path: Path, place: str
) -> None:
    page = chromium.new_page()
    page.goto(elsewhere if place != "localhost" else elsewhere.replace("127.0.0.1", "localhost"))
    frame = page
    if place == "sandbox":  # its origin is "null"
        page.evaluate("""() => {
          const frame = document.createElement("iframe");
          frame.sandbox = "allow-scripts";
          frame.srcdoc = "<title>sandbox</title>";
          document.body.append(frame);
        }""")
        page.wait_for_timeout(500)
        frame = page.frames[1]
    before = computed(open_server)
    assert set(frame.evaluate(SEND, open_server.base)) == {"opaque"}, "all of them were sent"
    assert set(frame.evaluate(READ, open_server.base)) == {"blocked"}
    page.close()
    assert computed(open_server) == before
    assert [path for path in (tmp_path / "data").rglob("*") if path.is_file()] == []
    assert {model["name"] for model in open_server.ask("/models")} >= {"tiny-de-en"}
    assert open_server.ask("/translate", {"q": "bier", "source": "de", "target": "en"})["translatedText"]
    assert computed(open_server) != before


def test_name_that_was_made_to_lead_here_opens_nothing(chromium: Any, open_server: Server, tmp_path: Path) -> None:
    """DNS rebinding: the page's own name leads to this machine now, so that to the browser it is one origin."""
    rules = "--host-resolver-rules=MAP evil.example 127.0.0.1"
    browser = chromium.browser_type.launch(executable_path=executable(), args=[*ARGUMENTS, rules])
    try:
        page = browser.new_page()
        base = open_server.base.replace("127.0.0.1", "evil.example")
        answer = page.goto(f"{base}/health")
        assert answer.status == 403, "the browser has reached the server by that name"
        before = computed(open_server)
        results = page.evaluate(READ, base)
        assert len(results) == 7
        assert all(
            "This server is not known as" in text or "comes from a page of another origin" in text for text in results
        )
        page.evaluate(SEND, base)
        assert computed(open_server) == before
        assert [path for path in (tmp_path / "data").rglob("*") if path.is_file()] == []
        page.goto(open_server.base)
        assert "Parlance" in page.title()
    finally:
        browser.close()
