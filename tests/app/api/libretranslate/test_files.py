"""POST /translate_file and GET /download_file, with the plain text that needs no library."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from app.api.libretranslate.document_translation import DocumentTranslator
from app.api.libretranslate.schemas import TranslationFields
from app.documents import TranslateTexts
from app.documents.reader_pool import ReaderPool
from app.engine.interface import TranslationRequest, TranslationResult
from app.errors import InvalidRequest, Overloaded
from tests.app.api.client import Client, recorded
from tests.app.api.fake_engine import FakeEngine

PAIR = {"source": "de", "target": "en"}


@pytest.fixture(autouse=True)
def _lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file format with one text per line; app.documents tests the real formats."""

    async def translated(
        extension: str,
        content: bytes,
        ask: TranslateTexts,
        language: Callable[[], str] = str,
        readers: ReaderPool | None = None,
    ) -> bytes:
        if content.startswith(b"\xff"):
            raise InvalidRequest("The file is not UTF-8; save it as UTF-8 and send it again.", field="file")
        texts = content.decode().split("\n")
        return "\n".join(await ask(texts, "html" if extension == ".html" else "text")).encode()

    monkeypatch.setattr("app.documents.SUPPORTED", (".txt", ".html"))
    monkeypatch.setattr("app.documents.translated", translated)


def sent(client: Client, content: bytes = b"eins\nzwei", name: str = "a.txt", **fields: Any) -> Any:
    return client.post("/translate_file", files={"file": (name, content)}, data=PAIR | fields)


def test_file_is_translated_and_downloaded(tmp_path: Path) -> None:
    client = Client(data=tmp_path)
    answer = sent(client, api_key="x")
    assert answer.status_code == 200, answer.text
    assert answer.json().keys() == {"translatedFileUrl"}
    url = answer.json()["translatedFileUrl"]
    assert url.startswith("http://parlance/download_file/")
    fetched = client.get(url.removeprefix("http://parlance"))
    assert (fetched.status_code, fetched.content) == (200, b"en:eins\nen:zwei")
    assert fetched.headers["content-type"] == "text/plain; charset=utf-8"
    assert fetched.headers["content-disposition"] == 'attachment; filename="a.en.txt"'
    assert fetched.headers["x-content-type-options"] == "nosniff"


def test_a_page_is_never_shown_by_us(tmp_path: Path) -> None:
    client = Client(data=tmp_path)
    spy = recorded(client)
    url = sent(client, b"<script>alert(1)</script>", "PAGE.HTML").json()["translatedFileUrl"]
    assert [request.format for request in spy.requests] == ["html"]
    fetched = client.get(url.removeprefix("http://parlance"))
    assert fetched.headers["content-disposition"].startswith("attachment")
    assert fetched.headers["content-security-policy"] == "sandbox; default-src 'none'"


@pytest.mark.parametrize(
    ("host", "server"),
    [
        ("localhost:81", "http://localhost:81"),
        ("api", "http://api"),
        ("192.168.1.5:8000", "http://192.168.1.5:8000"),
        ("[::1]:81", "http://[::1]:81"),
        ("mt.example:81", ""),  # from a header that anybody can send
        ("203.0.114.7", ""),
        ("api/x", ""),
        ("a@b", ""),
        ("[", ""),
        ("", ""),
    ],
)
def test_an_address_that_a_stranger_may_have_is_not_taken_from_the_header(
    tmp_path: Path, host: str, server: str
) -> None:
    files = {"file": ("a.txt", b"a")}
    answer = Client(data=tmp_path).post("/translate_file", files=files, data=PAIR, headers={"host": host})
    assert answer.json()["translatedFileUrl"].startswith(f"{server}/download_file/")


def test_the_address_that_was_set_goes_before_the_one_that_was_called(tmp_path: Path) -> None:
    answer = sent(Client(data=tmp_path, public_url="https://example.org/mt/"))
    assert answer.json()["translatedFileUrl"].startswith("https://example.org/mt/download_file/")


