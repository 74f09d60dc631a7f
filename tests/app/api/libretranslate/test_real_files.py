"""Files of every kind that is translated, there and back over HTTP."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import pytest

from app import documents
from app.documents.readers import READERS
from tests.app.api.client import Client
from tests.app.documents.sample_documents import SAMPLES

PAIR = {"source": "de", "target": "en"}
PAGE = "<!doctype html><p class=a>Hallo <b>Welt</b></p><script>let Hallo = 1</script>"


def there_and_back(folder: Path, name: str, content: bytes, **fields: Any) -> Any:
    client = Client(data=folder)
    answer = client.post("/translate_file", files={"file": (name, content)}, data=PAIR | fields)
    assert answer.status_code == 200, answer.text
    return client.get(answer.json()["translatedFileUrl"].removeprefix("http://parlance"))


def test_frontend_settings_list_the_file_formats() -> None:
    settings = Client().get("/frontend/settings").json()
    assert settings["supportedFilesFormat"] == list(documents.SUPPORTED)


@pytest.mark.parametrize(("encoding", "charset"), [("utf-8", "utf-8"), ("utf-8-sig", "utf-8"), ("utf-16", "utf-16")])
def test_plain_text_keeps_its_encoding_and_says_it(tmp_path: Path, encoding: str, charset: str) -> None:
    fetched = there_and_back(tmp_path, "brief.TXT", "Grün\r\n\r\n  und blau\n".encode(encoding))
    assert fetched.headers["content-type"] == f"text/plain; charset={charset}"
    assert fetched.content.decode(encoding) == "en:Grün\r\n\r\n  en:und blau\n"


def shown(extension: str, content: bytes) -> str:
    """The texts of a package; another file as it stands."""
    return "\n".join(READERS[extension].read(content).texts) if READERS[extension].packaged else content.decode()


@pytest.mark.parametrize("extension", READERS)
def test_file_of_every_format_is_translated(tmp_path: Path, extension: str) -> None:
    sent = SAMPLES[extension].content()
    fetched = there_and_back(tmp_path, f"a{extension}", sent)
    assert fetched.headers["content-type"].partition(";")[0] == READERS[extension].media_type
    assert "en:" in shown(extension, fetched.content)
    assert "en:" not in shown(extension, sent)


def test_a_page_keeps_its_tags_and_its_scripts(tmp_path: Path) -> None:
    fetched = there_and_back(tmp_path, "seite.html", PAGE.encode())
    assert "<script>let Hallo = 1</script>" in fetched.text
    assert "<p class=a>" in fetched.text
    assert "en:" in fetched.text


@pytest.mark.parametrize(("extension", "part"), [(".docx", "word/document.xml"), (".odt", "content.xml")])
def test_office_files_keep_their_parts(tmp_path: Path, extension: str, part: str) -> None:
    sent = SAMPLES[extension].content()
    fetched = there_and_back(tmp_path, f"a{extension}", sent)
    before, after = zipfile.ZipFile(io.BytesIO(sent)), zipfile.ZipFile(io.BytesIO(fetched.content))
    assert set(before.namelist()) == set(after.namelist())
    assert b"en:" in after.read(part)
    assert b"en:" not in before.read(part)


@pytest.mark.parametrize("name", [f"a{extension}" for extension in documents.SUPPORTED])
def test_invalid_file_is_a_client_error(tmp_path: Path, name: str) -> None:
    answer = Client(data=tmp_path).post("/translate_file", files={"file": (name, b"\xff\x00\xfe\x80" * 20)}, data=PAIR)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    assert answer.json()["error"].startswith("The file ")
    assert not list(tmp_path.iterdir())
