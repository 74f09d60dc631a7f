"""Documents: whole, in steps, slow, and those that cannot be translated."""

from __future__ import annotations

import io
import re
import time
from pathlib import Path
from typing import Any

import deepl
import pytest

from tests.clients.deepl_python.conftest import Ours
from tests.clients.deepl_server import KEY, TEXTS, Between

PAIR = {"source_lang": "EN", "target_lang": "DE"}
LINES = 150  # seconds of work


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "output.txt"


@pytest.fixture
def large(document: Path) -> Path:
    document.write_text("".join(f"{TEXTS['en']} {line}\n" for line in range(LINES)), encoding="utf-8")
    return document


def finished(client: deepl.DeepLClient, handle: deepl.DocumentHandle) -> deepl.DocumentStatus:
    while True:
        status = client.translate_document_get_status(handle)
        assert status.ok
        if status.done:
            return status
        time.sleep(0.1)


def upload(client: deepl.DeepLClient, path: Path) -> deepl.DocumentHandle:
    with path.open("rb") as file:
        return client.translate_document_upload(file, **PAIR)


def test_file(client: deepl.DeepLClient, document: Path, output: Path, ours: Ours) -> None:
    status = client.translate_document_from_filepath(document, output, **PAIR)
    assert output.read_text(encoding="utf-8") == ours()
    assert (status.done, status.status) == (True, deepl.DocumentStatus.Status.DONE)
    assert status.billed_characters == len(TEXTS["en"])


def test_upload_without_an_answer_is_sent_again(between: Between, document: Path, output: Path, ours: Ours) -> None:
    client = deepl.DeepLClient(KEY, server_url=between.base)
    between.dropped = 1
    client.translate_document_from_filepath(document, output, **PAIR)
    assert output.read_text(encoding="utf-8") == ours()


def test_client_waits_for_a_slow_document(client: deepl.DeepLClient, large: Path, output: Path) -> None:
    client.translate_document_from_filepath(large, output, **PAIR)
    assert output.read_text(encoding="utf-8").count("\n") == LINES


def test_document_within_the_limit_of_the_client(client: deepl.DeepLClient, large: Path, output: Path) -> None:
    client.translate_document_from_filepath(large, output, timeout_s=120, **PAIR)
    assert output.read_text(encoding="utf-8").count("\n") == LINES


def test_document_beyond_the_limit_of_the_client(client: deepl.DeepLClient, large: Path, output: Path) -> None:
    with pytest.raises(deepl.DeepLException, match="timeout of 0s exceeded"):
        client.translate_document_from_filepath(large, output, timeout_s=0, **PAIR)


def test_streams_of_bytes(client: deepl.DeepLClient, large: Path) -> None:
    output = io.BytesIO()
    with large.open("rb") as file:
        client.translate_document(file, output, **PAIR)
    assert output.getvalue().count(b"\n") == LINES


def test_another_output_format(client: deepl.DeepLClient, document: Path, output: Path) -> None:
    page = output.with_suffix(".html")
    client.translate_document_from_filepath(document, page, **PAIR)
    assert page.exists()


def test_document_in_the_target_language_fails(client: deepl.DeepLClient, document: Path, output: Path) -> None:
    document.write_text("der hund schläft in dem haus und wir sehen den garten", encoding="utf-8")
    with pytest.raises(deepl.DocumentTranslationException, match="Source and target language") as error:
        client.translate_document_from_filepath(document, output, target_lang="DE")
    assert re.search(r"ID: [0-9A-F]{32}, key: [0-9A-F]{64}", str(error.value))
    assert error.value.document_handle is not None


def test_file_of_an_unknown_kind(client: deepl.DeepLClient, document: Path) -> None:
    unknown = document.rename(document.with_suffix(".invalid"))
    with pytest.raises(deepl.DeepLException, match=r"Invalid file|file extension"):
        client.translate_document_from_filepath(unknown, unknown.with_name("output.invalid"), **PAIR)


def test_steps_with_a_handle_made_anew(client: deepl.DeepLClient, large: Path) -> None:
    handle = upload(client, large)
    status = client.translate_document_get_status(handle)
    assert (status.ok, status.done) == (True, False)
    again = deepl.DocumentHandle(handle.document_id, handle.document_key)
    finished(client, again)
    output = io.BytesIO()
    client.translate_document_download(again, output)
    assert output.getvalue().count(b"\n") == LINES


def test_text_as_a_document(client: deepl.DeepLClient, ours: Ours) -> None:
    handle = client.translate_document_upload(TEXTS["en"], filename="letter.txt", **PAIR)
    finished(client, handle)
    response: Any = client.translate_document_download(handle)
    assert response.content.decode() == ours()


def test_status_tells_seconds_and_characters(client: deepl.DeepLClient, large: Path) -> None:
    handle = upload(client, large)
    status = client.translate_document_get_status(handle)
    while not status.done:
        assert status.status == deepl.DocumentStatus.Status.QUEUED or status.seconds_remaining >= 0
        time.sleep(0.1)
        status = client.translate_document_get_status(handle)
    assert status.billed_characters == len(large.read_text(encoding="utf-8"))


def test_download_in_chunks(client: deepl.DeepLClient, large: Path) -> None:
    handle = upload(client, large)
    finished(client, handle)
    response: Any = client.translate_document_download(handle)
    assert b"".join(response.iter_content(chunk_size=128)).count(b"\n") == LINES


def test_unknown_document(client: deepl.DeepLClient) -> None:
    with pytest.raises(deepl.DeepLException, match="Not found"):
        client.translate_document_get_status(deepl.DocumentHandle("12AB" * 8, "CD34" * 16))
