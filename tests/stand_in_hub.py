"""A stand-in for the Hugging Face Hub on loopback, which speaks what huggingface_hub asks of the real one: model info
with blobs, search, resolve with redirects, ETags, ranges and LFS. Large files come from a second server, as from the
Hub's CDN, which refuses requests that carry the Hub's token.

    python -m tests.stand_in_hub FOLDER     serves FOLDER/OWNER/NAME/… as repositories; HF_ENDPOINT is its address"""

from __future__ import annotations

import hashlib
import json
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar, Literal
from urllib.parse import parse_qs, quote, unquote, urlsplit

LFS_SUFFIXES = (".bin", ".safetensors", ".h5", ".ot", ".model", ".msgpack")
SIGNATURE = "Signature=stand-in"


class _Server(ThreadingHTTPServer):
    """Says nothing of clients that go in the middle of an answer, on the standard error that tests read."""

    def handle_error(self, request: object, client_address: object) -> None:
        pass


@dataclass
class RepositoryFile:
    path: Path

    @property
    def lfs(self) -> bool:
        return self.path.suffix in LFS_SUFFIXES

    @cached_property
    def sha256(self) -> str:
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    @cached_property
    def pointer(self) -> bytes:
        """What git keeps of a file in LFS."""
        size = self.path.stat().st_size
        return f"version https://git-lfs.github.com/spec/v1\noid sha256:{self.sha256}\nsize {size}\n".encode()

    @cached_property
    def blob_id(self) -> str:
        content = self.pointer if self.lfs else self.path.read_bytes()
        return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()

    @property
    def etag(self) -> str:
        return self.sha256 if self.lfs else self.blob_id

    def sibling(self, name: str, blobs: bool) -> dict[str, Any]:
        described: dict[str, Any] = {"rfilename": name}
        if blobs:
            size = self.path.stat().st_size
            described |= {"blobId": self.blob_id, "size": size}
            if self.lfs:
                described["lfs"] = {"sha256": self.sha256, "size": size, "pointerSize": len(self.pointer)}
        return described


@dataclass
class Repository:
    """token: what a request needs for a private or gated repository."""

    name: str
    folder: Path
    access: Literal["open", "gated", "private"] = "open"
    token: str = "hf_good"

    @cached_property
    def files(self) -> dict[str, RepositoryFile]:
        paths = sorted(path for path in self.folder.rglob("*") if path.is_file())
        return {path.relative_to(self.folder).as_posix(): RepositoryFile(path) for path in paths}

    @cached_property
    def commit(self) -> str:
        listed = json.dumps({name: file.blob_id for name, file in self.files.items()})
        return hashlib.sha1(listed.encode()).hexdigest()

    def info(self, blobs: bool) -> dict[str, Any]:
        config = self.files.get("config.json")
        try:
            content = json.loads(config.path.read_text(encoding="utf-8")) if config else {}
        except (ValueError, RecursionError):
            content = {}
        return {
            "id": self.name,
            "modelId": self.name,
            "author": self.name.partition("/")[0],
            "sha": self.commit,
            "private": self.access == "private",
            "gated": "auto" if self.access == "gated" else False,
            "tags": [],
            "downloads": 0,
            "likes": 0,
            "config": {key: content[key] for key in ("model_type", "architectures") if key in content},
            "siblings": [file.sibling(name, blobs) for name, file in self.files.items()],
        }


@dataclass
class Faults:
    """What goes wrong, by the name of a file. breaks: for the next requests, after how many bytes, and how. wrong: how
    many of the next answers have a changed byte. busy: the status of every answer of the Hub, if not 0. info: changes
    what the Hub says of a model. answer: answers a request in another way, and says whether it has."""

    breaks: dict[str, list[tuple[int, Literal["end", "reset"]]]] = field(default_factory=dict)
    wrong: dict[str, int] = field(default_factory=dict)
    busy: int = 0
    info: Callable[[dict[str, Any]], object] | None = None
    answer: Callable[[_Handler, str], bool] | None = None


