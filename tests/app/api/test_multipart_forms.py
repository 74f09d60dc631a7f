"""Forms of several parts."""

from __future__ import annotations

import pytest

from app.api.request_body import Upload, form_parts
from app.errors import InvalidRequest
from tests.app.api.client import Client

KIND = "multipart/form-data; boundary=x"
HEAD = b'--x\r\nContent-Disposition: form-data; name="q"'


def test_fields_and_files_in_their_order() -> None:
    body = (
        HEAD
        + b"\r\n\r\na\r\nb\r\n"
        + HEAD.replace(b'"q"', b'"f"; filename="a b.txt"')
        + b"\r\n\r\n\x00\xff\r\n--x--\r\n"
    )
    assert form_parts(KIND, body, 10) == [("q", b"a\r\nb"), ("f", Upload("a b.txt", b"\x00\xff"))]


@pytest.mark.parametrize(
    ("kind", "body", "sentence"),
    [
        ("multipart/form-data", HEAD, "The header Content-Type names no boundary"),
        (KIND, b"q=a", "The body is not a form of the boundary"),
        (KIND, b"--y\r\n\r\n", "The body is not a form of the boundary"),
        (KIND, HEAD + b"\r\n\r\na", "The form ends before its last boundary"),
        (KIND, b"", "The form ends before its last boundary"),
        (KIND, b"--x\r\nContent-Type: a/b\r\n\r\na\r\n--x--\r\n", "A part of the form has no name"),
        (KIND, (HEAD + b"\r\n\r\na\r\n") * 11 + b"--x--\r\n", "The form has more than 10 fields"),
        (KIND, HEAD + b"\r\n\r\n" + b"\r\n--xa" * 20 + b"\r\n--x--\r\n", "The boundary of this form is in it 21 times"),
        ("multipart/form-data; boundary=" + "x" * 10_000, HEAD, "The body is not a form of the boundary"),
    ],
)
def test_malformed_multipart_is_refused(kind: str, body: bytes, sentence: str) -> None:
    with pytest.raises(InvalidRequest, match=sentence):
        form_parts(kind, body, 10)


def test_line_ends_and_charset_of_forms() -> None:
    parts = {"q": (None, "ä\r\nb"), "source": (None, "de"), "target": (None, "en")}
    assert Client().post("/translate", files=parts).json() == {"translatedText": "en:ä\nen:b"}
    answer = Client().post("/translate", files=parts | {"q": (None, b"\xe4")})
    assert answer.json()["error"] == "The body is not UTF-8; send it as UTF-8, without compression."


def test_a_field_twice_is_refused() -> None:
    parts = [("q", (None, "a")), ("q", (None, "b")), ("source", (None, "de")), ("target", (None, "en"))]
    answer = Client().post("/translate", files=parts)
    assert (answer.status_code, answer.json()["field"]) == (400, "q")


def test_file_in_a_text_field_is_refused() -> None:
    parts = {"q": ("q.txt", b"a"), "source": (None, "de"), "target": (None, "en")}
    answer = Client().post("/translate", files=parts)
    assert (answer.status_code, answer.json()["field"]) == (400, "q")