def test_the_options_reach_every_text(tmp_path: Path) -> None:
    client = Client(data=tmp_path)
    spy = recorded(client)
    answer = sent(client, b"eins", model="m", beam_size="2", glossary='{"a": "b"}', split="false", max_new_tokens="9")
    assert answer.status_code == 200
    (request,) = spy.requests
    assert (request.text, request.glossary, request.split) == ("eins", {"a": "b"}, False)
    assert (request.options.model, request.options.decoding.beam_size) == ("m", 2)
    assert (request.format, request.options.decoding.max_new_tokens) == ("text", 9)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("glossar.csv", '\ufeffBier;ale\r\n"Wirt; alt";host\r\n'.encode()),
        ("glossar.tsv", b"Bier\tale\nWirt; alt\thost"),
        ("mac.tsv", b"\rBier\tale\rWirt; alt\thost\r"),
        ("mac.csv", b'Bier,ale\r"Wirt; alt",host\r\r'),
        ("glossar.json", b'{"Bier": "ale", "Wirt; alt": "host"}'),
    ],
)
@pytest.mark.parametrize("path", ["/translate_file", "/translate"])
def test_a_glossary_may_be_a_file(tmp_path: Path, path: str, name: str, content: bytes) -> None:
    client = Client(data=tmp_path)
    spy = recorded(client)
    text = ("file", ("a.txt", b"eins")) if path == "/translate_file" else ("q", (None, b"eins"))
    answer = client.post(path, files=dict([text, ("glossary", (name, content))]), data=PAIR)
    assert answer.status_code == 200, answer.json()
    assert [request.glossary for request in spy.requests] == [{"Bier": "ale", "Wirt; alt": "host"}]


@pytest.mark.parametrize(
    ("field", "content", "sentence"),
    [
        ("glossary", b"Bier\n", 'Line 1 of "glossary" has 1 cell; write a source term, a comma or semicolon, and'),
        ("glossary", b"B\xe4r;bear", '"glossary" is a file that is not UTF-8; save it as UTF-8 (in Excel as'),
        ("glossary", b"{", '"glossary" is "{", which is no JSON; it takes an object such as {"Bier": "ale"}'),
        ("glossary", b"Bier; ", '"glossary" has an empty term'),
        ("glossary", b"", '"glossary" has 0 terms; one request takes 1 to 1,000.'),
        ("glossary", b"\xef\xbb\xbf\r\n \r", '"glossary" has 0 terms; one request takes 1 to 1,000.'),
        ("glossary", b"{}", '"glossary" has 0 terms; one request takes 1 to 1,000.'),
        ("glossary", b"a;b\ra;c", 'Line 2 of "glossary" has a source term that an earlier line has; leave one out.'),
        ("glossary", b'{"a": "b", "a": "c"}', '"glossary" has a source term twice; leave one out.'),
        ("glossary", b'{"a": "b", "a ": "c"}', '"glossary" has a source term twice; leave one out.'),
        ("glossary", b"a\tb\rc\x0bd\te", 'Line 2 of "glossary" has a term with a control character; terms are text of'),
        ("glossary", b"a;b\rc;d\0", 'Line 2 of "glossary" has a term with a control character; terms are text of'),
        (
            "glossary",
            b'{"a": "b\\u2028c"}',
            '"glossary" has a term with a control character; terms are text of one line.',
        ),
        ("glossary", b" " * 2_000_001, '"glossary" is a file of 2,000,001 bytes; a file of terms may have 2,000,000.'),
        ("beam_size", b"4", '"beam_size" is a file; it takes a whole number.'),
    ],
)
def test_files_that_are_no_glossary_are_refused(tmp_path: Path, field: str, content: bytes, sentence: str) -> None:
    files = {"file": ("a.txt", b"eins"), field: ("x.csv", content)}
    answer = Client(data=tmp_path).post("/translate_file", files=files, data=PAIR)
    assert (answer.status_code, answer.json()["field"]) == (400, field)
    assert sentence in answer.json()["error"]


def test_a_document_has_one_language_whatever_its_short_lines_look_like(tmp_path: Path) -> None:
    client = Client(data=tmp_path)
    content = "Ich möchte ein Bier\nWar\nHotel\nUnd dann gehen wir nach Hause".encode()
    assert sent(client, content, source="auto").status_code == 200
    assert {
        request.options.source_language for request in client.engine.requests if isinstance(request, TranslationRequest)
    } == {"de"}


