"""The file of keys."""

from __future__ import annotations

import hashlib
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from app.access import key_file
from app.access.key_file import Caller, KeyRing, KeysUnreadable, key_digest, new_key
from app.access.rate_limits import Rate

KEY = "plk_" + "a" * 43


def line(name: str = "shop", key: str = KEY, **fields: Any) -> dict[str, Any]:
    return {"name": name, "sha256": hashlib.sha256(key.encode()).hexdigest(), **fields}


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_key_is_looked_up_by_its_hash(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    key_file.write_key_lines(file, [line(), line("other", "b", scopes=["admin"], rate_limit="5/minute", quota="none")])
    ring = KeyRing(file)
    digest = hashlib.sha256(KEY.encode()).hexdigest()
    assert ring.find(KEY) == Caller("shop", bytes.fromhex(digest), frozenset({"use"}))
    other = ring.find("b")
    assert other is not None
    assert (other.scopes, other.rates, other.quotas) == (frozenset({"use", "admin"}), (Rate(5, "minute"),), ())
    assert [ring.find(each) for each in ("", KEY[:-1], KEY + "a", KEY.upper(), "\ud800", digest)] == [None] * 6


def test_keys_are_random_and_long() -> None:
    made = {new_key() for _ in range(100)}
    assert len(made) == 100
    assert {len(key) for key in made} == {47}


def test_unknown_key_takes_a_constant_time_comparison_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "keys"
    key_file.write_key_lines(file, [line()])
    ring, compared = KeyRing(file), list[bytes]()
    real = key_file.hmac.compare_digest
    monkeypatch.setattr(key_file.hmac, "compare_digest", lambda a, b: compared.append(a) or real(a, b))
    assert ring.find(KEY) is not None
    assert ring.find("wrong") is None
    assert [len(each) for each in compared] == [32, 32]


def test_changed_file_is_reloaded_and_broken_file_keeps_the_old_keys(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file, clock = tmp_path / "keys", Clock()
    key_file.write_key_lines(file, [line()])
    ring = KeyRing(file, clock=clock)
    key_file.write_key_lines(file, [line("new", "b")])
    assert ring.find("b") is None, "it looks once in a second"
    clock.now_s = 1.5
    assert ring.find("b") is not None
    assert ring.find(KEY) is None, "a key that was removed opens nothing"
    caplog.clear()
    file.write_text("broken")
    caplog.clear()
    clock.now_s = 3
    with caplog.at_level(logging.ERROR):
        assert ring.find("b") is not None
    assert caplog.messages == [f"Line 1 of the keys file {file} is no JSON object. The keys of before go on."]
    file.unlink()
    clock.now_s = 5
    assert ring.find("b") is not None
    assert "cannot be read (No such file or directory)" in caplog.messages[1]
    clock.now_s = 7
    assert ring.find("b") is not None
    assert len(caplog.messages) == 2, "it is told once"
    key_file.write_key_lines(file, [line()])
    clock.now_s = 9
    assert (ring.find("b"), ring.find(KEY) is not None) == (None, True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "Line 1 of the keys file"),
        ("[]", "is no JSON object"),
        (json.dumps(line(nam="x")), 'has a field "nam", which keys do not have'),
        (json.dumps({**line(), "name": ""}), 'needs a "name" of 1 to 64 printable characters'),
        (json.dumps({**line(), "name": "a\nb"}), 'needs a "name"'),
        (json.dumps({**line(), "name": "anonymous"}), "and not anonymous or admin"),
        (json.dumps(line(scopes=["root"])), 'needs "scopes" of use and admin'),
        (json.dumps(line(scopes=[])), 'needs "scopes"'),
        (json.dumps({**line(), "sha256": "ab"}), "64 hexadecimal digits"),
        (json.dumps({**line(), "sha256": 5}), "64 hexadecimal digits"),
        (json.dumps(line(rate_limit="often")), 'has a "rate_limit" or "quota" that cannot be used: it takes a number'),
        (json.dumps(line(quota=5)), 'has a "rate_limit" or "quota"'),
        (json.dumps(line()) + "\n" + json.dumps(line("b")), 'have the same "sha256"'),
        (json.dumps(line()) + "\n" + json.dumps(line(key="b")), 'have the same "name"'),
    ],
)
def test_invalid_line_raises_a_sentence_without_secrets(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "keys"
    file.write_text(text)
    with pytest.raises(KeysUnreadable) as excinfo:
        KeyRing(file)
    assert words in str(excinfo.value)
    assert hashlib.sha256(KEY.encode()).hexdigest() not in str(excinfo.value)


def test_binary_file_and_missing_file_are_unreadable(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    with pytest.raises(KeysUnreadable, match="cannot be read"):
        KeyRing(file)
    file.write_bytes(b"\xff")
    with pytest.raises(KeysUnreadable, match="is not UTF-8"):
        KeyRing(file)


def test_empty_lines_are_ignored(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"\n{json.dumps(line())}\n\n")
    assert KeyRing(file).find(KEY) is not None


def test_new_file_has_mode_600_and_existing_file_keeps_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    key_file.write_key_lines(file, [line()])
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o640)
    key_file.write_key_lines(file, [line()])
    assert file.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [file], "nothing is left beside it"


def test_key_outside_the_file_stays_valid(tmp_path: Path) -> None:
    ring = KeyRing(None, [Caller("admin", key_digest("an-operator's-key"), frozenset({"use", "admin"}))])
    result = ring.find("an-operator's-key")
    assert result is not None
    assert (result.name, len(result.key_id)) == ("admin", 16)
    assert result.key_id not in repr(result)
    assert ring.has_admin()
    assert not KeyRing(None).has_admin()
