"""python -m app.keys: makes, lists and removes the API keys of PARLANCE_KEYS_FILE.

    python -m app.keys add "web shop" --rate-limit 60/minute --quota 500000/month
    python -m app.keys add deploy --scope admin
    python -m app.keys list
    python -m app.keys remove "web shop"

A key is printed once, when it is made: the file has only its hash. A server that runs reads the file again within
seconds.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from app.access import key_file
from app.access.key_file import SCOPES
from app.access.rate_limits import parse_quotas, parse_rates

VARIABLE = "PARLANCE_KEYS_FILE"


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    if given.file is None:
        return _refused(f"There is no keys file: set {VARIABLE}, or give --file.")
    try:
        return {"add": _add, "list": _list, "remove": _remove}[given.what](given)
    except key_file.KeysUnreadable as error:
        return _refused(str(error))
    except OSError as error:
        return _refused(f"The keys file {given.file} cannot be written ({error.strerror}).")


def _add(given: argparse.Namespace) -> int:
    found = _objects(given.file)
    if not key_file.is_usable_name(given.name):
        return _refused(f"A name has 1 to 64 printable characters, and is not {' or '.join(key_file.RESERVED_NAMES)}.")
    if any(each["name"] == given.name for each in found):
        return _refused(f'There is a key "{given.name}" already: remove it first, or take another name.')
    key = key_file.new_key()
    added: dict[str, Any] = {"name": given.name, "sha256": key_file.key_digest(key).hex(), "scopes": [given.scope]}
    for field, parse in (("rate_limit", parse_rates), ("quota", parse_quotas)):
        text = getattr(given, field)
        if text is not None:
            try:
                parse(text)
            except ValueError as error:
                return _refused(f"--{field.replace('_', '-')} {text} cannot be used: {error}.")
            added[field] = text
    added["created"] = datetime.now(UTC).isoformat(timespec="seconds")
    key_file.write_key_lines(given.file, [*found, added])
    print(key)
    print("This is the only time that it is shown; the file has its hash.", file=sys.stderr)
    return 0


def _list(given: argparse.Namespace) -> int:
    for each in _objects(given.file):
        limits = [each[field] for field in ("rate_limit", "quota") if field in each]
        print("\t".join([each["name"], ",".join(each.get("scopes", ["use"])), each.get("created", ""), *limits]))
    return 0


def _remove(given: argparse.Namespace) -> int:
    found = _objects(given.file)
    left = [each for each in found if each["name"] != given.name]
    if len(left) == len(found):
        return _refused(f'There is no key "{given.name}" in {given.file}.')
    key_file.write_key_lines(given.file, left)
    return 0


def _objects(path: Path) -> list[dict[str, Any]]:
    """Of a file that a server would take; [] where there is none yet."""
    if not path.exists():
        return []
    key_file.read_keys(path)
    return [fields for _, fields in key_file.read_key_lines(path)]


def _refused(sentence: str) -> int:
    print(sentence, file=sys.stderr)
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m app.keys", description="API keys of a server.")
    default = os.environ.get(VARIABLE)
    parser.add_argument("--file", type=Path, default=Path(default) if default else None, help=f"instead of {VARIABLE}")
    what = parser.add_subparsers(dest="what", required=True)
    add = what.add_parser("add", help="make a key and print it, once")
    add.add_argument("name", help="whose it is; stands in the request log")
    add.add_argument("--scope", choices=SCOPES, default="use", help="admin may also load and unload models")
    add.add_argument("--rate-limit", help='its own, such as "60/minute;1000/hour"; "none": unlimited')
    add.add_argument("--quota", help='characters, such as "500000/month;50000/day"; "none": unlimited')
    what.add_parser("list", help="names, scopes and limits")
    what.add_parser("remove", help="take a key away").add_argument("name")
    return parser


if __name__ == "__main__":
    sys.exit(main())