def test_a_long_document_leaves_room_for_others(tmp_path: Path) -> None:
    client = Client(data=tmp_path)
    lines = [f"zeile {number}" for number in range(200)]
    url = sent(client, "\n".join(lines).encode()).json()["translatedFileUrl"]
    fetched = client.get(url.removeprefix("http://parlance")).text
    assert fetched.split("\n") == [f"en:{line}" for line in lines]
    assert client.engine.calls == 4


class Busy(FakeEngine):
    """Has no room for the calls of these numbers."""

    full_at: tuple[int, ...] = ()

    async def translate(self, requests: Sequence[TranslationRequest]) -> list[TranslationResult]:
        result = await super().translate(requests)
        if self.calls in self.full_at:
            raise Overloaded("Full.", retry_after_s=7)
        return result


def test_texts_without_words_leave_turns_to_others(tmp_path: Path) -> None:
    """50,000 of them are translated without any device, and so without any wait in which others would be heard."""
    asking = DocumentTranslator(TranslationFields(**PAIR), Client(data=tmp_path).app.state.services)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def work() -> None:
        counting = asyncio.create_task(count())
        assert await asking([""] * 6400, "text") == [""] * 6400
        counting.cancel()

    asyncio.run(work())
    assert turns >= 100


def test_a_full_server_refuses_a_file_at_the_door_but_waits_with_one_that_is_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    sleep = asyncio.sleep

    async def no_sleep(seconds: float) -> None:
        waits.append(seconds)
        await sleep(0)

    engine = Busy()
    engine.full_at = (1,)
    content = "\n".join(["ja"] * 100).encode()
    answer = sent(Client(engine, data=tmp_path), content)
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "7")
    monkeypatch.setattr("app.api.libretranslate.document_translation.asyncio.sleep", no_sleep)
    engine = Busy()
    engine.full_at = (2, 3)
    assert sent(Client(engine, data=tmp_path), content).status_code == 200
    assert [seconds for seconds in waits if seconds] == [7, 7]


@pytest.mark.parametrize(
    ("change", "field", "sentence"),
    [
        ({"name": "a.pdf"}, "file", '"file" is a.pdf; this server takes the file extensions .txt, .html.'),
        ({"name": "txt"}, "file", '"file" is txt; this server takes the file extensions .txt, .html.'),
        ({"content": b"\xff\xfe"}, "file", "The file is not UTF-8; save it as UTF-8 and send it again."),
        ({"target": "fr"}, "target", "There is no model for de → fr here. Loaded pairs: de → en, en → es, es → en."),
        ({"source": "auto", "target": "xx"}, "target", "There is no model into xx here. Loaded pairs: de → en, en →"),
        ({"beam_size": "99"}, "beam_size", '"beam_size" is 99; this server takes at most 64.'),
        ({"max_new_tokens": "1025"}, "max_new_tokens", '"max_new_tokens" is 1,025; this server takes at most 1,024.'),
        ({"source": ""}, "source", '"source" is empty; send a language code as GET /languages lists them.'),
    ],
)
def test_refusals(tmp_path: Path, change: dict[str, Any], field: str, sentence: str) -> None:
    client = Client(data=tmp_path)
    answer = sent(client, **change)
    assert (answer.status_code, answer.json()["field"]) == (400, field)
    assert answer.json()["error"].startswith(sentence)
    assert client.engine.calls == 0
    assert not list(tmp_path.iterdir())


def test_missing_or_invalid_file_is_refused() -> None:
    answer = Client().post("/translate_file", files={"source": (None, "de"), "target": (None, "en")})
    assert (answer.status_code, answer.json()["field"]) == (400, "file")
    assert answer.json()["error"].startswith('"file" is missing')
    answer = Client().post("/translate_file", data={**PAIR, "file": "abc"})
    assert answer.json()["error"] == (
        '"file" is no file; send it as a part of the form that has a file name, as curl -F file=@NAME does.'
    )
    parts = [b'name="source"\r\n\r\nde', b'name="target"\r\n\r\nen', b'name="file"; filename=""\r\n\r\n']
    body = b"".join(b"--x\r\nContent-Disposition: form-data; " + part + b"\r\n" for part in parts) + b"--x--\r\n"
    answer = Client().post_raw("/translate_file", body, "multipart/form-data; boundary=x")
    assert answer.json()["error"].startswith('"file" is missing'), "a page sends that when nobody chose a file"


