"""The requests that `benchmarks.same_answers` sends: every route, its options, and its refusals.

A request belongs to a group, and each group has a server of its own (`same_answers.GROUPS`). The requests stand in
`requests/*.jsonl`, one in each line, in the order in which they are sent:

    {"send": "POST /translate", "json": {"q": "hallo welt", "source": "de", "target": "en"}}

The body is "json", a "form", or "fields" and "files" of a multipart form (a file: its name and its text, or a file of
this folder); or it is given as it is, as text in "body" or as bytes in "latin-1", with its "kind" where that is not
JSON. More: "headers"; "save", a name -> a pattern, whose first group `{{name}}` stands for in later requests of the
group; "until", a pattern until which the request is repeated. A line with "raw" has a name and all that goes over the
socket. {{LONG}} and {{PAGE}} are the texts below, and ⟪hallo ×300⟫ is that text 300 times.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

FOLDER = Path(__file__).with_name("requests")
TOPICS: dict[str, tuple[str, ...]] = {  # group -> the files of its requests
    "open": (
        *("pages", "translate", "translate-refused", "detect", "generate", "completions", "attention", "gates"),
        *("score", "walkthrough", "deepl", "glossaries", "documents", "files", "extensions", "http", "metrics"),
    ),
    # searches and samples of one text again in fp32, where the last bits depend on the other rows of the batch
    "fp32": ("translate", "generate", "attention", "score", "models"),
    "several": ("several",),
    "guarded": ("guarded",),
    "small": ("small",),
    "damaged": ("damaged",),
}
JSON, FORM, BOUNDARY = "application/json", "application/x-www-form-urlencoded", "recorded-boundary"
SENTENCES = (
    "ich möchte ein bier",
    "hallo welt",
    "der hund sieht die roten äpfel",
    "guten morgen",
    "wir trinken heute kein wasser",
    "die katze schläft",
    "Ich möchte kein Bier.",
    "das ist ein kleines haus",
    "xyzzy quux 42",
    "der alte mann und die junge frau gehen heute nach hause und trinken dort ein kaltes bier",
)
TEXTS = {
    "LONG": " und ".join(SENTENCES) + ". " + ", ".join(SENTENCES * 3) + ".",
    "PAGE": (
        '<html><head><title>ich möchte ein bier</title><style>p { color: red }</style></head><body><p class="a">ich '
        'möchte <b>ein bier</b></p><p translate="no">hallo welt</p><p>hallo&nbsp;welt &amp; <a href="x?a=1&b=2">'
        "guten morgen</a><br/>der <i>hund <u>sieht</u></i> die roten äpfel</p><script>var a = 'hallo welt';</script>"
        "<!-- hallo --></body></html>"
    ),
}
_TEXT = re.compile(rf"\{{\{{({'|'.join(TEXTS)})\}}\}}")
_REPEATED = re.compile(r"⟪(.*?)×(\d+)⟫", re.DOTALL)


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


def all_requests() -> Iterator[Request]:
    for group, topics in TOPICS.items():
        lines = [json.loads(line) for topic in topics for line in request_lines(topic)]
        for number, line in enumerate(map(written_out, lines)):
            request = _request(f"{group}/{number:03d}", group, line)
            if group != "fp32" or b'"q": [' not in (request.body or b""):
                yield request


def request_lines(topic: str) -> list[str]:
    return FOLDER.joinpath(f"{topic}.jsonl").read_text(encoding="utf-8").split("\n")[:-1]


def written_out(value: Any) -> Any:
    """The same with the texts and repetitions that its strings name."""
    if isinstance(value, str):
        text = _TEXT.sub(lambda match: TEXTS[match[1]], value)
        return _REPEATED.sub(lambda match: match[1] * int(match[2]), text)
    if isinstance(value, list):
        return [written_out(each) for each in value]
    return {written_out(key): written_out(each) for key, each in value.items()} if isinstance(value, dict) else value


def _request(name: str, group: str, line: Mapping[str, Any]) -> Request:
    if "raw" in line:
        return Request(f"{name} raw {line['raw']}", group, "RAW", "", raw=line["body"].encode())
    method, _, path = line["send"].partition(" ")
    body, kind = _body(line)
    headers = ({} if body is None or kind is None else {"Content-Type": kind}) | line.get("headers", {})
    save, until = line.get("save", {}), line.get("until")
    return Request(f"{name} {method} {path[:60]}", group, method, path, tuple(headers.items()), body, save, until)


def _body(line: Mapping[str, Any]) -> tuple[bytes | None, str | None]:
    """The bytes of a request's body, and their content type."""
    kind = line.get("kind", JSON)
    if "json" in line:
        return json.dumps(line["json"], ensure_ascii=False).encode(), kind
    if "form" in line:
        return urlencode(line["form"], doseq=True).encode(), FORM
    if "fields" in line:
        return _multipart_form(line["fields"], line["files"]), f"multipart/form-data; boundary={BOUNDARY}"
    if "latin-1" in line:
        return line["latin-1"].encode("latin-1"), kind
    return (line["body"].encode(), kind) if "body" in line else (None, None)


def _multipart_form(fields: Mapping[str, str], files: Mapping[str, list[str]]) -> bytes:
    parts = [
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in fields.items()
    ]
    for name, (filename, text, *how) in files.items():
        content = FOLDER.joinpath(text).read_bytes() if how == ["file"] else text.encode(*how)
        head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"; filename="{filename}"\r\n'
        parts.append(f"{head}Content-Type: application/octet-stream\r\n\r\n".encode() + content + b"\r\n")
    return b"".join(parts) + f"--{BOUNDARY}--\r\n".encode()
