"""The worst requests of `benchmarks.stalls`: one for each way of each endpoint, of sizes just below the limits.

They stand in `requests/stalls.jsonl`: a name, a path, and the body as "json" or as the "fields" and the "file" of a
form. ⟪Ein Satz. ×370⟫ is that text 370 times,
{"times": 512, "of": VALUE} in a list are 512 values ({number} in them counts), {"range": 256} is the list of 0 to 255,
and {{TERMS}} is a dictionary of 20,000 terms. {glossary} and the like are what `known` has stored. With "sizes" (first,
end, step) SIZE is the largest of these numbers that the server takes: what fits depends on the model.
"""

from __future__ import annotations

import http.client
import io
import json
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.recorded_requests import FOLDER, request_lines, written_out

FILE_BYTES = 9_900_000  # PARLANCE_MAX_FILE_BYTES is 10,000,000
TERMS = 20_000  # of a dictionary
ADMIN_KEY = "stalls-admin-key-0123456789"
OK, ACCEPTED = 200, 201
_BOUNDARY = "stalls"
_DOCUMENT = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_PARAGRAPH = '<text:p>Ein <text:span text:style-name="T1">{:07}</text:span> Satz.</text:p>'
Body = tuple[str, bytes]  # its content type, and its bytes


@dataclass(frozen=True, slots=True)
class Ask:
    """Asks the server that is measured, before it is. known: what later requests need, such as ids."""

    port: int
    known: Mapping[str, str]

    def __call__(self, path: str, body: Body | None) -> tuple[int, Any]:
        """The status and the answer, read as JSON where it is JSON."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.request(*request_of(path, body))
            answer = connection.getresponse()
            content = answer.read()
            is_json = "json" in (answer.getheader("Content-Type") or "")
            return answer.status, json.loads(content) if is_json else content
        finally:
            connection.close()


@dataclass(frozen=True, slots=True)
class Case:
    """line: of the file, for the body. status: the one that is expected where the answer comes in time: any other is a
    mistake of this benchmark, for what is refused measures no work. path: may name a key of `Ask.known` in braces.
    goes_on: the work goes on after the answer."""

    name: str
    path: str
    line: Mapping[str, Any]
    status: int = OK
    method: str = ""
    goes_on: bool = False

    def body(self, ask: Ask) -> Body | None:
        """None for a GET. RuntimeError where the server takes none of the sizes."""
        if "file" in self.line:
            return form(*self.line["file"], fields=self.line["fields"])
        if "json" not in self.line:
            return None
        if "sizes" not in self.line:
            return _json(_written_out(self.line["json"], known=ask.known))
        answer: Any = None
        for size in range(*self.line["sizes"]):
            candidate = _json(_written_out(self.line["json"], size=size))
            status, answer = ask(self.path, candidate)
            if status == OK:
                return candidate
        raise RuntimeError(f"{self.path} takes none of the sizes {self.line['sizes']}: {answer}.")


def request_of(path: str, body: Body | None, method: str = "") -> tuple[str, str, bytes | None, dict[str, str]]:
    """The arguments of http.client's `request`."""
    headers = {"Authorization": f"Bearer {ADMIN_KEY}"} if path.startswith("/models/") else {}
    if body is None:
        return method or "GET", path, None, headers
    return method or "POST", path, body[1], {**headers, "Content-Type": body[0]}


def _json(fields: Any) -> Body:
    return "application/json", json.dumps(fields, ensure_ascii=False).encode()


def _written_out(value: Any, size: int = 0, known: Mapping[str, str] | None = None) -> Any:
    if isinstance(value, str):
        for separator in ("\t", ","):
            if value == ("{{TERMS}}" if separator == "\t" else "{{TERMS, csv}}"):
                return _terms(separator)
        for name, stored in (known or {}).items():
            value = value.replace(f"{{{name}}}", stored)
        return written_out(value.replace("×SIZE", f"×{size}"))
    if isinstance(value, list):
        return [each for one in value for each in _members(one, size, known)]
    if isinstance(value, dict) and "range" in value:
        return list(range(value["range"]))
    return {key: _written_out(each, size, known) for key, each in value.items()} if isinstance(value, dict) else value


