"""parlance keys (or python -m app.keys): makes, lists and removes the API keys of PARLANCE_KEYS_FILE.

    parlance keys add "web shop" --rate-limit 60/minute --quota 500000/month
    parlance keys add deploy --scope admin
    parlance keys list
    parlance keys remove "web shop"

A key is printed once, when it is made: the file has only its hash. A server that runs reads the file again within
seconds."""

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
Keys = list[dict[str, Any]]


def main(arguments: Sequence[str] | None = None, program: str = "python -m app.keys") -> int:
    """The exit status. program: how the user started it."""
    options = _parser(program).parse_args(arguments)
    try:
        if options.file is None:
            raise ValueError(f"There is no keys file: set {VARIABLE}, or give --file.")
        options.run(options, _read_keys(options.file))
    except (key_file.KeysUnreadable, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        print(f"The keys file {options.file} cannot be written ({error.strerror}).", file=sys.stderr)
        return 1
    return 0


def _add(options: argparse.Namespace, keys: Keys) -> None:
    if not key_file.is_usable_name(options.name):
        raise ValueError(f"A name has 1 to 64 printable characters, and is not {' or '.join(key_file.RESERVED_NAMES)}.")
    if any(key["name"] == options.name for key in keys):
        raise ValueError(f'There is a key "{options.name}" already: remove it first, or take another name.')
    secret = key_file.new_key()
    key: dict[str, Any] = {"name": options.name, "sha256": key_file.key_digest(secret).hex(), "scopes": [options.scope]}
    for field, parse in (("rate_limit", parse_rates), ("quota", parse_quotas)):
        text = getattr(options, field)
        if text is not None:
            try:
                parse(text)
            except ValueError as error:
                raise ValueError(f"--{field.replace('_', '-')} {text} cannot be used: {error}.") from None
            key[field] = text
    key["created"] = datetime.now(UTC).isoformat(timespec="seconds")
    key_file.write_key_lines(options.file, [*keys, key])
    print(secret)
    print("This is the only time that it is shown; the file has its hash.", file=sys.stderr)


def _list(options: argparse.Namespace, keys: Keys) -> None:
    for key in keys:
        limits = [key[field] for field in ("rate_limit", "quota") if field in key]
        print("\t".join([key["name"], ",".join(key.get("scopes", ["use"])), key.get("created", ""), *limits]))


def _remove(options: argparse.Namespace, keys: Keys) -> None:
    left = [key for key in keys if key["name"] != options.name]
    if len(left) == len(keys):
        raise ValueError(f'There is no key "{options.name}" in {options.file}.')
    key_file.write_key_lines(options.file, left)


def _read_keys(path: Path) -> Keys:
    """Of a file that a server would take; [] where there is none yet."""
    if not path.exists():
        return []
    key_file.read_keys(path)
    return [fields for _, fields in key_file.read_key_lines(path)]


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=program, description="API keys of a server.")
    default = os.environ.get(VARIABLE)
    parser.add_argument("--file", type=Path, default=Path(default) if default else None, help=f"instead of {VARIABLE}")
    commands = parser.add_subparsers(dest="what", required=True, metavar="COMMAND")
    add = commands.add_parser("add", help="make a key and print it, once")
    add.add_argument("name", help="whose it is; stands in the request log")
    add.add_argument("--scope", choices=SCOPES, default="use", help="admin may also load and unload models")
    add.add_argument("--rate-limit", help='its own, such as "60/minute;1000/hour"; "none": unlimited')
    add.add_argument("--quota", help='characters, such as "500000/month;50000/day"; "none": unlimited')
    add.set_defaults(run=_add)
    commands.add_parser("list", help="names, scopes and limits").set_defaults(run=_list)
    remove = commands.add_parser("remove", help="take a key away")
    remove.add_argument("name")
    remove.set_defaults(run=_remove)
    return parser


if __name__ == "__main__":
    sys.exit(main())
