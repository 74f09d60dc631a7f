"""The page as served; test_page_files.py tests the content of its files, tests/browser its behaviour."""

from __future__ import annotations

import re

import pytest

from app.api.web_pages import PAGE_POLICY, assets
from tests.app.api.client import Client, described

FILES = sorted(path for path in assets() if path != "index.html")
TYPES = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8", "svg": "image/svg+xml"}


def test_root_serves_the_page() -> None:
    answer = Client().get("/")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert answer.text.startswith("<!doctype html>")
    assert len(answer.content) == int(answer.headers["content-length"])


def test_every_file_that_the_page_names_is_served() -> None:
    named = re.findall(r'(?:src|href)="(assets/[^"]+)"', Client().get("/").text)
    assert len(named) == 4
    for path in named:
        assert Client().get(f"/{path}").status_code == 200, path


@pytest.mark.parametrize("path", ["/", "/assets/page.js", "/assets/style/base.css", "/assets/icon.svg"])
def test_nothing_but_this_server_is_trusted(path: str) -> None:
    headers = Client().get(path).headers
    assert headers["content-security-policy"] == PAGE_POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-cache"


def test_the_policy() -> None:
    rules = dict(rule.strip().split(" ", 1) for rule in PAGE_POLICY.split(";"))
    assert rules == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self' data: blob:",
        "connect-src": "'self'",
        "font-src": "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }


def test_each_file_has_its_type() -> None:
    client = Client()
    for path in FILES:
        answer = client.get(f"/assets/{path}")
        assert answer.headers["content-type"] == TYPES[path.rsplit(".", 1)[1]], path
        assert answer.content == assets()[path].body, path


@pytest.mark.parametrize(
    "path",
    [
        "/assets/",
        "/assets",
        "/assets/index.html",
        "/assets/nothing.js",
        "/assets/style",
        "/assets/../main.py",
        "/assets/%2e%2e/main.py",
        "/assets/..%2fmain.py",
        "/assets/%2e%2e%2f%2e%2e%2fpyproject.toml",
        "/assets//etc/passwd",
        "/assets/page.js/",
        "/assets/page.js%00",
        "/assets/..\\main.py",
    ],
)
def test_other_paths_are_404(path: str) -> None:
    answer = Client().get(path)
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


@pytest.mark.parametrize("path", ["/", "/assets/page.js"])
def test_a_head_has_the_same_headers_and_no_body(path: str) -> None:
    get, head = Client().get(path), Client().request("HEAD", path)
    assert (head.status_code, head.content) == (200, b"")
    for name in ("etag", "content-type", "content-length", "content-security-policy"):
        assert head.headers[name] == get.headers[name]


@pytest.mark.parametrize("form", ["{}", "W/{}", '"other", {}', "*"])
def test_unchanged_file_is_304(form: str) -> None:
    etag = Client().get("/assets/page.js").headers["etag"]
    answer = Client().get("/assets/page.js", headers={"If-None-Match": form.format(etag)})
    assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", etag)
    assert answer.headers["content-security-policy"] == PAGE_POLICY


def test_changed_file_is_sent() -> None:
    answer = Client().get("/assets/page.js", headers={"If-None-Match": '"another"'})
    assert (answer.status_code, answer.content) == (200, assets()["page.js"].body)


def test_other_methods_are_refused() -> None:
    answer = Client().post("/", json={})
    assert (answer.status_code, answer.json()["code"]) == (405, "method_not_allowed")


def test_the_page_is_no_part_of_the_described_api() -> None:
    paths = described()["paths"]
    assert not [path for path in paths if path == "/" or path.startswith("/assets")]
