"""A recorded request, and the texts that the requests share."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
BEER, WORLD, DOG = "ich möchte ein bier", "hallo welt", "der hund sieht die roten äpfel"
SENTENCES = (
    BEER,
    WORLD,
    DOG,
    "guten morgen",
    "wir trinken heute kein wasser",
    "die katze schläft",
    "Ich möchte kein Bier.",
    "das ist ein kleines haus",
    "xyzzy quux 42",
    "der alte mann und die junge frau gehen heute nach hause und trinken dort ein kaltes bier",
)
LONG = " und ".join(SENTENCES) + ". " + ", ".join(SENTENCES * 3) + "."
PAGE = (
    '<html><head><title>ich möchte ein bier</title><style>p { color: red }</style></head><body><p class="a">ich '
    'möchte <b>ein bier</b></p><p translate="no">hallo welt</p><p>hallo&nbsp;welt &amp; <a href="x?a=1&b=2">'
    "guten morgen</a><br/>der <i>hund <u>sieht</u></i> die roten äpfel</p><script>var a = 'hallo welt';</script>"
    "<!-- hallo --></body></html>"
)
SUBTITLES = (
    "1\n00:00:01,000 --> 00:00:02,500\nich möchte ein bier\n\n2\n00:00:03,000 --> 00:00:04,000\n<i>hallo\nwelt</i>\n"
)


@dataclass(frozen=True)
class Request:
    """One HTTP request. save: a name for `{{name}}` -> a pattern; its first group is taken from the answer.
    until: the request is repeated until its answer contains this text (at most 30 s), and only the last answer
    counts."""

    name: str
    group: str
    method: str
    path: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    save: dict[str, str] = field(default_factory=dict)
    until: str | None = None
    raw: bytes | None = None  # what goes over the socket instead, head and body


class Requests:
    """Collects requests of one group under one name each."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.all: list[Request] = []

    def add(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        kind: str | None = JSON,
        headers: dict[str, str] | None = None,
        save: dict[str, str] | None = None,
        until: str | None = None,
    ) -> None:
        """body: bytes as they are; other objects as JSON, or as a form where `kind` is FORM."""
        content = None
        if isinstance(body, bytes):
            content = body
        elif body is not None:
            content = (urlencode(body, doseq=True) if kind == FORM else json.dumps(body, ensure_ascii=False)).encode()
        given = dict(headers or {})
        if content is not None and kind is not None:
            given = {"Content-Type": kind, **given}
        name = f"{self.group}/{len(self.all):03d} {method} {path[:60]}"
        self.all.append(Request(name, self.group, method, path, tuple(given.items()), content, dict(save or {}), until))

    def post(self, path: str, body: Any = None, **more: Any) -> None:
        self.add("POST", path, body, **more)

    def get(self, path: str, **more: Any) -> None:
        self.add("GET", path, **more)

    def raw(self, name: str, content: bytes) -> None:
        self.all.append(Request(f"{self.group}/{len(self.all):03d} raw {name}", self.group, "RAW", "", raw=content))