@dataclass
class StandInHub:
    """requests: (method, path, headers) of all requests to both servers. address: of the Hub. cdn: of large files.
    rate: bytes per second of a download; 0 does not limit it. ranges: whether a part of a file can be asked for. up: a
    path that a hostile answer may name."""

    repositories: dict[str, Repository] = field(default_factory=dict)
    requests: list[tuple[str, str, Mapping[str, str]]] = field(default_factory=list)
    faults: Faults = field(default_factory=Faults)
    address: str = ""
    cdn: str = ""
    rate: float = 0
    ranges: bool = True
    up: str = ""

    def add(self, name: str, folder: Path, access: Literal["open", "gated", "private"] = "open") -> Repository:
        repository = self.repositories[name] = Repository(name, folder, access)
        return repository

    def fetched(self) -> list[str]:
        """The names of the files whose content was asked for, in order."""
        content = ("/resolve-cache/", "/lfs/")
        paths = [path for method, path, _ in self.requests if method == "GET" and any(part in path for part in content)]
        return [unquote(urlsplit(path).path.rpartition("/")[2]) for path in paths]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: ClassVar[StandInHub]

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base class's name)
        pass

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        self.hub.requests.append((self.command, self.path, dict(self.headers.items())))
        try:
            if self.hub.faults.answer is None or not self.hub.faults.answer(self, unquote(urlsplit(self.path).path)):
                self.respond(urlsplit(self.path))
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def respond(self, address: Any) -> None:
        raise NotImplementedError("each kind of stand-in answers in its own way")

    def send(self, status: int, content: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", headers.get("Content_Length", str(len(content))))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def send_json(self, content: object, status: int = 200, **headers: str) -> None:
        self.send(status, json.dumps(content).encode(), Content_Type="application/json; charset=utf-8", **headers)

    def send_file(self, name: str, file: RepositoryFile, **headers: str) -> None:
        """The content, or the range of it that is asked for, with the faults of the file."""
        size = file.path.stat().st_size
        asked = self.headers.get("Range") if self.hub.ranges else None
        start = int(asked.removeprefix("bytes=").partition("-")[0]) if asked else 0
        self.send_response(206 if asked else 200)
        if asked:
            self.send_header("Content-Range", f"bytes {start}-{size - 1}/{size}")
        for key, value in {"Accept-Ranges": "bytes", "ETag": f'"{file.etag}"', **headers}.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(size - start))
        self.end_headers()
        if self.command != "GET":
            return
        faults = self.hub.faults
        wrong = faults.wrong.get(name, 0) > 0
        if wrong:
            faults.wrong[name] -= 1
        broken = faults.breaks[name].pop(0) if faults.breaks.get(name) else None
        left = broken[0] if broken else size
        with file.path.open("rb") as stream:
            stream.seek(start)
            while left and (block := stream.read(min(1 << 16, left))):
                left -= len(block)
                self.wfile.write(bytes([block[0] ^ 1]) + block[1:] if wrong else block)
                wrong = False
                if self.hub.rate:
                    time.sleep(len(block) / self.hub.rate)
        if broken:
            self.wfile.flush()
            self.close_connection = True
            if broken[1] == "reset":  # closing without lingering resets the connection
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.connection.close()


class _Cdn(_Handler):
    def respond(self, address: Any) -> None:
        parts = unquote(address.path).strip("/").split("/")  # lfs/OWNER/NAME/FILE
        if "Authorization" in self.headers or address.query != SIGNATURE:
            return self.send(400, b"Only one auth mechanism allowed")
        repository = self.hub.repositories["/".join(parts[1:3])]
        name = "/".join(parts[3:])
        return self.send_file(name, repository.files[name])


