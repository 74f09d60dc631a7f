"""The requests with which LibreTranslate 1.9.6 was probed, and what it answered; ours are the same in status and shape
but where this says otherwise, and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.app.api.client import Client
from tests.app.api.fake_engine import FakeEngine, translator

OK = {"translatedText": "fr:Hello"}
ASKED = {"q": "Hello", "source": "en", "target": "fr"}
FORM = "application/x-www-form-urlencoded"
FRENCH = "Bonjour tout le monde mes amis"


class Probe(NamedTuple):
    """status: LibreTranslate's. ours: where we differ on purpose. answer: the whole JSON, where it is good; words:
    what the error says, where it is not."""

    status: int
    fields: Any
    answer: Any = None
    words: str = ""
    ours: int | None = None


def changed(**fields: Any) -> dict[str, Any]:
    return ASKED | fields


PROBES = {
    "single": Probe(200, changed(q="Hello world."), {"translatedText": "fr:Hello world."}),
    "batch": Probe(200, changed(q=["Hello", "World"]), {"translatedText": ["fr:Hello", "fr:World"]}),
    "q missing": Probe(400, {"source": "en", "target": "fr"}, words='"q" is missing'),
    "q empty": Probe(400, changed(q=""), words='"q" is empty'),
    "q empty list": Probe(400, changed(q=[]), words='"q" is empty'),
    "q ['']": Probe(200, changed(q=[""]), {"translatedText": [""]}),
    "q spaces": Probe(200, changed(q="   "), {"translatedText": "   "}),
    # 500 there: a wrong type is the client's fault
    "q int": Probe(500, changed(q=5), words='"q" is 5', ours=400),
    "q [1,2]": Probe(500, changed(q=[1, 2]), words='"q" holds 1', ours=400),
    "q [null]": Probe(500, changed(q=[None]), words='"q" holds null', ours=400),
    "q dict": Probe(500, changed(q={}), words='"q" is an object', ours=400),
    "source int": Probe(400, changed(source=5), words='"source" is 5; it takes a text.'),
    "alternatives abc": Probe(500, changed(alternatives="abc"), words='"alternatives" is "abc"', ours=400),
    "alternatives null": Probe(500, changed(alternatives=None), OK, ours=200),
    # LibreTranslate reads them as 0 and as 2; an impossible value is an error here
    "alternatives -1": Probe(200, changed(alternatives=-1), words='"alternatives" is -1; it takes 0 or', ours=400),
    "alternatives 2.7": Probe(200, changed(alternatives=2.7), words='"alternatives" is 2.7', ours=400),
    "format bogus": Probe(400, changed(format="md"), words='"format" is "md"; it takes "text" or "html".'),
    "unknown field": Probe(200, changed(apiKey="x"), OK),
    "unsupported target": Probe(400, changed(target="zz"), words="There is no model for en → zz here."),
    "unsupported source": Probe(400, changed(source="zz"), words="There is no model for zz → fr here."),
    "pair missing": Probe(400, changed(source="zh", target="de"), words="There is no model for zh → de here."),
    "source==target": Probe(
        200,
        changed(target="en"),
        {
            "translatedText": "Hello",
            "notices": [
                {
                    "code": "already_in_target_language",
                    "message": "This text is in English already; it is returned as it is.",
                }
            ],
        },
    ),
    "json list": Probe(400, [ASKED], words="The body is a list; send a JSON object"),
    "lone surrogate": Probe(500, changed(q="a\ud800"), words='"q" holds half a character', ours=400),
    # C strings end at it, and so do words of some models' vocabularies
    "NUL": Probe(200, changed(q="a\0b"), words='"q" holds the character NUL', ours=400),
    # without a limit there
    "10MB": Probe(200, changed(q="a" * 10_000_000), words="This request's body is larger than the", ours=413),
}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Client:
    loaded = [translator("en", "fr"), translator("fr", "en"), translator("de", "en"), translator("zh-Hans", "en")]
    return Client(FakeEngine(loaded=loaded), data=tmp_path_factory.mktemp("data"))


@pytest.mark.parametrize("name", PROBES)
def test_translate(client: Client, name: str) -> None:
    probe = PROBES[name]
    answer = client.post_raw("/translate", json.dumps(probe.fields).encode())
    assert answer.status_code == (probe.ours or probe.status)
    assert answer.headers["content-type"] == "application/json"
    if probe.answer is not None:
        assert answer.json() == probe.answer
    else:
        assert answer.json()["error"].startswith(probe.words)


def test_detected_language_and_alternatives(client: Client) -> None:
    fields = {"source": "auto", "target": "en", "alternatives": 2}
    one = client.post("/translate", json={"q": FRENCH, **fields}).json()
    others = [f"en:{FRENCH} (1)", f"en:{FRENCH} (2)"]
    confidence = one["detectedLanguage"].pop("confidence")
    assert one == {"translatedText": f"en:{FRENCH}", "alternatives": others, "detectedLanguage": {"language": "fr"}}
    assert 90 < confidence <= 100
    two = client.post("/translate", json={"q": [FRENCH, "Guten Tag meine Damen und Herren"], **fields}).json()
    assert two.keys() == {"translatedText", "alternatives", "detectedLanguage"}
    assert two["alternatives"][0] == others
    assert [detection["language"] for detection in two["detectedLanguage"]] == ["fr", "de"], (
        "there both are the first one's"
    )


@pytest.mark.parametrize(
    ("kind", "body", "query", "status", "ours"),
    [
        (FORM, b"q=Hello&source=en&target=fr", "", 200, 200),
        (FORM, b"q=Hello&q=World&source=en&target=fr", "", 200, 400),  # drops the second there: nothing is dropped here
        ("", b"", "?q=Hello&source=en&target=fr", 200, 200),
        (FORM, b"q=Hello", "?source=en&target=fr", 200, 200),
        (FORM, b"q=Hello&source=en&target=fr&alternatives=abc", "", 400, 400),
        ("application/json", b'{"q":', "", 400, 400),
        ("application/json", b"", "", 400, 400),
        ("text/plain", b"Hello", "", 400, 415),  # LibreTranslate answers "missing q", which does not name the mistake
    ],
)
def test_bodies(client: Client, kind: str, body: bytes, query: str, status: int, ours: int) -> None:
    headers = {"content-type": kind} if kind else {}
    answer = client.post(f"/translate{query}", content=body, headers=headers)
    assert answer.status_code == ours, f"LibreTranslate: {status}"
    if ours == 200:
        assert answer.json() == OK
    else:
        assert answer.json()["error"].endswith(".")


def test_a_form_with_a_batch_is_a_text_of_its_own(client: Client) -> None:
    """A list is for JSON, there and here."""
    answer = client.post("/translate", data=ASKED | {"q": '["Hello"]'})
    assert answer.json() == {"translatedText": 'fr:["Hello"]'}


def test_emoji_alone_are_one_text(client: Client) -> None:
    """Echoed there; what this server's translator does with them is tested with it."""
    answer = client.post("/translate", json=ASKED | {"q": "😀"})
    assert answer.status_code == 200
    assert "😀" in answer.json()["translatedText"]