def _members(value: Any, size: int, known: Mapping[str, str] | None) -> list[Any]:
    """Of a list, for one of its values."""
    if not isinstance(value, dict) or "times" not in value:
        return [_written_out(value, size, known)]
    made = _written_out(value["of"], size, known)
    return [made.replace("{number}", str(i)) if isinstance(made, str) else made for i in range(value["times"])]


def _terms(separator: str = "\t") -> str:
    return "".join(f"wort{number:05}{separator}word{number:05} of a glossary\n" for number in range(TERMS))


def form(name: str, text: str, kind: str = "", *, fields: Mapping[str, str]) -> Body:
    """A form with a file of that name. kind: docx for the body of a Word document, odt for the bytes of paragraphs."""
    parts = [
        f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="{field}"\r\n\r\n{value}\r\n'.encode()
        for field, value in fields.items()
    ]
    content = written_out(text).encode()
    if kind:
        content = _word(written_out(text)) if kind == "docx" else _open_document(int(text))
    head = f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'.encode()
    whole = b"".join([*parts, head, content, f"\r\n--{_BOUNDARY}--\r\n".encode()])
    return f"multipart/form-data; boundary={_BOUNDARY}", whole


def _package(parts: Mapping[str, str | bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as package:
        for name, content in parts.items():
            package.writestr(name, content)
    return out.getvalue()


def _word(body: str) -> bytes:
    """It unpacks to less than 10,000,000 bytes, so that their ratio to the file's own does not count."""
    with zipfile.ZipFile(FOLDER / "small.docx") as package:
        parts = {name: package.read(name) for name in package.namelist()}
    document = f'<w:document xmlns:w="{_DOCUMENT}"><w:body>{body}</w:body></w:document>'
    return _package({**parts, "word/document.xml": document})


def _open_document(size_bytes: int) -> bytes:
    """An .odt whose paragraphs have so many bytes, each another one: odfdo refuses what unpacks to too many times its
    own size."""
    with zipfile.ZipFile(FOLDER / "small.odt") as package:
        parts = {name: package.read(name) for name in package.namelist()}
    paragraphs = "".join(
        _PARAGRAPH.format(number * 7919 % 9_999_991) for number in range(size_bytes // len(_PARAGRAPH))
    )
    content = re.sub("(?<=<office:text>).*(?=</office:text>)", paragraphs, parts["content.xml"].decode())
    return _package({**parts, "content.xml": content})


def _cases() -> tuple[Case, ...]:
    rows = [json.loads(line) for line in request_lines("stalls")]
    fields = ("name", "path", "status", "method", "goes_on")
    return tuple(Case(line=row, **{field: row[field] for field in fields if field in row}) for row in rows)


CASES = _cases()


def known(port: int) -> dict[str, str]:
    """Stores what some cases read: two glossaries, a translated file of 9.9 MB, and a document of DeepL's form."""
    ask = Ask(port, {})

    def answer(path: str, body: Body, status: int) -> Any:
        given, fields = ask(path, body)
        if given != status:
            raise RuntimeError(f"{path} answers {given} to the benchmark's preparation: {fields}.")
        return fields

    entries = {"source_lang": "de", "target_lang": "en", "entries_format": "tsv", "entries": _terms()}
    glossary, blank = _json({"name": "g", "dictionaries": [entries]}), f"⟪ ×{FILE_BYTES}⟫"
    translated = form("a.txt", blank, fields={"source": "de", "target": "en"})
    document = answer("/v2/document", form("a.txt", blank, fields={"source_lang": "DE", "target_lang": "EN"}), OK)
    key = _json({"document_key": document["document_key"]})
    while answer(f"/v2/document/{document['document_id']}", key, OK)["status"] not in ("done", "error"):
        pass
    return {
        "glossary": answer("/v3/glossaries", glossary, ACCEPTED)["glossary_id"],
        "deleted": answer("/v3/glossaries", glossary, ACCEPTED)["glossary_id"],
        "file": answer("/translate_file", translated, OK)["translatedFileUrl"].rpartition("/")[2],
        "document": document["document_id"],
        "key": document["document_key"],
    }
