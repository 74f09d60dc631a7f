"""Whether two checkouts of this project answer the same: every route, option and refusal.

    python -m benchmarks.same_answers record --checkout ../before --checkpoints checkpoints --out before.jsonl
    python -m benchmarks.same_answers record --checkpoints checkpoints --out after.jsonl
    python -m benchmarks.same_answers compare before.jsonl after.jsonl

`record` starts servers of the checkout, one for each group of `recorded_requests`, sends the requests one after
another, and writes a JSON line for each. Times, ids and what depends on them
are replaced by "#"; all else is kept byte for byte. `compare` prints every difference and ends with 1 if there is one.

The folder of checkpoints holds the models that come with Parlance (`parlance import everyday lyrics-zh`), and perhaps
others, which the group "several" then has too.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import difflib
import gzip
import hashlib
import http.client
import io
import json
import re
import shutil
import socket
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.recorded_requests import Request, all_requests
from benchmarks.servers import ROOT, ours

ANSWER_TIMEOUT_S = 120.0
KEYS = {
    "free_key": ("free", {"rate_limit": "none", "quota": "none"}),
    "slow_key": ("slow", {"rate_limit": "3/hour"}),
    "quota_key": ("counted", {"quota": "45/month"}),
    "admin_key": ("deploy", {"scopes": ["admin"], "rate_limit": "none"}),
}
KNOWN = {name: f"plk_recorded-{name}" for name in KEYS} | {"wrong_key": "plk_wrong", "master_key": "master-of-models"}
COMMON = {"CPU_WORKERS": "1", "CPU_THREADS": "1", "DEVICES": "cpu", "LOG_LEVEL": "error"}
GROUPS: dict[str, dict[str, str]] = {
    "open": {},
    "fp32": {"PRECISION": "fp32"},
    "several": {},
    "guarded": {
        "ADMIN_KEY": KNOWN["master_key"],
        "RATE_LIMIT": "10000/hour",
        "CACHE_MB": "8",
        "CORS_ORIGINS": "https://example.org",
        "PUBLIC_URL": "https://mt.example/base",
    },
    "small": {
        "MAX_BATCH_TEXTS": "2",
        "MAX_TEXT_CHARACTERS": "40",
        "MAX_ALTERNATIVES": "1",
        "MAX_NEW_TOKENS": "8",
        "MAX_SAMPLES": "2",
        "MAX_ATTENTION_VALUES": "200",
        "MAX_BODY_BYTES": "1024",
        "MAX_FILE_BYTES": "1200",
        "MAX_KEPT_FILES_BYTES": "1024",
        "MAX_QUEUED_SOURCE_TOKENS": "6",
        "BEAM_SIZE": "1",
    },
    "damaged": {"ADMIN_KEY": KNOWN["master_key"]},
}

PAGE_KINDS = {"text/html", "text/css", "text/javascript", "application/javascript", "image/svg+xml", "image/png"}

# Numbers and ids that differ from run to run, wherever they stand in a JSON body.
_VARYING = re.compile(
    r'"(request_id|created|creation_time|loaded_at|document_id|document_key|glossary_id|seconds'
    r'|translatedFileUrl)":(\s*)("(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*)'
)
_TIMING = re.compile(r'"(timing|timing_ms)":(\s*)\{[^{}]*\}')
_WAIT = re.compile(r"try again in [\d,.]+ \w+")
_RANDOM_IDS = re.compile(r'"id":(\s*)("cmpl-[^"]*"|[0-9]{7,})')
_DROPPED_HEADERS = {"date", "x-request-id", "server-timing", "connection"}
_VARYING_HEADERS = {"ratelimit-reset", "retry-after", "ratelimit", "last-modified"}
_REPORTED = re.compile(
    r'^parlance:(slots|slots_used|kv_cache_usage_perc|num_requests_\w+)\{|route="/metrics"'
)  # by time
_REPEATED = ('"/health/ready"', '"/metrics"', '"/v2/document/{document_id}"')  # repeated until the answer is complete
_COUNTED = re.compile(
    r"^parlance:(http_requests|request_success|request_refused|prompt_tokens|generation_tokens)_total\{"
)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    if options.action == "compare":
        return compare(options.before, options.after, options.skip, options.decimals)
    groups = options.groups or [*GROUPS]
    with options.out.open("w", encoding="utf-8") as out:
        for line in record(options.checkout.resolve(), options.python, options.checkpoints.resolve(), groups):
            out.write(json.dumps(line, ensure_ascii=False) + "\n")
            out.flush()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.same_answers", description=__doc__)
    actions = parser.add_subparsers(dest="action", required=True)
    recording = actions.add_parser("record")
    recording.add_argument("--checkout", type=Path, default=ROOT, help="the tree whose code runs")
    recording.add_argument("--python", default=sys.executable)
    recording.add_argument(
        "--checkpoints", type=Path, required=True, help="the folder with the models that come with Parlance"
    )
    recording.add_argument("--out", type=Path, required=True)
    recording.add_argument("--groups", nargs="+", choices=[*GROUPS], help="by default all")
    comparison = actions.add_parser("compare")
    comparison.add_argument("before", type=Path)
    comparison.add_argument("after", type=Path)
    comparison.add_argument("--skip", action="append", default=[], metavar="REGEX", help="names of lines to leave out")
    comparison.add_argument("--decimals", type=int, help="round numbers: fp32 in PyTorch may differ in its last bits")
    return parser


def compare(before: Path, after: Path, skip: Iterable[str] = (), decimals: int | None = None) -> int:
    """Print every difference between two recordings; 1 if there is any. decimals: to which numbers are rounded."""
    skipped = [re.compile(pattern) for pattern in skip]
    recordings = [_read(path, skipped) for path in (before, after)]
    if decimals is not None:
        recordings = [{name: _rounded(line, decimals) for name, line in recording.items()} for recording in recordings]
    differences = 0
    for name in dict.fromkeys([*recordings[0], *recordings[1]]):
        old, new = (recording.get(name) for recording in recordings)
        if old == new:
            continue
        differences += 1
        if old is None or new is None:
            print(f"{name}: only in {before if new is None else after}")
            continue
        print(f"{name}:")
        for field in dict.fromkeys([*old, *new]):
            if old.get(field) != new.get(field):
                _print_difference(field, old.get(field), new.get(field))
    print(f"{differences} differences in {len(recordings[0])} and {len(recordings[1])} lines")
    return 1 if differences else 0


def _read(path: Path, skipped: Sequence[re.Pattern[str]]) -> dict[str, dict[str, Any]]:
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {line["name"]: line for line in lines if not any(pattern.search(line["name"]) for pattern in skipped)}


def _rounded(line: dict[str, Any], decimals: int) -> dict[str, Any]:
    body = re.sub(
        r"-?\d+\.\d+(e-?\d+)?", lambda match: f"{round(float(match[0]), decimals):.{decimals}f}", str(line.get("body"))
    )
    headers = [header for header in line.get("headers", []) if not header.startswith(("content-length", "etag"))]
    return line | {"body": body, "headers": headers}


def _print_difference(field: str, old: Any, new: Any) -> None:
    texts = [value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for value in (old, new)]
    if max(len(text) for text in texts) < 200:
        print(f"  {field}\n    - {texts[0]}\n    + {texts[1]}")
        return
    wrapped = [re.sub(r"(,|\\n)", "\\1\n", text).splitlines() for text in texts]
    changed = [line for line in difflib.unified_diff(*wrapped, lineterm="", n=1) if line[:3] not in ("---", "+++")]
    print(f"  {field}\n    " + "\n    ".join(line[:300] for line in changed[:30]))


def record(checkout: Path, python: str, checkpoints: Path, groups: Sequence[str]) -> Iterator[dict[str, Any]]:
    """A line for each request, in order."""
    requests = list(all_requests())
    with tempfile.TemporaryDirectory(prefix="same-answers-") as name:
        scratch = Path(name)
        for group in groups:
            started = time.monotonic()
            yield from _record_group(checkout, python, checkpoints, scratch, group, requests)
            print(f"{group}: {time.monotonic() - started:.0f} s", file=sys.stderr)


def _record_group(
    checkout: Path, python: str, checkpoints: Path, scratch: Path, group: str, requests: Iterable[Request]
) -> Iterator[dict[str, Any]]:
    folder = scratch / group
    folder.mkdir()
    served = folder / "checkpoints"
    if group == "damaged":
        damaged_checkpoints(checkpoints, served)
    else:
        served.mkdir()
        for checkpoint in sorted(checkpoints.iterdir()):
            if group == "several" or checkpoint.name in ("everyday", "lyrics-zh"):
                shutil.copytree(checkpoint, served / checkpoint.name, ignore=shutil.ignore_patterns("resume"))
    settings = COMMON | GROUPS[group]
    if group == "guarded":
        settings["KEYS_FILE"] = str(_keys_file(folder / "keys.jsonl"))
    values = dict(KNOWN)
    given = {name.lower(): value for name, value in settings.items()}
    process = {"PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}  # the checkout is not written to
    with ours(served, checkout, python=python, environment=process, data=folder / "data", **given) as server:
        for request in requests:
            if request.group == group:
                yield _answer(request, server.port, values, folder)


def _keys_file(path: Path) -> Path:
    lines = []
    for key, (name, limits) in KEYS.items():
        digest = hashlib.sha256(KNOWN[key].encode()).hexdigest()
        lines.append(json.dumps({"name": name, "sha256": digest, "scopes": ["use"]} | limits))
    path.write_text("\n".join(lines) + "\n")
    path.chmod(0o600)
    return path


def damaged_checkpoints(checkpoints: Path, folder: Path) -> None:
    """Copies of a model that are damaged in a way each, and a whole one."""
    names = ("truncated", "flipped", "newer", "no-config", "bad-config", "no-weights", "no-tokenizer", "good")
    for name in names:
        shutil.copytree(checkpoints / "everyday", folder / name, ignore=shutil.ignore_patterns("resume"))
    weights = (folder / "good/model.safetensors").read_bytes()
    (folder / "truncated/model.safetensors").write_bytes(weights[: len(weights) // 2])
    (folder / "flipped/model.safetensors").write_bytes(weights[:-10] + bytes(~byte & 255 for byte in weights[-10:]))
    config = json.loads((folder / "newer/config.json").read_text())
    (folder / "newer/config.json").write_text(json.dumps(config | {"format_version": 99}))
    (folder / "no-config/config.json").unlink()
    (folder / "bad-config/config.json").write_text('{"format_version": ')
    (folder / "no-weights/model.safetensors").unlink()
    (folder / "no-tokenizer/source.model").unlink()


def _send(
    port: int, method: str, path: str, headers: Mapping[str, str], body: bytes | None
) -> tuple[int, list[tuple[str, str]], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_TIMEOUT_S)
    try:
        connection.request(method, path, body, dict(headers))
        response = connection.getresponse()
        return response.status, response.getheaders(), response.read()
    finally:
        connection.close()


def _send_raw(port: int, content: bytes) -> str:
    """The whole answer to bytes over a socket, until the server closes it or says nothing for two seconds."""
    answer = b""
    with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
        connection.sendall(content)
        with contextlib.suppress(OSError):
            while piece := connection.recv(65536):
                answer += piece
    text = answer.decode("utf-8", "replace")
    text = re.sub(r"(?im)^(date|x-request-id): .*\r\n", "", text)
    return without_varying(text)


def _answer(request: Request, port: int, values: dict[str, str], folder: Path) -> dict[str, Any]:
    """The normalized answer; `values` gets what the request saves."""
    if request.raw is not None:
        return {"name": request.name, "answer": _send_raw(port, request.raw)}
    path = _filled(request.path, values)
    headers = {name: _filled(value, values) for name, value in request.headers}
    body = request.body
    if body is not None and b"{{" in body:
        body = _filled(body.decode("utf-8", "surrogateescape"), values).encode("utf-8", "surrogateescape")
    end = time.monotonic() + 30
    while True:
        try:
            status, results, content = _send(port, request.method, path, headers, body)
        except (OSError, http.client.HTTPException) as error:
            return {"name": request.name, "broken": type(error).__name__}
        if request.until is None or re.search(request.until, content.decode("utf-8", "replace")):
            break
        if time.monotonic() > end:
            break
        time.sleep(0.05)
    for name, pattern in request.save.items():
        if match := re.search(pattern, content.decode("utf-8", "replace")):
            values[name] = match[1]
    known = {name.lower(): value for name, value in results}
    text = _normalized_body(request, known, content)
    places = {str(folder): "{{folder}}", f"127.0.0.1:{port}": "{{server}}"}
    places |= {value: f"{{{{{name}}}}}" for name, value in values.items()}
    for value, name in places.items():
        text = text.replace(value, name)
    return {
        "name": request.name,
        "status": status,
        "headers": _normalized_headers(results, text, places),
        "body": text,
    }


def _filled(text: str, values: Mapping[str, str]) -> str:
    return re.sub(r"\{\{(\w+)\}\}", lambda match: values.get(match[1], "missing"), text)


def _normalized_headers(found: Sequence[tuple[str, str]], text: str, places: Mapping[str, str]) -> list[str]:
    kept = []
    for name, value in found:
        lower = name.lower()
        if lower in _DROPPED_HEADERS or (lower == "content-length" and "#" in text):
            continue
        if text.endswith(" file") and lower in ("content-length", "etag"):
            continue
        if lower in _VARYING_HEADERS:
            value = re.sub(r"[0-9a-f]{8,}|\d+", "#", value) if lower != "ratelimit" else re.sub(r"t=\d+", "t=#", value)
        for place, replacement in places.items():
            value = value.replace(place, replacement)
        kept.append(f"{lower}: {value}")
    return sorted(kept)


def _normalized_body(request: Request, headers: Mapping[str, str], content: bytes) -> str:
    """The body without what differs from run to run."""
    if headers.get("content-encoding") == "gzip":
        content = gzip.decompress(content)
    kind = headers.get("content-type", "").partition(";")[0]
    if kind in PAGE_KINDS and "{{download}}" not in request.path and "/result" not in request.path:
        return f"{kind} file"  # the page's wording may change
    if content[:4] == b"PK\x03\x04":
        return _package_text(content)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return base64.b64encode(content).decode()
    if request.path.startswith("/metrics"):
        return _metrics(text)
    if request.path == "/openapi.json":  # the members of an object have no order
        return json.dumps(json.loads(without_varying(text)), ensure_ascii=False, sort_keys=True)
    if kind == "text/event-stream":
        return joined_events(text)
    if request.path in ("/generate", "/v1/completions") and not re.search(rb'"seed": \d', request.body or b""):
        text = re.sub(r'"seed":\d+', '"seed":"#"', text)  # drawn by the server
    return without_varying(text)


def without_varying(text: str) -> str:
    for pattern, replacement in (
        (_VARYING, r'"\1":\2"#"'),
        (_RANDOM_IDS, r'"id":\1"#"'),
        (_TIMING, r'"\1":\2"#"'),
        (_WAIT, "try again in #"),
    ):
        text = pattern.sub(replacement, text)
    return text


def _package_text(content: bytes) -> str:
    """The parts of a .docx or .odt but for their times."""
    with zipfile.ZipFile(io.BytesIO(content)) as package:
        parts = {name: package.read(name).decode("utf-8", "replace") for name in package.namelist()}
    return json.dumps({name: text for name, text in parts.items() if name not in ("docProps/core.xml", "meta.xml")})


def _metrics(text: str) -> str:
    """Names, help and labels, and the values of the counters that count requests and tokens."""
    lines = []
    for line in text.splitlines():
        counted = line.startswith("#") or (_COUNTED.match(line) and not any(route in line for route in _REPEATED))
        if line.startswith(("process_", "python_")) or "_bucket{" in line or _REPORTED.search(line):
            continue
        lines.append(line if counted else line.rpartition(" ")[0])
    return "\n".join([*sorted(lines), "metrics file"])  # models are listed as they were loaded


def joined_events(text: str) -> str:
    """Server-sent events with the tokens of one text joined, however they were cut into events."""
    joined: dict[str, dict[str, Any]] = {}
    others = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line and not line.startswith(":"))
        data, name = fields.get("data", ""), fields.get("event", "")
        parsed: Any = json.loads(data) if data.startswith("{") else None
        if name == "token":
            _grow(joined.setdefault(f"token {parsed.pop('index', 0)}", {}), parsed)
        elif isinstance(parsed, dict) and parsed.get("object") == "text_completion" and parsed.get("choices"):
            usage = parsed.pop("usage", None)
            for choice in parsed.pop("choices"):
                key = f"choice {choice.pop('index')}"
                _grow(joined.setdefault(key, {}), choice)
                if usage is not None:
                    joined[f"{key} usage"] = usage  # counts up from chunk to chunk
            shown = without_varying(json.dumps(parsed))
            if shown not in others:
                others.append(shown)
        elif block.strip():
            others.append(f"{name} {without_varying(data or block)}".strip())
    return json.dumps({"joined": dict(sorted(joined.items())), "others": others}, ensure_ascii=False)


def _grow(whole: dict[str, Any], piece: dict[str, Any]) -> None:
    """Adds a piece of a text: strings and lists grow, at any depth; other values are the last ones."""
    for name, value in piece.items():
        if isinstance(value, dict):
            inner = whole.setdefault(name, {})
            _grow(inner if isinstance(inner, dict) else whole.setdefault(f"{name} parts", {}), value)
        elif isinstance(value, str | list) and isinstance(whole.get(name), type(value)):
            whole[name] += value
        elif value is not None or name not in whole:
            whole[name] = value


if __name__ == "__main__":
    sys.exit(main())