def test_files_may_be_larger_than_other_bodies_but_not_larger_than_they_may(tmp_path: Path) -> None:
    client = Client(data=tmp_path, max_body_bytes=2000, max_file_bytes=4000)
    assert sent(client, b"a" * 3000).status_code == 200
    answer = sent(client, b"a" * 4000)
    assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")
    assert "4,000 bytes" in answer.json()["error"]


def test_unwritable_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    answer = sent(Client(data=tmp_path / "file"))
    assert (answer.status_code, answer.json()["code"]) == (503, "engine_unavailable")
    assert "PARLANCE_DATA" in answer.json()["error"]


@pytest.mark.parametrize(
    "name", ["missing.txt", "a" * 43 + ".txt", "..%2f..%2fsecret.txt", "%2e%2e", "..\\secret.txt", "%00", "a" * 5000]
)
def test_unknown_file_is_404(tmp_path: Path, name: str) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    client = Client(data=tmp_path / "data")
    sent(client)
    answer = client.get(f"/download_file/{name}")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert answer.json()["request_id"] == answer.headers["x-request-id"]


def test_expired_file_is_404_with_the_retention_time(tmp_path: Path) -> None:
    client = Client(data=tmp_path, file_retention_s=0.01)
    url = sent(client).json()["translatedFileUrl"]
    asyncio.run(asyncio.sleep(0.02))
    answer = Client(data=tmp_path, file_retention_s=0.01).get(url.removeprefix("http://parlance"))
    assert (answer.status_code, answer.json()["error"]) == (
        404,
        "There is no such file here: translated files are kept for 0 seconds; translate it again.",
    )


@pytest.mark.parametrize(
    ("name", "disposition"),
    [
        ("Bericht 2024.txt", 'attachment; filename="Bericht 2024.en.txt"'),
        ("film.de.txt", 'attachment; filename="film.en.txt"'),
        ("Übersicht.txt", "attachment; filename=\"Ubersicht.en.txt\"; filename*=UTF-8''%C3%9Cbersicht.en.txt"),
        (
            "отчёт.txt",
            "attachment; filename=\"translation.txt\"; filename*=UTF-8''%D0%BE%D1%82%D1%87%D1%91%D1%82.en.txt",
        ),
        ('a"; x=y.txt', 'attachment; filename="a_22_ x=y.en.txt"'),
        ("../../etc/passwd.txt", 'attachment; filename="passwd.en.txt"'),
        (".txt", 'attachment; filename="translation.en.txt"'),  # "this server takes the file extensions .txt"
        ("x" * 300 + ".txt", f'attachment; filename="{"x" * 97}.en.txt"'),
    ],
)
def test_a_download_is_named_after_the_file(tmp_path: Path, name: str, disposition: str) -> None:
    client = Client(data=tmp_path)
    url = sent(client, b"eins", name).json()["translatedFileUrl"]
    fetched = client.get(url.removeprefix("http://parlance"))
    assert fetched.headers["content-disposition"] == disposition


@pytest.mark.parametrize("name", ["x%0d%0aSet-Cookie:%20a=b", "%22;evil=%22.exe", "%2e%2e%2f%2e%2e", "%00"])
def test_a_forged_download_name_stays_within_its_header(tmp_path: Path, name: str) -> None:
    client = Client(data=tmp_path)
    url = sent(client, b"eins").json()["translatedFileUrl"].partition("?")[0]
    fetched = client.get(url.removeprefix("http://parlance") + f"?as={name}")
    assert "set-cookie" not in fetched.headers
    disposition = fetched.headers["content-disposition"]
    assert disposition.count('"') == 2
    assert disposition.partition(";")[2].count(";") == disposition.count("filename*=")
    assert '.txt"' in disposition
