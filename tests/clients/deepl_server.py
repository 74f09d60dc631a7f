"""A server with all languages of DeepL's suites, its keys, and a stand-in for the network between it and a client."""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.serving import Server, serving
from tests.tiny import write_multilingual

KEY = "any"
LIMITS = {  # of each key: a test that uses a limit up has a key of its own
    KEY: {},
    "rate-1": {"rate_limit": "1/second"},
    "rate-2": {"rate_limit": "1/hour"},
    "quota-1": {"quota": "20/month"},
    "quota-2": {"quota": "20/month"},
    "quota-3": {"quota": "20/month"},
}
TEXTS = {
    "ar": "صباح الخير أيها العالم",
    "bg": "добро утро, свят",
    "cs": "dobré ráno, světe",
    "da": "godmorgen, verden",
    "de": "guten morgen, welt",
    "el": "καλημέρα, κόσμε",
    "en": "good morning, world",
    "es": "buenos días, mundo",
    "et": "tere hommikust, maailm",
    "fi": "hyvää huomenta, maailma",
    "fr": "bonjour à tout le monde",
    "hu": "jó reggelt, világ",
    "id": "selamat pagi, dunia",
    "it": "buongiorno, mondo",
    "ja": "おはよう、世界",
    "ko": "좋은 아침이에요, 세상",
    "lt": "labas rytas, pasauli",
    "lv": "labrīt, pasaule",
    "nb": "god morgen, verden",
    "nl": "goedemorgen, wereld",
    "pl": "dzień dobry, świecie",
    "pt": "bom dia, mundo",
    "ro": "bună dimineața, lume",
    "ru": "доброе утро, мир",
    "sk": "dobré ráno, svet",
    "sl": "dobro jutro, svet",
    "sv": "god morgon, världen",
    "tr": "günaydın, dünya",
    "uk": "доброго ранку, світе",
    "zh": "早上好，世界",
}


@contextlib.contextmanager
def deepl_serving(folder: Path) -> Iterator[Server]:
    """Every language to and from English, by one tiny model with random weights; keys are required."""
    others = [code for code in TEXTS if code != "en"]
    pairs = [pair for code in others for pair in (("en", code), (code, "en"))]
    write_multilingual(folder / "checkpoints" / "tiny-all", pairs, max_new_tokens=20)
    keys = [
        {"name": key, "sha256": hashlib.sha256(key.encode()).hexdigest(), "scopes": ["use"], **limits}
        for key, limits in LIMITS.items()
    ]
    (folder / "keys.jsonl").write_text("".join(json.dumps(key) + "\n" for key in keys))
    settings = {"KEYS_FILE": str(folder / "keys.jsonl"), "DATA": str(folder / "data")}
    with serving(folder / "checkpoints", folder, **settings) as server:
        yield server


class Between:
    """Passes requests on to the server, except for the next `dropped`, whose connections end without an answer, and
    the next `refused`, which get 429. headers: of the last request."""

    def __init__(self, server: Server) -> None:
        self.dropped = self.refused = 0
        self.headers: dict[str, str] = {}
        between = self

        class Handler(BaseHTTPRequestHandler):
            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                between.headers = {name.lower(): value for name, value in self.headers.items()}
                if between.dropped:
                    between.dropped -= 1
                    self.connection.close()
                elif between.refused:
                    between.refused -= 1
                    self.answer(429, b'{"message": "Too many requests"}')
                else:
                    self.pass_on(server.base + self.path, body)

            do_GET = do_POST = do_DELETE = handle_any

            def pass_on(self, address: str, body: bytes) -> None:
                headers = {name: value for name, value in self.headers.items() if name.lower() not in _OF_CONNECTION}
                request = urllib.request.Request(address, body or None, headers, method=self.command)
                try:
                    with urllib.request.urlopen(request, timeout=60) as answer:
                        self.answer(answer.status, answer.read())
                except urllib.error.HTTPError as error:
                    self.answer(error.code, error.read())

            def answer(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *words: object) -> None:
                pass

        self._httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.base = f"http://127.0.0.1:{self._httpd.server_port}"
        threading.Thread(target=self._httpd.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._httpd.shutdown()
        self._httpd.server_close()


_OF_CONNECTION = {"host", "connection", "content-length", "accept-encoding"}