class _Hub(_Handler):
    def respond(self, address: Any) -> None:
        path = unquote(address.path)
        if self.hub.faults.busy:
            return self.send_json({"error": "busy"}, self.hub.faults.busy)
        if path == "/api/models":
            return self._search(parse_qs(address.query))
        if path.startswith("/api/models/"):
            name, _, revision = path.removeprefix("/api/models/").partition("/revision/")
            repository = self._repository(name)
            return repository and self._info(repository, revision, "blobs" in address.query)
        if path.startswith("/api/resolve-cache/models/"):
            owner, name, _commit, file = path.removeprefix("/api/resolve-cache/models/").split("/", 3)
            repository = self._repository(f"{owner}/{name}")
            return repository and self.send_file(file, repository.files[file], **{"X-Repo-Commit": repository.commit})
        owner, name, *rest = [*path.strip("/").split("/", 4), "", ""]
        repository = self._repository(f"{owner}/{name}")
        return repository and self._resolve(repository, rest[1], rest[2])

    def _repository(self, name: str) -> Any:
        """None after an answer that says why it cannot be had."""
        repository = self.hub.repositories.get(name)
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if token not in ("", "hf_good", "hf_other"):
            message = "Invalid credentials in Authorization header"
            self.send_json({"error": message}, 401, X_Error_Message=message)
            return None
        if repository is None or (repository.access == "private" and token != repository.token):
            if token:
                self.send_json({"error": "Repository not found"}, 404, X_Error_Code="RepoNotFound")
            else:  # the Hub does not tell strangers what exists
                message = "Invalid username or password."
                self.send_json({"error": message}, 401, X_Error_Message=message)
            return None
        return repository

    def _search(self, query: Mapping[str, list[str]]) -> None:
        author, search = query.get("author", [None])[0], query.get("search", [""])[0]
        names = [name for name in self.hub.repositories if author in (None, name.partition("/")[0]) and search in name]
        self.send_json([{"id": name, "modelId": name, "tags": []} for name in names])

    def _info(self, repository: Repository, revision: str, blobs: bool) -> None:
        if revision not in ("", "main", repository.commit):
            return self.send_json({"error": "Invalid rev id"}, 404, X_Error_Code="RevisionNotFound")
        info = repository.info(blobs)
        return self.send_json(info if self.hub.faults.info is None else self.hub.faults.info(info))

    def _resolve(self, repository: Repository, revision: str, name: str) -> None:
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if repository.access == "gated" and token != repository.token:
            message = f"Access to model {repository.name} is restricted."
            status = 403 if token else 401
            return self.send_json({"error": message}, status, X_Error_Code="GatedRepo", X_Error_Message=message)
        if revision not in ("main", repository.commit):
            return self.send_json({"error": "Invalid rev id"}, 404, X_Error_Code="RevisionNotFound")
        commit = {"X_Repo_Commit": repository.commit}
        if name not in repository.files:
            return self.send_json({"error": "Entry not found"}, 404, X_Error_Code="EntryNotFound", **commit)
        file = repository.files[name]
        linked = {"X_Linked_Size": str(file.path.stat().st_size), "X_Linked_ETag": f'"{file.etag}"'}
        if file.lfs:
            place = f"{self.hub.cdn}/lfs/{repository.name}/{quote(name)}?{SIGNATURE}"
            return self.send(302, Location=place, **linked, **commit)
        place = f"/api/resolve-cache/models/{repository.name}/{repository.commit}/{quote(name)}"
        return self.send(307, Location=place, **linked, **commit)


@contextmanager
def stand_in_hub(port: int = 0) -> Iterator[StandInHub]:
    hub = StandInHub()
    servers = []
    for kind, host in ((_Hub, "127.0.0.1"), (_Cdn, "localhost")):
        handler = type(kind.__name__, (kind,), {"hub": hub})
        server = _Server(("127.0.0.1", port if kind is _Hub else 0), handler)
        server.daemon_threads = True
        servers.append((server, f"http://{host}:{server.server_address[1]}"))
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    (_, hub.address), (_, hub.cdn) = servers
    try:
        yield hub
    finally:
        for server, _ in servers:
            server.shutdown()
            server.server_close()


def main(folder: Path, port: int = 0) -> None:
    with stand_in_hub(port) as hub:
        for path in sorted(folder.glob("*/*")):
            hub.add(f"{path.parent.name}/{path.name}", path)
        print(f"HF_ENDPOINT={hub.address}  ({len(hub.repositories)} models; stop with Ctrl-C)", flush=True)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            print()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:3]))