def test_entities_stay_as_they_are(client: Client) -> None:
    """ "a <b> c" there."""
    answer = client.post("/translate", json=ASKED | {"q": "a &lt;b&gt; c"})
    assert answer.json()["translatedText"].endswith("a &lt;b&gt; c")


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/translate", 405), ("GET", "/nothing", 404)])
def test_wrong_paths_and_methods(client: Client, method: str, path: str, status: int) -> None:
    """HTML pages there."""
    answer = client.request(method, path)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/json")
    if status == 405:
        assert answer.headers["allow"] == "POST"


def test_options_for_pages_that_may_call() -> None:
    headers = {"Origin": "https://page.example", "Access-Control-Request-Method": "POST"}
    answer = Client(cors_origins="*").request("OPTIONS", "/translate", headers=headers)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == "*"
    assert {"GET", "POST"} <= set(answer.headers["access-control-allow-methods"].split(", "))


def test_detect(client: Client) -> None:
    def detect(q: Any) -> Any:
        return client.post("/detect", json={"q": q})

    assert detect(FRENCH).json()[0]["language"] == "fr"
    assert {each["language"] for each in detect([FRENCH, "Guten Tag meine Damen und Herren"]).json()[:2]} == {
        "fr",
        "de",
    }
    assert detect("123").json() == [{"confidence": 0.0, "language": "en"}]
    assert detect(5).status_code == 400, "there nothing, with a confidence of 0"


def test_languages(client: Client) -> None:
    """A language is no target of its own here. German and Chinese come to French through English."""
    assert client.get("/languages").json() == [
        {"code": "de", "name": "German", "targets": ["en", "fr"]},
        {"code": "en", "name": "English", "targets": ["fr"]},
        {"code": "fr", "name": "French", "targets": ["en"]},
        {"code": "zh-Hans", "name": "Chinese (simplified)", "targets": ["en", "fr"]},
    ]


def test_health_and_settings(client: Client) -> None:
    assert client.get("/health").json() == {"status": "ok"}
    settings = client.get("/frontend/settings").json()
    assert settings.keys() == {
        "apiKeys",
        "charLimit",
        "filesTranslation",
        "frontendTimeout",
        "keyRequired",
        "language",
        "suggestions",
        "supportedFilesFormat",
        *("beamSize", "modelChanges"),  # ours
    }
    assert settings["language"]["source"] == {"code": "auto", "name": "Auto Detect"}


def test_files(client: Client, tmp_path: Path) -> None:
    pair = {"source": "en", "target": "fr"}

    def sent(**options: Any) -> Any:
        return client.post("/translate_file", **options)

    assert sent(data=pair).status_code == 400
    assert sent(files={"file": ("a.exe", b"x")}, data=pair).status_code == 400
    assert sent(files={"file": ("a.txt", b"x")}, data={"source": "fr", "target": "de"}).status_code == 400, "there 500"
    good = sent(files={"file": ("a.txt", b"Hello")}, data=pair)
    assert (good.status_code, good.json().keys()) == (200, {"translatedFileUrl"})
    url = good.json()["translatedFileUrl"]
    assert url.startswith("http://parlance/download_file/")
    assert client.get(url.removeprefix("http://parlance")).text == "fr:Hello"
    assert client.get("/download_file/missing").status_code == 404, "there 500"
