"""The README's commands, run as they stand: `make serve` on an empty folder, every curl, every training command.

It installs nothing and trains a little, which takes minutes (make test-slow)."""

from __future__ import annotations

import gzip
import json
import math
import os
import random
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

import httpx
import pytest

from models import checkpoint as checkpoints
from models.model_names import shipped_names
from tests.app.api.test_event_stream import events
from tests.app.translation.kinds import KINDS, served_failures
from tests.readme import ROOT, Example, examples, json_values, same_shape
from tests.stand_in_hub import StandInHub, stand_in_hub
from tests.training.importers.marian import folders
from tests.tutorial import Tutorial, checkout
from training.data.corpus_loading import read_pairs, read_text

pytestmark = pytest.mark.slow
KEY = "a-long-secret-of-yours"  # as the README has it
DIRECTIONS = [("de", "en"), ("en", "es")]
IMPORT_S = 30  # of a download; commands on a busy machine take a second or two
READY_S = 300  # no measure of speed: only so that a hang ends


class Served(NamedTuple):
    base: str
    checkpoints: Path
    output: Path


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandInHub]:
    """The models that the documentation imports, with random weights. They come slowly: an import takes longer than the
    commands that watch it and cancel it."""
    with stand_in_hub() as hub:
        name = "Helsinki-NLP/opus-mt-de-en"
        repository = hub.add(name, folders.write(tmp_path_factory.mktemp("hub") / "opus-mt-de-en", pair=("de", "en")))
        size = sum(file.path.stat().st_size for file in repository.files.values() if file.lfs)
        hub.rate = size / IMPORT_S
        yield hub


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, hub: StandInHub) -> Iterator[Served]:
    """`make serve` with an empty folder for checkpoints, until it is ready."""
    folder = tmp_path_factory.mktemp("a new house")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = folder / "serve.log"
    with log.open("wb") as output:
        server = subprocess.Popen(
            ["make", "serve", f"PORT={port}", f"PYTHON={sys.executable}"],
            cwd=ROOT,
            # one process, as the README's answers have it: by default their number is that of the cores
            env={
                **os.environ,
                "PARLANCE_CHECKPOINTS": str(folder / "checkpoints"),
                "PARLANCE_DATA": str(folder / "data"),
                "PARLANCE_ADMIN_KEY": KEY,
                "PARLANCE_CPU_WORKERS": "1",
                "HF_ENDPOINT": hub.address,
                "HF_HOME": str(folder / "hub-cache"),
            },
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _wait(f"http://127.0.0.1:{port}", server, log)
        yield Served(f"http://127.0.0.1:{port}", folder / "checkpoints", log)
    finally:
        os.killpg(server.pid, signal.SIGINT)
        server.wait(60)


def _wait(base: str, server: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + READY_S
    while time.monotonic() < end:
        assert server.poll() is None, log.read_text()[-2000:]
        try:
            urllib.request.urlopen(f"{base}/health/ready", timeout=5).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise AssertionError(f"not ready: {log.read_text()[-2000:]}")


def ask(base: str, path: str, body: dict[str, Any]) -> Any:
    data = json.dumps(body).encode()
    request = urllib.request.Request(base + path, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def test_make_serve_prints_the_address(served: Served) -> None:
    printed = served.output.read_bytes().decode()  # with its line ends
    port = served.base.rsplit(":", 1)[1]
    assert f"  the page                   http://127.0.0.1:{port}\n" in printed
    assert f"  the API to try things in   http://127.0.0.1:{port}/docs" in printed
    assert "everyday comes with Parlance. It has read" in printed


def test_every_example_of_the_api_works(served: Served) -> None:
    with httpx.Client(base_url=served.base, timeout=60) as client:
        for path, methods in client.get("/openapi.json").json()["paths"].items():
            for method, operation in methods.items():
                body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
                if "{" in path or path == "/suggest":  # stored things are made in tests/browser; suggestions are off
                    continue
                for example in body.get("examples", {}).values():
                    answer = client.request(method, path, json=example["value"])
                    assert answer.status_code in (200, 201), (path, example["summary"], answer.text)


def test_sentences_of_the_readme_are_translated_as_shown(served: Served) -> None:
    for text, source, target, expected in [
        ("ich möchte ein bier", "de", "en", "i want a beer"),
        ("Ich möchte ein Bier", "de", "en", "I want a beer"),
        ("hello world", "en", "es", "hola mundo"),
    ]:
        assert ask(served.base, "/translate", {"q": text, "source": source, "target": target}) == {
            "translatedText": expected
        }


# Members that the demo models still damage, as measured on 29 November; the goal is none. Of "Danke: {name}!" the model
# drops the colon, of \\"Bier\\" the quotes, and two percentages have come side by side.
STILL_DAMAGED = {"marks_before_the_end": 30, "two_placeholders": 1, "escapes": 2}


@pytest.mark.parametrize("kind", KINDS)
def test_members_of_damaged_kinds_come_back_whole(served: Served, kind: str) -> None:
    damaged = served_failures(served.base, kind, DIRECTIONS)
    assert len(damaged) <= STILL_DAMAGED.get(kind, 0), "\n".join([str(len(damaged)), *damaged])


def test_the_first_sentence_of_a_newcomer(served: Served) -> None:
    text = "Guten Morgen, ich wohne in Berlin und arbeite als Lehrer."
    answer = ask(served.base, "/translate", {"q": text, "source": "de", "target": "en"})
    assert answer == {"translatedText": "Good morning, I live in Berlin and work as a teacher."}


def test_unknown_words_are_copied_and_marked(served: Served) -> None:
    text = "Ich wohne in Quoxdorf."
    answer = ask(served.base, "/translate", {"q": text, "source": "de", "target": "en"})
    assert answer["translatedText"] == "I live in Quoxdorf."
    (notice,) = answer["notices"]
    assert (notice["code"], text[notice["start"] : notice["end"]]) == ("unknown_words", "Quoxdorf")


@pytest.mark.parametrize(
    ("source", "target", "sentences"),
    [
        (
            "de",
            "en",
            [
                "Ich wohne in Quoxdorf und arbeite bei Zabriski.",
                "Guten Morgen, ich wohne in Berlin und arbeite als Lehrer.",
                "Wo ist der Bahnhof?",
                "Die Wolkenkratzer spiegeln sich im Fjordwasser.",
                "Ich möchte 3 Bier und 2 Kaffee.",
                "ES IST SEHR KALT HEUTE.",
            ],
        ),
        ("en", "es", ["I live in Quoxdorf and work at Zabriski.", "Where is the station?", "The skyscrapers dazzle."]),
    ],
    ids=["de-en", "en-es"],
)
def test_sentence_is_translated_alike_whatever_stands_before_it(
    served: Served, source: str, target: str, sentences: list[str]
) -> None:
    def translated(texts: list[str]) -> list[str]:
        answer = ask(served.base, "/translate", {"q": texts, "source": source, "target": target})
        return list(answer["translatedText"])

    alone = dict(zip(sentences, translated(sentences), strict=True))
    choice = random.Random(7)
    contexts = [choice.choices(sentences, k=choice.randint(2, 40)) for _ in range(40)]
    contexts += [[sentence] * repetitions for sentence in sentences for repetitions in range(1, 41)]
    for context in contexts:
        assert translated([" ".join(context)]) == [" ".join(alone[sentence] for sentence in context)]


def test_shipped_models_say_what_they_are(served: Served) -> None:
    models = {model["name"]: model["demo"] for model in json.load(urllib.request.urlopen(served.base + "/models"))}
    assert set(models) == set(shipped_names())
    assert models["everyday"]["way_out"] == "For real use: make serve MODEL=de-en"
    assert 40_000 < models["everyday"]["patterns"] <= len(read_pairs("everyday:de-en"))
    assert models["lyrics-zh"]["patterns"] == read_text("songs-zh").count("\n\n") + 1
    printed = served.output.read_text()
    for text in (models["everyday"]["summary"], "make serve MODEL=de-en"):
        assert text in printed


CURLS = [e for e in examples() if e.commands[0].startswith("curl -s ") and "/metrics" not in e.commands[0]]
STREAMS = [command for example in examples() for command in example.commands if command.startswith("curl -sN ")]


@pytest.mark.parametrize("example", CURLS, ids=lambda e: re.search(r"8000(\S+)", e.commands[0])[1])
def test_curl_example_answers_as_shown(served: Served, example: Example, tmp_path: Path) -> None:
    assert len(example.answers) == len(example.commands)
    (tmp_path / "brief.txt").write_text("ich möchte ein bier\n", encoding="utf-8")
    (tmp_path / "glossar.csv").write_text("\ufeffbier;ale\r\nwirt;host\r\n", encoding="utf-8")
    shown_id = stored_id = ""
    for command, shown in zip(example.commands, example.answers, strict=True):
        words = shlex.split(command.replace("http://127.0.0.1:8000", served.base).replace(shown_id, stored_id))
        result = subprocess.run([*words, "--max-time", "60"], capture_output=True, check=True, cwd=tmp_path)
        got = json.loads(result.stdout)
        assert same_shape(shown, got) == []
        if "glossary_id" in shown:  # the next command names it
            shown_id, stored_id = shown["glossary_id"], got["glossary_id"]
        if "/models/import" in command:
            states = [job["state"] for job in (shown if isinstance(shown, list) else [shown])]
            assert [job["state"] for job in (got if isinstance(got, list) else [got])] == states
        if "/translate" in command and "translatedText" in shown:
            assert got["translatedText"] == shown["translatedText"]


def test_documented_metrics_are_served(served: Served) -> None:
    test_sentences_of_the_readme_are_translated_as_shown(served)
    with urllib.request.urlopen(f"{served.base}/metrics", timeout=60) as answer:
        got = {line.rsplit(" ", 1)[0] for line in answer.read().decode().splitlines()}
    shown = (ROOT / "docs/serving.md").read_text(encoding="utf-8").split("```text\n# HELP parlance:")[1].split("```")[0]
    assert [line for line in shown.splitlines()[1:] if line.rsplit(" ", 1)[0] not in got] == []


@pytest.mark.parametrize("command", STREAMS, ids=lambda command: command.split()[2].rsplit("8000", 1)[1])
def test_streamed_example_joins_to_its_answer(served: Served, command: str) -> None:
    words = shlex.split(command.replace("http://127.0.0.1:8000", served.base))
    result = subprocess.run([*words, "--max-time", "60"], capture_output=True, check=True)
    *tokens, (last, done) = events(result.stdout.decode())
    assert last == "done"
    texts: dict[int, str] = {}
    for _, token in tokens:
        texts[token.get("index", 0)] = texts.get(token.get("index", 0), "") + token["text"]
    answers = [done.get("translatedText", done.get("text")), *(each["text"] for each in done.get("alternatives", []))]
    assert texts == dict(enumerate(answers))
    if "/translate" in command:
        lines = (ROOT / "docs/api.md").read_text(encoding="utf-8").splitlines()
        (shown,) = [json.loads(line[6:]) for line in lines if line.startswith('data: {"translatedText"')]
        assert done["translatedText"] == shown["translatedText"]
        assert [*done, *done["usage"]] == [*shown, *shown["usage"]]


def test_training_commands_of_the_readme_run(tmp_path: Path) -> None:
    """In a folder with the files that they name; a quarter of an hour is cut to six seconds, other runs to an epoch.
    The model of the Hub and the large multilingual one are left out."""
    pairs, spanish = (
        [*zip(*(side[:count] for side in (some.sources, some.targets)), strict=True)]
        for some, count in ((read_pairs("everyday:de-en"), 1000), (read_pairs("everyday:en-es"), 300))
    )
    for name, some in (
        ("pairs.tsv", pairs),
        ("test.tsv", pairs[:50]),
        ("valid.tsv", pairs[50:100]),
        ("railway.tsv", pairs[:200]),
        ("more.tsv", spanish),  # French, as far as these commands see
    ):
        (tmp_path / name).write_text("".join(f"{s}\t{t}\n" for s, t in some))
    segments = [{"de": de, "fr": es, "en": en, "es": es} for (de, _), (en, es) in zip(pairs, spanish, strict=False)]
    units = (
        "".join(f'<tuv xml:lang="{code}"><seg>{escape(text)}</seg></tuv>' for code, text in unit.items())
        for unit in segments
    )
    body = "".join(f"<tu>{unit}</tu>" for unit in units)
    (tmp_path / "memory.tmx").write_text(f'<tmx version="1.4"><header/><body>{body}</body></tmx>')
    for name in ("in.txt", "a.txt"):
        (tmp_path / name).write_text("".join(f"{s}\n" for s, _ in pairs[:20]))
    for name, side in (("b.txt.gz", 0), ("news.en.gz", 1)):
        with gzip.open(tmp_path / name, "wt", encoding="utf-8") as file:
            file.write("".join(f"{pair[side]}\n" for pair in pairs[:20]))
    songs = read_text("songs-zh")
    (tmp_path / "songs.txt").write_text(songs[:4000])
    (tmp_path / "more-songs.txt").write_text(songs[4000:4500])
    reverse = "translator --source en --target de --train pairs.tsv --columns 2,1 --max-epochs 1"
    commands = [f"parlance train {reverse} --out checkpoints/my-en-de"]
    commands += [c for e in examples() if e.commands[0].startswith("parlance ") for c in e.commands]
    # no hub, and no corpus of 370,000 pairs
    commands = [command for command in commands if "Helsinki-NLP" not in command and "--recipe everyday" not in command]
    for command in dict.fromkeys(commands):  # two of them stand on two pages
        shown = command.replace("--max-minutes 15", "--max-minutes 0.1")
        if re.search(r"train (translator|lyrics) ", shown) and "--max-" not in shown:
            shown += " --max-epochs 1"
        shown = re.sub("^parlance ", f"{shlex.quote(sys.executable)} -m parlance ", shown)
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        result = subprocess.run(
            shown, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600
        )
        assert result.returncode == 0, f"{shown}\n{result.stderr[-2000:]}"
        if "inspect-corpus" in command:
            assert result.stdout.startswith("pairs.tsv: 1,000 pairs read, ")
        elif "--text news.en.gz" in command:  # after one epoch a teacher ends few translations, and others are left out
            with gzip.open(tmp_path / "bt.jsonl.gz", "at", encoding="utf-8") as file:
                file.write("".join(f"{json.dumps({'de': s, 'en': t})}\n" for s, t in pairs[:20]))
        elif "evaluate" in command:
            last = json.loads(result.stdout.splitlines()[-1])
            expected = {"nats_per_character", "bits_per_character", "perplexity", "characters"}
            if "my-lyrics" not in command:
                expected = {"bleu", "chrf", "signature", "sentences", "seconds"}
            assert expected <= last.keys()
        elif "--out checkpoints/my-de-en" in command:
            for member in ("m1", "m2", "m3"):
                shutil.copytree(tmp_path / "checkpoints/my-de-en", tmp_path / member)
    assert len((tmp_path / "out.txt").read_text().splitlines()) == 20
    assert len((tmp_path / "both.txt").read_text().splitlines()) == 40
    numbers = [int(line.split(" ||| ")[0]) for line in (tmp_path / "lists.txt").read_text().splitlines()]
    assert sorted(set(numbers)) == list(range(20))
    made = {path.name for path in (tmp_path / "checkpoints").iterdir()}
    assert made >= {"my-de-en", "my-lyrics", "railway-de-en", "my-songs", "student", "with-bt", "many"}
    for name in made:
        expected_kind = "lyrics" if name in ("my-lyrics", "my-songs") else "translator"
        assert checkpoints.read(tmp_path / "checkpoints" / name).config.kind == expected_kind
    assert (tmp_path / "exported/my-de-en/model.safetensors").is_file()


def test_teach_attention(served: Served, tmp_path: Path) -> None:
    page = Tutorial("docs/tutorials/teach-attention.md", checkout(tmp_path / "checkout"))
    outputs = [step.output for step in page.run(served={"make serve": served.base})]
    pairs = outputs[0].split()
    assert {"0-0", "1-3", "3-2"} <= set(pairs), "the verb and the subject cross"
    row = json.loads(outputs[1])["qk"]
    allowed = [score for score, seen in zip(row["scores"], row["mask"], strict=True) if seen]
    exponentials = [math.exp(score) for score in allowed]
    expected = [value / sum(exponentials) for value in exponentials]
    assert row["softmax"][: len(allowed)] == pytest.approx(expected, abs=1e-3)
    assert set(row["softmax"][len(allowed) :]) == {0}
    one, all_heads = [answer["ablation"] for answer in json_values(outputs[3])]
    assert all_heads["logprob_sum_after"] < -10 < one["logprob_sum_after"], "one head is hardly missed"
    assert json.loads(outputs[4])["logprob"] < -10, "the German order is improbable"
