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


@pytest.mark.parametrize(
    ("disposition", "filename"),
    [
        ('form-data; filename="a.txt"; name="f"', "a.txt"),
        ('form-data; filename="a b;c.txt" ; name="f"', "a b;c.txt"),
        ("form-data;name=f;filename=a.txt", "a.txt"),
        ("form-data; filename=a.txt; size=3; name=f", "a.txt"),
        ('FORM-DATA; FileName = "a.txt"; NAME = "f"', "a.txt"),
        (r'form-data; filename="a\"b; name=\"x\".txt"; name="f"', 'a"b; name="x".txt'),
        (r'form-data; filename="C:\\a\\"; name="f"', "C:\\a\\"),
        ('form-data; filename="a\\"; name="f"', "a\\"),  # browsers write a backslash as it is
        ("form-data; filename*=UTF-8''b%C3%A4r.txt; name=\"f\"", "bär.txt"),
        ("form-data; name=\"f\"; filename*=utf-8'de'b%C3%A4r.txt", "bär.txt"),
        ("form-data; filename*=iso-8859-1''b%E4r.txt; filename=\"b_r.txt\"; name=f", "bär.txt"),
        ("form-data; filename*=x-none''b; filename=\"b.txt\"; name*=UTF-8''f", "b.txt"),
        ('form-data; filename="bär ü.txt"; name="f"', "bär ü.txt"),
        ('form-data; filename=""; name="f"', ""),
    ],
)
def test_name_of_a_part_and_of_its_file_in_any_order_and_notation(disposition: str, filename: str) -> None:
    body = f"--x\r\nContent-Type: text/plain\r\nContent-Disposition: {disposition}\r\n\r\na\r\n--x--\r\n".encode()
    assert form_parts(KIND, body, 10) == [("f", Upload(filename, b"a"))]


@pytest.mark.parametrize(
    "disposition", ['form-data; filename="a; name=f"', "form-data", "form-data; name=", "form-data; name*=x", "name=f"]
)
def test_part_without_a_name_is_refused(disposition: str) -> None:
    body = f"--x\r\nContent-Disposition: {disposition}\r\n\r\na\r\n--x--\r\n".encode()
    with pytest.raises(InvalidRequest, match="A part of the form has no name"):
        form_parts(KIND, body, 10)


@pytest.mark.parametrize(
    ("encoding", "written"), [("base64", b"w6Q="), ("Quoted-Printable", b"=C3=A4"), ("8bit", b"\xc3\xa4")]
)
def test_part_in_a_transfer_encoding_is_decoded(encoding: str, written: bytes) -> None:
    body = HEAD + f"\r\nContent-Transfer-Encoding: {encoding}\r\n\r\n".encode() + written + b"\r\n--x--\r\n"
    assert form_parts(KIND, body, 10) == [("q", "ä".encode())]


def test_fields_of_the_query_stand_beside_those_of_the_form() -> None:
    client = Client()
    answer = client.post("/translate?source=de&target=es", files={"q": (None, "hallo"), "target": (None, "en")})
    assert answer.json() == {"translatedText": "en:hallo"}, "the form's own fields count more"
    file = {"file": ("a.txt", b"hallo")}
    assert client.post("/translate_file?source=de&target=en", files=file).status_code == 200
    assert client.post("/translate_file", files=file).status_code == 400
