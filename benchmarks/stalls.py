"""How long a tiny request waits beside one request of the worst kind that an endpoint takes.

python -m benchmarks.stalls [--checkpoint FOLDER] [--seconds 15] [--cases PATTERN] [--json] [--results FILE]

One request at the limits of its endpoint is sent to a server with its defaults; after --seconds its client leaves. A
process of its own asks for /health/live every two milliseconds meanwhile, and for a second after that. The longest of
these waits is the longest turn of the front end's event loop, or the longest time that a thread held the interpreter,
and whatever the machine itself adds: the row "idle" has the same without another request. A row also has the 99th
percentile of the waits, the status of the worst request (0: its client left) and the memory of the front end and its
readers of documents.
"""

from __future__ import annotations

import argparse
import http.client
import io
import json
import multiprocessing
import re
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.distribution import percentile
from benchmarks.report import finish, goal
from benchmarks.served import LYRICIST, PROMPT, TRANSLATOR, prepare
from benchmarks.servers import ROOT, Server, ours
from benchmarks.serving_sentences import made_up

LONGEST_WAIT_MS = 100  # the goal
PAUSE_S = 0.002
AFTER_S = 1.0
TEXT_CHARACTERS, BODY_BYTES, FILE_BYTES = 100_000, 1_900_000, 9_900_000  # below the limits of the settings
_DOCUMENT = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_BOUNDARY = "stalls"
Body = tuple[str, bytes]  # its content type, and its bytes


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    path: str
    body: Callable[[], Body]


def _json(fields: Any) -> Body:
    return "application/json", json.dumps(fields, ensure_ascii=False).encode()


