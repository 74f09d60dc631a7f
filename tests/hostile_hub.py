"""What a hostile hub, or a hostile model on a good hub, may do to an import. Each fault is a row: what it spoils in the
folder of the model, in what the hub says of it, or in how the hub answers; and what the import says then.

`@OWN` in a text is the path of a person's own file, as an absolute path; `@UP` the same from the folder of the cache's
blobs."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from tests.stand_in_hub import StandInHub
from tests.training.importers.marian import folders

WEIGHTS, PICKLED = "model.safetensors", "pytorch_model.bin"
WINDOW_S = 0.5
UNUSABLE, CHECKSUM = "cannot be used: ", "does not match the checksum"
NO_MARIAN, MEMORY = "are not those of a Marian model", "takes more memory than a model of its size"
NO_NETWORK = "config.json describes no network that can be built"
TOO_SLOW, BROKEN_OFF, ADDRESS = "too slowly", "cannot be reached", "to an address that is not followed"
IMPORTED = "is ready."


@dataclass(frozen=True)
class Fault:
    """sentence: a part of the error; IMPORTED for a model that is imported in spite of it. window_s: within which a
    part of a file has to come, 20 seconds outside tests."""

    name: str
    sentence: str
    folder: Callable[[Path], object] | None = None
    info: Callable[[dict[str, Any]], object] | None = None
    answer: Callable[[Any, str], bool] | None = None
    window_s: float = 10.0
    hub: Callable[[StandInHub], object] | None = None


def info(name: str, change: Callable[[dict[str, Any]], object], sentence: str = UNUSABLE) -> Fault:
    return Fault(name, sentence, info=change)


def of(**changes: Any) -> Callable[[dict[str, Any]], object]:
    return lambda said: {**said, **changes}


def sibling(file: str, **changes: Any) -> Callable[[dict[str, Any]], object]:
    def change(said: dict[str, Any]) -> object:
        for each in said["siblings"]:
            if each["rfilename"] == file:
                each.update(changes)
        return said

    return change


def lfs(**changes: Any) -> Callable[[dict[str, Any]], object]:
    def change(said: dict[str, Any]) -> object:
        for each in said["siblings"]:
            if each["rfilename"] == WEIGHTS:
                each["lfs"].update(changes)
        return said

    return change


def text(file: str, content: str | bytes, sentence: str, name: str = "") -> Fault:
    data = content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
    return Fault(name or f"{file}: {data[:30]!r}", sentence, folder=lambda folder: (folder / file).write_bytes(data))


def entry(file: str, sentence: str, **changes: Any) -> Fault:
    name = f"{file}: {changes!r:.60}"
    return Fault(name, sentence, folder=lambda folder: folders.edit(folder / file, **changes))


def config(sentence: str, **changes: Any) -> Fault:
    return entry("config.json", sentence, **changes)


def spoilt(name: str, sentence: str, spoil: Callable[[Path], object]) -> Fault:
    return Fault(name, sentence, folder=spoil)


# How it answers


def says(content: bytes, where: str = "/api/models/", **headers: str) -> Callable[[Any, str], bool]:
    def answer(handler: Any, path: str) -> bool:
        if where not in path:
            return False
        handler.send(200, content, **headers)
        return True

    return answer


def status(number: int, where: str, **headers: str) -> Callable[[Any, str], bool]:
    def answer(handler: Any, path: str) -> bool:
        if where not in path:
            return False
        handler.send(number, b'{"error": ["no", {}]}', **headers)
        return True

    return answer


def sends(head: bytes, body: bytes, where: str, pause_s: float = 0.0) -> Callable[[Any, str], bool]:
    """Raw bytes: the head at once, and then the body, byte by byte with a pause, or without end where there is none."""

    def answer(handler: Any, path: str) -> bool:
        if where not in path or handler.command != "GET":
            return False
        handler.close_connection = True
        handler.wfile.write(head)
        for _ in range(400):
            handler.wfile.write(body)
            time.sleep(pause_s)
        return True

    return answer


def cut_after_a_byte(handler: Any, path: str) -> bool:
    if "/lfs/" not in path:
        return False
    handler.close_connection = True
    start = int((handler.headers.get("Range") or "bytes=0-")[6:-1])
    handler.wfile.write(b"HTTP/1.1 206 P\r\nContent-Length: 9999999\r\nContent-Range: bytes %d-/9\r\n\r\nx" % start)
    return True


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n"
SMALL = "/api/resolve-cache/"  # where the files come from that are not large
DRIP_S = 0.05


def etag_out_of_the_cache(handler: Any, path: str) -> bool:
    """huggingface_hub would name the file by this, and a wrong checksum would then remove it."""
    if "/resolve/" not in path or not path.endswith("/vocab.json"):
        return False
    commit = handler.hub.repositories["/".join(path.strip("/").split("/")[:2])].commit
    handler.send(200, b"{}", ETag=handler.hub.up, X_Linked_ETag=handler.hub.up, X_Repo_Commit=commit)
    return True


# Files


def weights(**changes: Any) -> Callable[[Path], object]:
    def spoil(folder: Path) -> None:
        save_file(load_file(folder / WEIGHTS) | changes, folder / WEIGHTS)

    return spoil


def pickled(content: Callable[[Path], bytes]) -> Callable[[Path], object]:
    def spoil(folder: Path) -> None:
        data = content(folder)
        (folder / WEIGHTS).unlink()
        (folder / PICKLED).write_bytes(data)

    return spoil


class Executed:
    def __reduce__(self) -> Any:
        return (Path.write_text, (Path("executed"), "executed"))


def saved(value: Any) -> bytes:
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


def expanded(folder: Path) -> bytes:
    """A tensor of a terabyte whose numbers are one."""
    tensors = load_file(folder / WEIGHTS)
    return saved(tensors | {"model.shared.weight": torch.zeros(1, dtype=torch.float16).expand(500_000_000, 1024)})


def packed_bomb(folder: Path) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("archive/data.pkl", bytes(900_000_000))
        archive.writestr("archive/version", "3")
    return file.getvalue()


def header(content: bytes, length: int | None = None, data: int = 8) -> bytes:
    return (len(content) if length is None else length).to_bytes(8, "little") + content + bytes(data)


def tensor(**changes: Any) -> bytes:
    return json.dumps({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} | changes}).encode()


def half_a_character(folder: Path) -> None:
    content = json.loads((folder / "config.json").read_text(encoding="utf-8")) | {"note": "\ud800"}
    (folder / "config.json").write_text(json.dumps(content), encoding="utf-8")


def card(name: str, content: str | bytes) -> Fault:
    return text("README.md", content, IMPORTED, f"card: {name}")


BILLION = "---\na0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 40)) + "---\n"
HEAD = "| testset | BLEU |\n|---|---|\n"
DEEP = "[" * 100_000
NAN = float("nan")

ANSWERS = (  # what the hub says of the model
    Fault("a page", UNUSABLE, answer=says(b"<html>")),
    Fault("nothing", UNUSABLE, answer=says(b"")),
    Fault("a list", UNUSABLE, answer=says(b"[]")),
    Fault("null", UNUSABLE, answer=says(b"null")),
    Fault("a deep answer", UNUSABLE, answer=says(DEEP.encode())),
    Fault("a large answer", "more than 8,000,000 bytes", answer=says(b" " * 8_000_001)),
    Fault(
        "a packed answer",
        UNUSABLE,
        answer=says(gzip.compress(bytes(20_000_000)), "/api/models/", Content_Encoding="gzip"),
    ),
    info("files a number", of(siblings=5)),
    info("files of texts", of(siblings=["config.json"])),
    info("no files", of(siblings=None)),
    info("a file without a name", sibling("config.json", rfilename=7), "has no config.json"),
    info("no commit", of(sha=None)),
    info("a path for a commit", of(sha="../../../own")),
    info("a long commit", of(sha="a" * 64)),
    info("a number for a commit", of(sha=10**39)),
    info("a list for a type", of(config={"model_type": ["marian"]}), "is a model of type ['marian']"),
    info("a screen for a type", of(config={"model_type": "t5\n\x1b[2J"}), "is a model of type 't5\\n"),
    info(
        "a text for a config and other weights",
        lambda said: of(config="x")(sibling(WEIGHTS, rfilename="x")(said)),
        "has neither",
    ),
    info("a text for a size", sibling("config.json", size="5")),
    info("a size below nothing", sibling("config.json", size=-1)),
    info("true for a size", sibling("config.json", size=True)),
    info("no size", sibling("config.json", size=None)),
    info("a fraction for a size", sibling("config.json", size=1e6)),
    info("a huge size", sibling("config.json", size=10**30), "the most that an import reads is 16,000,000"),
    info("huge weights", lfs(size=10**12), "the most that an import reads is 10,000,000,000"),
    info("a huge card", sibling("vocab.json", rfilename="README.md", size=3_000_000), "reads is 1,000,000"),
    info("a text for large files", sibling(WEIGHTS, lfs="large")),
    info("no checksum", sibling("config.json", blobId=None)),
    info("a number for a checksum", sibling("config.json", blobId=5)),
    info("no checksum of weights", lfs(sha256=None)),
    info("a path for a checksum", lfs(sha256="@UP")),
    info("an absolute path for a checksum", lfs(sha256="@OWN")),
    info("a path for a small file's checksum", sibling("config.json", blobId="@UP")),
    info("a checksum of letters", lfs(sha256="z" * 64)),
    info("a checksum in capitals", lfs(sha256="A" * 64)),
    info("a short checksum", lfs(sha256="a" * 63)),
    info("a checksum with a line", lfs(sha256="a" * 64 + "\n")),
    info("a checksum with NUL", lfs(sha256="a" * 63 + "\0")),
    info("a checksum with backslashes", lfs(sha256="..\\" * 21 + "x")),
    info("a config elsewhere", sibling("config.json", rfilename="../config.json"), "has no config.json"),
    info("an absolute config", sibling("config.json", rfilename="@OWN"), "has no config.json"),
    info("weights elsewhere", sibling(WEIGHTS, rfilename="x/../model.safetensors"), "has neither"),
    info("raw Marian", sibling("config.json", rfilename="model.npz"), "is in the form of Marian itself"),
)

WAYS = (  # how it answers
    Fault("redirect to a file", ADDRESS, answer=status(302, SMALL, Location="file:///etc/passwd")),
    Fault("redirect to another protocol", ADDRESS, answer=status(302, SMALL, Location="ftp://127.0.0.1/x")),
    Fault(
        "redirect in a circle", ADDRESS, answer=status(307, "/config.json", Location="/a/b/resolve/main/config.json")
    ),
    Fault("redirect to nowhere", BROKEN_OFF, answer=status(302, SMALL, Location="http://127.0.0.1:9/")),
    Fault("redirect to no address", BROKEN_OFF, answer=status(302, SMALL, Location="http://[")),
    Fault("redirect of the look-up to a file", ADDRESS, answer=status(302, "/api/models/", Location="file:///x")),
    Fault("404 for a file", "has changed on the hub", answer=status(404, SMALL, X_Error_Code="EntryNotFound")),
    Fault("404 without words", "status 404", answer=status(404, SMALL)),
    Fault("403", "(403)", answer=status(403, SMALL)),
    Fault("418", "status 418", answer=status(418, SMALL)),
    Fault("500 for ever", "(status 500)", answer=status(500, SMALL)),
    Fault("429 for ever", "(status 429)", answer=status(429, "/api/models/")),
    Fault("a path for an ETag", BROKEN_OFF, answer=etag_out_of_the_cache),
    Fault("other bytes of weights", CHECKSUM, hub=lambda hub: hub.faults.wrong.update({WEIGHTS: 9})),
    Fault("other bytes of a small file", CHECKSUM, hub=lambda hub: hub.faults.wrong.update({"config.json": 9})),
    Fault("more bytes than it said", "sends more than", answer=says(b"x" * 100_000, "/resolve-cache/")),
    Fault("bytes without end", "sends more than", answer=sends(b"HTTP/1.1 200 OK\r\n\r\n", bytes(65536), "/lfs/")),
    Fault("fewer bytes than it said", BROKEN_OFF, answer=says(b"{}", "/resolve-cache/")),
    Fault("cut in the middle", BROKEN_OFF, hub=lambda hub: hub.faults.breaks.update({WEIGHTS: [(0, "end")] * 99})),
    Fault("reset", BROKEN_OFF, hub=lambda hub: hub.faults.breaks.update({WEIGHTS: [(0, "reset")] * 99})),
    Fault("packed files", "sends more than", answer=says(gzip.compress(bytes(10**8)), SMALL, Content_Encoding="gzip")),
    Fault("no HTTP", BROKEN_OFF, answer=sends(b"\0\1\2 nothing\r\n\r\n", b"", "/api/models/")),
    Fault(
        "headers without end", BROKEN_OFF, answer=sends(b"HTTP/1.1 200 OK\r\n", b"X: " + b"y" * 9000 + b"\r\n", SMALL)
    ),
    Fault(
        "a length that is none", BROKEN_OFF, answer=sends(b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", b"", SMALL)
    ),
    *(
        Fault(name, TOO_SLOW, answer=sends(head, body, where, DRIP_S), window_s=WINDOW_S)
        for name, head, body, where in (
            ("a look-up that drips", OK + b"\r\n", b" ", "/api/models/"),
            ("headers of a look-up that drip", b"HTTP/1.1 200 OK\r\nX: ", b"x", "/api/models/"),
            ("a status that drips", b"HT", b"T", "/api/models/"),
            ("a small file that drips", OK + b"\r\n", b"x", SMALL),
            ("weights that drip", OK + b"\r\n", b"x", "/lfs/"),
            ("headers of weights that drip", OK, b"x", "/lfs/"),
            ("a length of chunks that drips", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"0", SMALL),
            ("interim answers that drip", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n", "/lfs/"),
            ("silence", b"", b"", "/lfs/"),
        )
    ),
    Fault("a byte for each connection", TOO_SLOW, answer=cut_after_a_byte, window_s=WINDOW_S),
)

CARDS = (
    card("aliases of aliases", BILLION + "# A model\n"),
    card("spaces without end", "---" + " \n" * 400_000),
    card("900 KB of keys", "---\n" + "".join(f"key{i}: x\n" for i in range(60_000)) + "---\n"),
    card("lists in lists", f"---\na: {DEEP}\n---\n"),
    card("a front matter without end", "---\n" + "a: b\n" * 150_000),
    card("no UTF-8", b"---\nlicense: \xff\xfe\n---\n\xff"),
    card("a score without end", f"{HEAD}| {'t' * 100_000} | {'9' * 400_000} |\n"),
    card("scores without end", HEAD + "".join(f"| t{i} | 1.5 |\n" for i in range(40_000))),
    card("a licence without end", f"---\nlicense: {'x' * 60_000}\n---\n"),
    card("languages without end", "* source languages: " + "de," * 300_000),
    card("colons without end", "* source languages" + ":" * 900_000),
)

CONFIGS = (
    text(
        "config.json", b'{"model_type": "marian", "x": "' + b"x" * 16_000_000 + b'"}', "the most that an import reads"
    ),
    text("config.json", DEEP, "cannot be read as JSON", "config.json: deep"),
    text("config.json", b"\xff\xfe{}", "cannot be read as JSON"),
    text(
        "config.json",
        '{"model_type": "marian", "d_model": ' + "9" * 5000 + "}",
        "cannot be read as JSON",
        "an integer of 5,000 digits",
    ),
    text("config.json", "{}", "names no model_type"),
    text("config.json", '{"format_version": 1}', "is of a checkpoint of Parlance, which needs no import"),
    text("vocab.json", "[]", "holds no JSON object"),
    text("vocab.json", '{"a": 1e999}', "which is none", "vocab.json: infinity"),
    text("tokenizer_config.json", "7", "holds no JSON object"),
    config("names no model_type", model_type=None),
    config("is a model of type ['marian']", model_type=["marian"]),
    config("d_model must be a whole number", d_model=True),
    config("d_model must be a whole number", d_model=1e30),
    config(NO_NETWORK, d_model=10**30, encoder_attention_heads=1, decoder_attention_heads=1),
    config(NO_NETWORK, encoder_layers=10**9),
    config(NO_NETWORK, vocab_size=10**15, pad_token_id=10**14),
    config("the activation ['relu'] is none of", activation_function=["relu"]),
    config("dropout must be a number", dropout="much"),
    config("dropout must be a number", dropout=NAN),
    config(IMPORTED, max_position_embeddings=10**40),
    config(NO_MARIAN, parlance=5),
    spoilt("config.json: half a character", NO_MARIAN, half_a_character),
    config(IMPORTED, _name_or_path={"a": [NAN] * 9}),
    entry("generation_config.json", "gives eos_token_id as", eos_token_id={"a": 1}),
    entry("generation_config.json", "bad_words_ids holds 5", bad_words_ids=[5]),
    entry("generation_config.json", NO_MARIAN, bad_words_ids=7),
    entry("generation_config.json", NO_MARIAN, suppress_tokens=7),
    entry("generation_config.json", IMPORTED, max_length=-5),
    entry("generation_config.json", IMPORTED, max_length="long"),
    entry("generation_config.json", "gives decoder_start_token_id as 'x'", decoder_start_token_id="x"),
    entry("tokenizer_config.json", NO_MARIAN, added_tokens_decoder=["</s>"]),
    entry("tokenizer_config.json", NO_MARIAN, extra_special_tokens=5),
    entry("tokenizer_config.json", IMPORTED, model_max_length="long"),
    entry("tokenizer_config.json", IMPORTED, model_max_length=1e300),
    entry("tokenizer_config.json", "does not say which its source language is", source_lang=["de"]),
    entry("tokenizer_config.json", "does not say which its source language is", source_lang="\x1b[2J\n"),
    entry("vocab.json", "tokens, and the embedding has", **{"x" * 9: 10**30}),
)

FILES = (
    *(
        text(WEIGHTS, content, "model.safetensors cannot be read", f"weights: {name}")
        for name, content in {
            "nothing": b"",
            "a header longer than the file": header(b"{}", 1 << 62),
            "no header": header(b"\xff" * 10),
            "a deep header": header(DEEP.encode()),
            "a tensor outside": header(tensor(data_offsets=[0, 1 << 40])),
            "a shape that overflows": header(tensor(shape=[1 << 40, 1 << 40])),
            "a shape of texts": header(tensor(shape=["2"])),
            "an unknown dtype": header(tensor(dtype="F1")),
            "tensors that overlap": header(b'{"a": %s, "b": %s}' % ((tensor()[6:-1],) * 2)),
        }.items()
    ),
    text(WEIGHTS, b"version https://git-lfs.github.com/spec/v1\n", "is a pointer of Git LFS"),
    text(WEIGHTS, header(tensor()), "The weights hold no tensor", "weights: another network"),
    spoilt("weights: a name of a screen", "The weights hold a tensor ?[2J", weights(**{"\x1b[2J\n": torch.zeros(1)})),
    spoilt(
        "weights: a wide table",
        "of the shape (516, 32), and the weights have (1, 1)",
        weights(**{"model.shared.weight": torch.zeros(1, 1)}),
    ),
    spoilt(
        "weights: whole numbers",
        "config.json asks for output_bias",
        weights(final_logits_bias=torch.zeros(3, dtype=torch.int64)),
    ),
    spoilt("pickle: a program", "nothing of it was run", pickled(lambda _: pickle.dumps(Executed()))),
    spoilt("pickle: a list", "something other than named tensors", pickled(lambda _: saved([1, 2]))),
    spoilt("pickle: numbers for names", "The weights hold no tensor", pickled(lambda f: saved({5: torch.zeros(1)}))),
    spoilt("pickle: a tensor of a terabyte", "the weights have (500000000, 1024)", pickled(expanded)),
    spoilt("pickle: 900 MB of nothing, packed", MEMORY, pickled(packed_bomb)),
    spoilt(
        "pickle: bytes without end",
        MEMORY,
        pickled(lambda _: b"\x80\x02c__builtin__\nbytearray\nJ\xff\xff\xff\x7f\x85R."),
    ),
    spoilt("pickle: cut", "pytorch_model.bin", pickled(lambda f: saved(load_file(f / WEIGHTS))[:-5000])),
    text("source.spm", b"", "source.spm", "tokenizer: nothing"),
    text("source.spm", bytes(100_000), "source.spm", "tokenizer: zeros"),
    text(
        "source.spm", b"\x0a\xff\xff\xff\xff\x07" + b"x" * 1000, "source.spm", "tokenizer: a piece longer than the file"
    ),
    text(
        "target.spm", b"version https://git-lfs.github.com/spec/v1\n", "target.spm", "tokenizer: a pointer of Git LFS"
    ),
)
FAULTS = (*ANSWERS, *WAYS, *CARDS, *CONFIGS, *FILES)


def way(fault: Fault) -> tuple[str, bool, bool, bool, bool]:
    """The sentence of a fault, and what of the hub is at fault."""
    folder, info, answer, hub = (part is not None for part in (fault.folder, fault.info, fault.answer, fault.hub))
    return fault.sentence, folder, info, answer, hub


QUICK = {way(fault): fault.name for fault in (*ANSWERS, *WAYS) if fault.window_s != WINDOW_S}
SLOW = frozenset(fault.name for fault in FAULTS) - {*QUICK.values()}
