"""POST /v2/document and what follows, in the form of DeepL's clients."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.errors import EngineFailed
from tests.app.api.client import Client, recorded
from tests.app.api.fake_engine import FakeEngine

LETTER = {"file": ("brief.txt", b"Hallo Welt.\n\nEin Bier.\n", "text/plain")}
PAIR = {"source_lang": "DE", "target_lang": "EN-GB"}
Session = Callable[[httpx.AsyncClient], Awaitable[Any]]


def within(client: Client, session: Session) -> Any:
    """One event loop for all of it: the work goes on between requests."""

    async def run() -> Any:
        transport = httpx.ASGITransport(app=client.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://parlance") as http:
            try:
                return await session(http)
            finally:
                await client.app.state.services.documents.close()

    return asyncio.run(run())


async def ended(http: httpx.AsyncClient, made: dict[str, str]) -> dict[str, Any]:
    for _ in range(400):
        answer = await http.post(f"/v2/document/{made['document_id']}", json={"document_key": made["document_key"]})
        status: dict[str, Any] = answer.json()
        if status["status"] in ("done", "error"):
            return status
        await asyncio.sleep(0.01)
    raise AssertionError("it never ends")


def test_document_is_uploaded_polled_and_downloaded(tmp_path: Path) -> None:
    async def session(http: httpx.AsyncClient) -> None:
        sent = await http.post("/v2/document", data=PAIR, files=LETTER)
        made = sent.json()
        assert (sent.status_code, sorted(made)) == (200, ["document_id", "document_key"])
        status = await ended(http, made)
        assert status == {"document_id": made["document_id"], "status": "done", "billed_characters": 23}
        path, key = f"/v2/document/{made['document_id']}/result", {"document_key": made["document_key"]}
        for fetched in (await http.post(path, json=key), await http.post(path, data=key)):
            assert fetched.content.decode() == "en:Hallo Welt.\n\nen:Ein Bier.\n"
            assert fetched.headers["content-type"] == "text/plain; charset=utf-8"
        other = await http.post(path, json={"document_key": "0" * 64})
        assert (other.status_code, list(other.json())) == (404, ["message"])

    within(Client(data=tmp_path), session)


def test_unfinished_result_can_be_requested_again(tmp_path: Path) -> None:
    client, gate = Client(data=tmp_path), asyncio.Event()
    translate = client.engine.translate

    async def held(requests: Any) -> Any:
        await gate.wait()
        return await translate(requests)

    client.engine.translate = held  # type: ignore[method-assign]

    async def session(http: httpx.AsyncClient) -> None:
        made = (await http.post("/v2/document", data=PAIR, files=LETTER)).json()
        key = {"document_key": made["document_key"]}
        status = {"status": "queued"}
        while status["status"] == "queued":
            status = (await http.post(f"/v2/document/{made['document_id']}", json=key)).json()
        assert (status["status"], status["seconds_remaining"]) == ("translating", 1)
        early = await http.post(f"/v2/document/{made['document_id']}/result", json=key)
        assert (early.status_code, early.headers["retry-after"]) == (503, "2")
        gate.set()
        status = await ended(http, made)
        assert (status["status"], "seconds_remaining" in status) == ("done", False)

    within(client, session)


def test_failure_during_translation_is_reported(tmp_path: Path) -> None:
    async def session(http: httpx.AsyncClient) -> None:
        made = (await http.post("/v2/document", data=PAIR, files=LETTER)).json()
        status = await ended(http, made)
        assert (status["status"], status["error_message"]) == ("error", "It broke.")
        path = f"/v2/document/{made['document_id']}/result"
        answer = await http.post(path, json={"document_key": made["document_key"]})
        assert (answer.status_code, answer.json()) == (400, {"message": "It broke."})

    within(Client(FakeEngine(failure=EngineFailed("It broke.")), data=tmp_path), session)


def test_servers_with_one_folder_answer_for_each_others_documents(tmp_path: Path) -> None:
    other = Client(data=tmp_path)

    async def session(http: httpx.AsyncClient) -> None:
        made = (await http.post("/v2/document", data=PAIR, files=LETTER)).json()
        await ended(http, made)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=other.app), base_url="http://other") as second:
            assert (await ended(second, made))["status"] == "done"
            path = f"/v2/document/{made['document_id']}/result"
            fetched = await second.post(path, json={"document_key": made["document_key"]})
            assert fetched.content.decode() == "en:Hallo Welt.\n\nen:Ein Bier.\n"
            assert "brief" in fetched.headers["content-disposition"]

    within(Client(data=tmp_path), session)


def test_several_glossaries_of_a_document_are_one_and_the_earlier_wins(tmp_path: Path) -> None:
    client = Client(data=tmp_path)
    texts = recorded(client)

    async def session(http: httpx.AsyncClient) -> None:
        ids = []
        for entries in ("Bier\tale", "Bier\tlager\nWelt\tearth"):
            fields = {"name": "x", "source_lang": "de", "target_lang": "en", "entries": entries}
            ids.append((await http.post("/v2/glossaries", json=fields)).json()["glossary_id"])
        made = await http.post("/v2/document", data=PAIR | {"glossary_ids": ",".join(ids)}, files=LETTER)
        assert (await ended(http, made.json()))["status"] == "done"

    within(client, session)
    assert [dict(request.glossary) for request in texts.requests] == [{"Bier": "ale", "Welt": "earth"}]


def test_unreadable_file_is_refused(tmp_path: Path) -> None:
    async def session(http: httpx.AsyncClient) -> dict[str, Any]:
        files = {"file": ("brief.docx", b"PK, but no", "application/octet-stream")}
        return await ended(http, (await http.post("/v2/document", data=PAIR, files=files)).json())

    status = within(Client(data=tmp_path), session)
    assert status["status"] == "error"
    assert "cannot be read" in status["error_message"]


def test_glossaries_reach_the_translator_as_those_of_texts_do(tmp_path: Path) -> None:
    client = Client(data=tmp_path)
    spy = recorded(client)
    ids = []
    for entries in ("Bier\tale\nWirt\thost", "Bier\tbeer\nGlas\tpint"):
        stored = {"name": "Pub", "source_lang": "DE", "target_lang": "EN", "entries": entries}
        ids.append(client.post("/v2/glossaries", json=stored).json()["glossary_id"])
    merged = {"Bier": "ale", "Wirt": "host", "Glas": "pint"}

    async def session(http: httpx.AsyncClient) -> None:
        for named, terms in (
            ({"glossary_ids": ids}, merged),
            ({"glossary_ids": ",".join(ids)}, merged),
            ({"glossary_id": ids[0], "glossary_ids": [ids[1]]}, merged),
            ({"glossary_id": ids[1]}, {"Bier": "beer", "Glas": "pint"}),
        ):
            spy.requests.clear()
            made = await http.post("/v2/document", data=PAIR | named, files=LETTER)
            assert made.status_code == 200, made.text
            assert (await ended(http, made.json()))["status"] == "done"
            assert spy.requests
            assert all(dict(request.glossary) == terms for request in spy.requests), named
        unknown = {"glossary_ids": ["559192ed-8e23-4b3c-b7a3-2fa1c6f5a9a2"]}
        assert (await http.post("/v2/document", data=PAIR | unknown, files=LETTER)).status_code == 404

    within(client, session)


@pytest.mark.parametrize(
    ("fields", "name", "sentence"),
    [
        ({}, "bild.png", '"file" is bild.png; this server takes the file extensions .txt, .md, .srt'),
        ({"target_lang": "FR"}, "a.txt", "Value for 'target_lang' not supported. There is no model for DE → FR here."),
        ({"output_format": "pdf"}, "a.txt", '"output_format" is pdf; a .txt comes back as .txt. Leave it out.'),
        ({"formality": "more"}, "a.txt", '"formality" is "more", but these models have no formality'),
        ({"glossary_id": "x", "source_lang": ""}, "a.txt", '"glossary_id" needs "source_lang"'),
        ({"glossary_ids": "x,y", "source_lang": ""}, "a.txt", '"glossary_ids" needs "source_lang"'),
        ({"style_id": "x"}, "a.txt", "There is no field style_id; there are no styles, instructions and"),
        ({"custom_instructions": "x"}, "a.txt", "There is no field custom_instructions; there are no styles,"),
        ({"translation_memory_id": "x"}, "a.txt", "There is no field translation_memory_id; there are no styles,"),
    ],
)
def test_refusals(tmp_path: Path, fields: dict[str, str], name: str, sentence: str) -> None:
    answer = Client(data=tmp_path).post("/v2/document", data=PAIR | fields, files={"file": (name, b"Hallo")})
    assert answer.status_code == 400
    assert answer.json()["message"].startswith(sentence)


def test_more_than_can_wait_is_429(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.api.document_jobs.MAX_PENDING_DOCUMENTS", 2)
    client = Client(data=tmp_path)

    async def never(requests: Any) -> Any:
        await asyncio.Event().wait()

    client.engine.translate = never  # type: ignore[method-assign]

    async def session(http: httpx.AsyncClient) -> None:
        assert (await http.post("/v2/document", data=PAIR, files=LETTER)).status_code == 200
        full = await http.post("/v2/document", data=PAIR, files=LETTER)
        assert (full.status_code, full.headers["retry-after"]) == (429, "10")

    within(client, session)