def _texts(text: str, **fields: Any) -> Callable[[], Body]:
    """As many texts of the greatest length as one body takes."""

    def body() -> Body:
        whole = text * (TEXT_CHARACTERS // len(text))
        texts = [whole] * max(1, BODY_BYTES // len(whole.encode()))
        return _json({"q": texts, "source": "de", "target": "en", "model": TRANSLATOR, **fields})

    return body


def _file(name: str, content: Callable[[], bytes]) -> Callable[[], Body]:
    def body() -> Body:
        fields = {"source": "de", "target": "en", "model": TRANSLATOR}
        parts = [
            f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="{field}"\r\n\r\n{value}\r\n'.encode()
            for field, value in fields.items()
        ]
        head = f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'.encode()
        whole = b"".join([*parts, head, content(), f"\r\n--{_BOUNDARY}--\r\n".encode()])
        return f"multipart/form-data; boundary={_BOUNDARY}", whole

    return body


def _repeated(text: str, size_bytes: int = FILE_BYTES, before: str = "") -> Callable[[], bytes]:
    return lambda: (before + text * (size_bytes // len(text.encode()))).encode()


def _package(parts: Mapping[str, str | bytes], *, stored: bool = False) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED) as package:
        for name, content in parts.items():
            package.writestr(name, content)
    return out.getvalue()


def _word(paragraph: str, size_bytes: int) -> Callable[[], bytes]:
    """A Word document whose body has so many bytes; those beyond what unpacking allows are stored as they are."""

    def content() -> bytes:
        types = (
            '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="rels"'
            ' ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Override'
            ' PartName="/word/document.xml" ContentType="application/vnd.openxmlformats-officedocument.'
            'wordprocessingml.document.main+xml"/></Types>'
        )
        relations = (
            '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship'
            ' Id="r1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"'
            ' Target="word/document.xml"/></Relationships>'
        )
        body = paragraph * (size_bytes // len(paragraph))
        document = f'<w:document xmlns:w="{_DOCUMENT}"><w:body>{body}</w:body></w:document>'
        parts = {"[Content_Types].xml": types, "_rels/.rels": relations, "word/document.xml": document}
        return _package(parts, stored=size_bytes > FILE_BYTES)

    return content


def _open_document(size_bytes: int) -> bytes:
    import odfdo

    document = odfdo.Document("text")
    document.body.clear()
    document.body.append(odfdo.Paragraph("PLACE"))
    out = io.BytesIO()
    document.save(out)
    paragraph = '<text:p>Ein <text:span text:style-name="T1">{:07}</text:span> Satz.</text:p>'  # odfdo knows bombs
    with zipfile.ZipFile(out) as package:
        parts = {name: package.read(name) for name in package.namelist()}
    content = parts["content.xml"].decode()
    paragraphs = "".join(paragraph.format(number * 7919 % 9_999_991) for number in range(size_bytes // len(paragraph)))
    content = re.sub(r"<text:p[^>]*>PLACE</text:p>", paragraphs, content)
    return _package({**parts, "content.xml": content})


RUN = "<w:p><w:r><w:rPr>" + "<w:b/>" * 20 + "</w:rPr>" + "<w:t>Ein Satz. </w:t><w:tab/>" * 20 + "</w:r></w:p>"
CASES = (
    Case("translate, prose", "/translate", _texts("Ein kleiner Satz ohne Besonderheit. ")),
    Case("translate, numbers and links", "/translate", _texts("Um 12:30 kostet www.a.de/b 1.234,50 € mehr. ")),
    Case("translate, variation selectors", "/translate", _texts("a" + "\ufe0f" * 30, split=False)),
    Case("translate, one long line", "/translate", _texts("wort ", split=False)),
    Case("translate, pages of tags", "/translate", _texts("<b>ein</b> wort <code>{1}</code>{1} ", format="html")),
    Case("translate, pages of blocks", "/translate", _texts("<p>a</p>", format="html")),
    Case("translate_file, txt", "/translate_file", _file("a.txt", _repeated("Ein Satz mit 12 Worten. "))),
    Case("translate_file, md", "/translate_file", _file("a.md", _repeated("# Titel\n\n- **Ein** [Satz](a.de).\n\n"))),
    Case(
        "translate_file, html",
        "/translate_file",
        _file("a.html", _repeated("<p>Ein <b>kleiner</b> Satz ohne eine Besonderheit.</p>\n")),
    ),
    Case("translate_file, html of tags alone", "/translate_file", _file("a.html", _repeated("<b>x</b>y"))),
    Case(
        "translate_file, srt",
        "/translate_file",
        _file("a.srt", _repeated("1\n00:00:01,000 --> 00:00:02,000\nEin Satz.\n\n")),
    ),
    Case("translate_file, srt of digits", "/translate_file", _file("a.srt", _repeated("1" * 300 + "\n"))),
    Case(
        "translate_file, vtt",
        "/translate_file",
        _file("a.vtt", _repeated("00:01.000 --> 00:02.000\nEin Satz.\n\n", before="WEBVTT\n\n")),
    ),
    Case("translate_file, docx", "/translate_file", _file("a.docx", _word(RUN, 9_000_000))),
    Case("translate_file, docx of empty paragraphs", "/translate_file", _file("a.docx", _word("<w:p/>", 9_000_000))),
    Case("translate_file, odt", "/translate_file", _file("a.odt", lambda: _open_document(9_000_000))),
    Case("detect", "/detect", lambda: _json({"q": ["Ein kleiner Satz ohne Besonderheit. " * 2700] * 19})),
    Case(
        "glossary",
        "/v3/glossaries",
        lambda: _json(
            {
                "name": "g",
                "dictionaries": [
                    {
                        "source_lang": "de",
                        "target_lang": "en",
                        "entries_format": "tsv",
                        "entries": "".join(f"wort{number}\tword{number}\n" for number in range(8_000)),
                    }
                ],
            }
        ),
    ),
    Case("attention", "/attention", lambda: _json({"source": "ein mann sieht " * 120})),
    Case(
        "completions",
        "/v1/completions",
        lambda: _json({"model": LYRICIST, "prompt": [PROMPT * 30] * 300, "max_tokens": 8, "echo": True, "logprobs": 5}),
    ),
)


def probe(port: int, control: Connection) -> None:
    """Asks for /health/live until it is told to stop, and sends the waits in seconds."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    waits: list[float] = []
    control.send(waits)
    while not control.poll(PAUSE_S):
        started = time.perf_counter()
        connection.request("GET", "/health/live")
        connection.getresponse().read()
        waits.append(time.perf_counter() - started)
    control.send(waits)


def memory_mb(server: Server) -> float:
    """Of the front end and its readers of documents; the device process is not what documents cost."""
    total = 0.0
    for pid in server.pids():
        status = Path(f"/proc/{pid}")
        try:
            if b"worker_main" not in (status / "cmdline").read_bytes():
                total += int(re.findall(r"VmRSS:\s+(\d+)", (status / "status").read_text())[0]) / 1000
        except (OSError, IndexError):  # it has ended
            continue
    return total


def send(server: Server, case: Case, body: Body, seconds: float) -> int:
    """The status of the answer, 0 if there was none in that time."""
    content_type, content = body
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=seconds)
    try:
        connection.request("POST", case.path, content, {"Content-Type": content_type})
        answer = connection.getresponse()
        answer.read()
        return answer.status
    except OSError:
        return 0
    finally:
        connection.close()


def measured(server: Server, case: Case | None, seconds: float) -> dict[str, Any]:
    """case: None measures the idle server."""
    body = case.body() if case else None
    context = multiprocessing.get_context("fork")  # another process would import torch first
    ours_end, theirs = context.Pipe()
    prober = context.Process(target=probe, args=(server.port, theirs))
    prober.start()
    ours_end.recv()  # it has begun
    largest, over = [0.0], threading.Event()

    def watch() -> None:
        while not over.wait(0.05):
            largest[0] = max(largest[0], memory_mb(server))

    watcher = threading.Thread(target=watch)
    watcher.start()
    started = time.perf_counter()
    status = send(server, case, body, seconds) if case and body else time.sleep(seconds) or 0
    took = time.perf_counter() - started
    time.sleep(AFTER_S)
    over.set()
    watcher.join()
    ours_end.send(None)
    waits = ours_end.recv()
    prober.join()
    return {
        "case": case.name if case else "idle",
        "longest_wait_ms": round(1000 * max(waits), 1),
        "p99_wait_ms": round(1000 * percentile(waits, 0.99), 1),
        "tiny_requests": len(waits),
        "status": status,
        "took_s": round(took, 1),
        "memory_mb": round(largest[0]),
    }


def rows(server: Server, pattern: str, seconds: float) -> Iterator[dict[str, Any]]:
    yield measured(server, None, min(seconds, 5.0))
    for case in CASES:
        if re.search(pattern, case.name):
            yield measured(server, case, seconds)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stalls", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--checkpoint", type=Path, default=ROOT / "checkpoints" / "demo-de-en")
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--cases", default="", help="a regular expression")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--results", type=Path)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="stalls-") as name:
        folder = prepare(Path(name) / "served", options.checkpoint, made_up(Path(name)), 0).folder
        with ours(folder, data=Path(name) / "data") as server:
            found = []
            for row in rows(server, options.cases, options.seconds):
                print(row, file=sys.stderr)
                found.append(row)
    goals = [
        goal(f"longest wait, {row['case']}", row["longest_wait_ms"], LONGEST_WAIT_MS, "ms", "lower") for row in found
    ]
    finish("stalls", found, goals, as_json=options.json, out=options.results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
