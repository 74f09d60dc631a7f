"""POST /translate: our own fields, in every request format, and answered only on request."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.storage.glossary_store import Dictionary
from tests.app.api.client import Client, recorded
from tests.app.api.fake_engine import FakeEngine
from tests.app.api.test_event_stream import events
from tests.request_builders import text_request, translation_request

HALLO = {"q": "hallo", "source": "de", "target": "en"}
OURS: dict[str, Any] = {
    "model": "tiny-de-en",
    "beam_size": 2,
    "length_penalty": 0.6,
    "max_new_tokens": 50,
    "prefix": "Hel",
    "glossary": {"Bier": "ale"},
    "no_repeat_ngram_size": 3,
    "split": False,
    "format": "html",
    "alternatives": 1,
    "return": ["scores", "tokens"],
}
ASKED = text_request(
    "hallo",
    "de",
    "en",
    model="tiny-de-en",
    format="html",
    alternatives=1,
    beam_size=2,
    length_penalty=0.6,
    max_new_tokens=50,
    prefix="Hel",
    glossary={"Bier": "ale"},
    no_repeat_ngram_size=3,
    split=False,
    wants=frozenset({"scores", "tokens"}),
)
FORM = {
    **{name: str(value) for name, value in OURS.items()},
    "split": "false",
    "glossary": json.dumps(OURS["glossary"]),
    "return": "scores, tokens",
}
FORM_PENALTY = {"beam_size": "1", "repetition_penalty": "1.5"}
WAYS = {
    "json": {"json": HALLO | OURS},
    "json with commas": {"json": HALLO | OURS | {"return": "tokens,scores"}},
    "form": {"data": HALLO | FORM},
    "query": {"params": HALLO | FORM},
    "parts": {"files": {name: (None, value) for name, value in (HALLO | FORM).items()}},
}


@pytest.mark.parametrize("way", WAYS)
def test_every_request_format_gives_the_same_request(way: str) -> None:
    client = Client()
    spy = recorded(client)
    answer = client.post("/translate", **WAYS[way])
    assert answer.status_code == 200, answer.text
    assert spy.requests == [ASKED]
    assert answer.json().keys() == {"translatedText", "alternatives", "scores", "tokens"}


def test_omitted_options_are_left_to_the_server() -> None:
    client = Client()
    spy = recorded(client)
    assert client.post("/translate", json=HALLO).json() == {"translatedText": "en:hallo"}
    assert spy.requests == [text_request("hallo", "de", "en")]
    assert client.engine.requests == [translation_request("hallo", "de", "en")]


@pytest.mark.parametrize("send", [{"json": {"beam_size": 1, "repetition_penalty": 1.5}}, {"data": FORM_PENALTY}])
def test_repetition_penalty_reaches_greedy_search(send: dict[str, Any]) -> None:
    client = Client()
    spy = recorded(client)
    (kind, fields) = next(iter(send.items()))
    assert client.post("/translate", **{kind: HALLO | fields}).status_code == 200
    assert spy.requests == [text_request("hallo", "de", "en", beam_size=1, repetition_penalty=1.5)]


@pytest.mark.parametrize(
    "other", [{"beam_size": None}, {"beam_size": 2}, {"alternatives": 1}, {"glossary": {"a": "b"}}]
)
def test_repetition_penalty_of_a_beam_is_refused(other: dict[str, Any]) -> None:
    answer = Client().post("/translate", json={**HALLO, "beam_size": 1, "repetition_penalty": 1.5, **other})
    assert answer.status_code == 400
    assert answer.json()["error"] == (
        'The body has "repetition_penalty", which a beam does not have: send "beam_size": 1 with it, and neither'
        " alternatives nor a glossary."
    )


def test_empty_fields_of_a_form_are_not_filled_in() -> None:
    client = Client()
    spy = recorded(client)
    client.post("/translate", data={**HALLO, "glossary": "", "return": "", "prefix": ""})
    assert spy.requests == [text_request("hallo", "de", "en")]


def test_scores_tokens_and_alignment_of_one_text() -> None:
    expected = {"return": ["scores", "tokens", "alignment"], "alternatives": 1, "q": "ja"}
    answer = Client().post("/translate", json=HALLO | expected).json()
    assert answer == {
        "translatedText": "en:ja",
        "alternatives": ["en:ja (1)"],
        "scores": [-0.25, -0.5],
        "tokens": [{"id": index, "text": letter, "logprob": -0.125} for index, letter in enumerate("en:ja")],
        "alignment": [{"target_start": 3, "target_end": 5, "source_start": 0, "source_end": 2, "weight": 0.75}],
    }


def test_details_of_a_list_per_text() -> None:
    answer = Client().post("/translate", json=HALLO | {"q": ["a", " "], "return": ["scores", "alignment"]}).json()
    assert answer["scores"] == [[-0.25], []]
    assert [len(words) for words in answer["alignment"]] == [1, 0]
    assert "tokens" not in answer


def test_last_event_has_the_requested_details() -> None:
    answer = Client().post("/translate", json=HALLO | {"stream": True, "return": "scores"})
    assert events(answer.text)[-1][1]["scores"] == [-0.25]


def test_repetition_is_a_finish_reason() -> None:
    client = Client(FakeEngine(repetitive=frozenset({"hallo"}), length_limited=frozenset({"lang"})))
    answer = client.post("/translate", json=HALLO | {"q": ["hallo", "lang", "gut"]}).json()
    assert answer["finishReason"] == ["repetition", "length", "stop"]


def test_markup_does_not_count_as_english() -> None:
    page = "<!-- this is the page --><div class='this is english'><script>if (this) { return the_page }</script>Ich bin"
    page += " ein Bier &auml;</div>"
    fields = {"q": page, "source": "auto", "target": "en", "format": "html"}
    assert Client().post("/translate", json=fields).json()["detectedLanguage"]["language"] == "de"


@pytest.mark.parametrize(
    ("fields", "field", "sentence"),
    [
        ({"beam_size": 0}, "beam_size", '"beam_size" is 0; it takes 1 or more.'),
        ({"beam_size": 65}, "beam_size", '"beam_size" is 65; this server takes at most 64.'),
        ({"length_penalty": -0.1}, "length_penalty", '"length_penalty" is -0.1; it takes 0 or more.'),
        ({"length_penalty": 5.5}, "length_penalty", '"length_penalty" is 5.5; it takes at most 5.'),
        ({"max_new_tokens": 0}, "max_new_tokens", '"max_new_tokens" is 0; it takes 1 or more.'),
        ({"max_new_tokens": 1025}, "max_new_tokens", '"max_new_tokens" is 1,025; this server takes at most 1,024.'),
        ({"no_repeat_ngram_size": 101}, "no_repeat_ngram_size", '"no_repeat_ngram_size" is 101; it takes at most 100.'),
        ({"repetition_penalty": 0}, "repetition_penalty", '"repetition_penalty" is 0; it takes 0.01 or more.'),
        ({"split": "perhaps"}, "split", '"split" is "perhaps"; it takes true or false.'),
        ({"format": "md"}, "format", '"format" is "md"; it takes "text" or "html".'),
        ({"return": "score"}, "return", '"return" holds "score"; it takes "scores", "tokens" and "alignment".'),
        ({"return": [5]}, "return", '"return" holds 5; it takes "scores", "tokens" and "alignment".'),
        ({"return": {}}, "return", '"return" is an object; it takes a list of "scores", "tokens" and "alignment".'),
        (
            {"q": ["a"], "prefix": "b"},
            "prefix",
            '"prefix" begins a translation, but "q" is a list; send its texts one at a time, or leave it out.',
        ),
        (
            {"glossary": {"a": "b" * 201}},
            "glossary",
            '"glossary" has a term of 201 characters; each may have 200.',
        ),
        (
            {"glossary": {str(number): "b" for number in range(1001)}},
            "glossary",
            '"glossary" has 1,001 terms; one request takes 1,000.',
        ),
        (
            {"glossary": {"a": ""}},
            "glossary",
            '"glossary" has an empty term; each takes at least one character that is not white space.',
        ),
        (
            {"glossary": {"a\nb": "c"}},
            "glossary",
            '"glossary" has a term with a control character; terms are text of one line.',
        ),
        ({"glossary": {"a": "b", " a": "c"}}, "glossary", '"glossary" has a source term twice; leave one out.'),
        ({"glossary": '{"a": "b", "a": "c"}'}, "glossary", '"glossary" has a source term twice; leave one out.'),
        (
            {"glossary": {"a": 5}},
            "glossary",
            '"glossary" has 5 for "a"; it takes an object such as {"Bier": "ale"}, source terms and what each becomes,'
            " or a glossary's id.",
        ),
        (
            {"glossary": "{1}"},
            "glossary",
            '"glossary" is "{1}", which is no JSON; it takes an object such as {"Bier": "ale"}, source terms and what'
            " each becomes, or a glossary's id.",
        ),
        (
            {"glossary": ["a"]},
            "glossary",
            '"glossary" is a list; it takes an object such as {"Bier": "ale"}, source terms and what each becomes, or'
            " a glossary's id.",
        ),
        (
            {"glossary": {"\ud800": "a"}},
            "glossary",
            '"glossary" holds half a character (\\ud800, a lone surrogate); send whole ones.',
        ),
    ],
)
def test_refusals(fields: dict[str, Any], field: str, sentence: str) -> None:
    client = Client()
    answer = client.post_raw("/translate", json.dumps(HALLO | fields).encode())
    assert (answer.status_code, answer.json()["field"], answer.json()["error"]) == (400, field, sentence)
    assert client.engine.calls == 0


def test_a_beam_has_no_more_hypotheses_than_the_server_has_slots() -> None:
    answer = Client(slots_per_model=16).post("/translate", json=HALLO | {"beam_size": 17})
    assert answer.json()["error"] == '"beam_size" is 17; this server takes at most 16.'
    assert Client(slots_per_model=16).post("/translate", json=HALLO | {"beam_size": 16}).status_code == 200


def test_a_glossary_that_the_server_keeps(tmp_path: Path) -> None:
    client = Client(data=tmp_path)
    kept = client.app.state.services.glossaries.add("anonymous", "beers", [Dictionary("de", "en", {"Bier": "ale"})])
    spy = recorded(client)
    assert client.post("/translate", json=HALLO | {"glossary": kept.id}).status_code == 200
    assert client.post("/translate", data=HALLO | {"glossary": f" {kept.id} "}).status_code == 200
    sent = {"files": {"file": ("a.txt", b"hallo")}, "data": {"source": "de", "target": "en", "glossary": kept.id}}
    assert client.post("/translate_file", **sent).status_code == 200
    assert [request.glossary for request in spy.requests] == [{"Bier": "ale"}] * 3
    answer = client.post("/translate", json=HALLO | {"glossary": kept.id, "source": "es"})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    for path in ("/translate", "/translate_file"):
        unknown = {"files": sent["files"], "data": HALLO | {"glossary": "nobody's"}}
        answer = client.post(path, **(unknown if path == "/translate_file" else {"json": unknown["data"]}))
        assert (answer.status_code, answer.json()["code"]) == (404, "unknown_glossary"), path
