"""Mistakes of people who start a server or make keys: each ends with status 2 and one sentence that says what is wrong
and what to do. Mistakes in training commands are in `tests/training/cli/test_mistakes_of_people.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.settings import PREFIX, Settings
from parlance.__main__ import main

START = "Parlance cannot start: "
MISTAKES = [
    ("serv", "error: serv is no command; did you mean parlance serve? parlance --help lists them."),
    ("start", "error: start is no command; did you mean parlance serve? parlance --help lists them."),
    ("serve --prot 80", f"{START}unrecognized arguments: --prot; did you mean --port? See parlance serve --help."),
    ("serve --port eighty", f'{START}--port is "eighty": it should be a valid integer.'),
    ("serve --port 99999", f'{START}--port is "99999": it should be less than or equal to 65535.'),
    ("serve --workers 4", f"{START}unrecognized arguments: --workers; did you mean --cpu-workers? See"),
    ("serve --keys-file none.jsonl --no-demo", f"{START}The keys file none.jsonl cannot be read (No such file"),
    ("serve --keys-file words.txt --no-demo", f"{START}Line 1 of the keys file words.txt is no JSON object."),
    ("serve --keys-file folder --no-demo", f"{START}The keys file folder cannot be read (Is a directory)."),
    ("serve --rate-limit often", f'{START}--rate-limit is "often": it takes a number from 1 per second, minute, hour'),
    (
        "serve --rate-limit 60",
        f'{START}--rate-limit is "60": it takes a number from 1 per second, minute, hour or day,',
    ),
    ("serve --quota 1M/month", f'{START}--quota is "1M/month": it takes a number from 1 per day or month, such as'),
    ("serve --devices gpu", f'{START}--devices is "gpu": it takes "auto" or a comma-separated list of "cpu" and'),
    ("serve --precision int4", f"{START}--precision is \"int4\": it should be 'auto', 'fp32', 'bf16', 'fp16' or"),
    ("serve --beam-size 0", f'{START}--beam-size is "0": it should be greater than or equal to 1.'),
    ("serve --checkpoints words.txt", f'{START}--checkpoints is "words.txt": it is a file; name a folder.'),
    ("serve --cors-origins http://localhost:3000/", f'{START}--cors-origins is "http://localhost:3000/": it takes "*"'),
    ("serve --public-url example.org", f'{START}--public-url is "example.org": it takes an address such as "https://'),
    ("serve --trusted-proxies proxy", f'{START}--trusted-proxies is "proxy": it takes addresses and networks such as'),
    (
        "serve --redis-url localhost:6379",
        f"{START}PARLANCE_REDIS_URL cannot be used: it takes an address such as redis",
    ),
    ("serve --log-level verbose", f"{START}--log-level is \"verbose\": it should be 'critical', 'error', 'warning',"),
    ("serve --max-body-bytes 2MB", f'{START}--max-body-bytes is "2MB": it should be a valid integer.'),
    (
        "serve --otlp-endpoint localhost:4318",
        f'{START}--otlp-endpoint is "localhost:4318": it takes an address such as',
    ),
    (
        "serve --slots-per-model 2",
        f"{START}PARLANCE_SLOTS_PER_MODEL is 2: one translation may need 9 slots (the larger",
    ),
    ("serve --request-timeout-s 10s", f'{START}--request-timeout-s is "10s": it should be a valid number.'),
    ("serve --host nowhere.invalid", f"{START}it cannot listen on nowhere.invalid, port 8000 ("),
    ("keys add", "error: the following arguments are required: name; parlance keys add --help explains it."),
    ("keys add anna", "error: There is no keys file: set PARLANCE_KEYS_FILE, or give --file."),
    ("keys add anna --file k --scope root", "error: argument --scope: invalid choice: 'root' (choose from"),
    ("keys add admin --file k", "error: A name has 1 to 64 printable characters, and is not anonymous or admin."),
    ("keys remove anna --file none", "error: The keys file none does not exist."),
    ("keys list --file folder", "error: The keys file folder cannot be read (Is a directory)."),
    ("keys lst --file none", "error: argument COMMAND: invalid choice: 'lst' (choose from"),
]


@pytest.mark.parametrize(("words", "sentence"), MISTAKES, ids=[words for words, _ in MISTAKES])
def test_mistake_ends_with_status_2_and_one_sentence(
    words: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "words.txt").write_text("not json\n")
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    for name in Settings.model_fields:
        monkeypatch.delenv(PREFIX + name.upper(), raising=False)
    try:
        status: object = main(words.split())
    except SystemExit as end:
        status = end.code
    error = capsys.readouterr().err
    assert status == 2
    assert error.startswith(sentence)
    assert error.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "words.txt"], "nothing was made"
