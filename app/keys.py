"""parlance keys (or python -m app.keys): makes, lists and removes the API keys of PARLANCE_KEYS_FILE.

    parlance keys add "web shop" --rate-limit 60/minute --quota 500000/month
    parlance keys add deploy --scope admin
    parlance keys list
    parlance keys remove "web shop" --file keys.jsonl

A key is printed once, when it is made: the file has only its hash. A server that runs reads the file again within
seconds."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from difflib import get_close_matches
from itertools import takewhile
from pathlib import Path
from typing import Any, NoReturn

from app.access import key_file
from app.access.key_file import SCOPES
from app.access.rate_limits import parse_quotas, parse_rates

VARIABLE = "PARLANCE_KEYS_FILE"
Keys = list[dict[str, Any]]


def main(arguments: Sequence[str] | None = None, program: str = "python -m app.keys") -> int:
    """The exit status. program: how the user started it."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser, commands = _parsers(program)
    if problem := _unknown_option(given, parser, commands):
        print(f"error: {problem}", file=sys.stderr)
        return 2
    options = parser.parse_args(given)
    try:
        if options.file is None:
            raise ValueError(f"There is no keys file: set {VARIABLE}, or give --file.")
        if options.what != "add" and not options.file.exists():
            raise ValueError(f"The keys file {options.file} does not exist.")
        options.run(options, _read_keys(options.file))
    except (key_file.KeysUnreadable, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"error: The keys file {options.file} cannot be written ({error.strerror}).", file=sys.stderr)
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


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence, without the usage before it."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {message}; {self.prog} --help explains it.\n")


def _parsers(program: str) -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """The program's parser, and each command's by its name. Users may give --file before or after the command."""
    default = os.environ.get(VARIABLE)
    help_of_file = f"the keys file, instead of {VARIABLE}"
    parser = _Parser(prog=program, description="API keys of a server.")
    parser.add_argument("--file", type=Path, default=Path(default) if default else None, help=help_of_file)
    behind = _Parser(add_help=False)
    behind.add_argument("--file", type=Path, default=argparse.SUPPRESS, help=help_of_file)
    commands = parser.add_subparsers(dest="what", required=True, metavar="COMMAND")
    add = commands.add_parser("add", parents=[behind], help="make a key and print it, once")
    add.add_argument("name", help="whose it is; stands in the request log")
    add.add_argument("--scope", choices=SCOPES, default="use", help="admin may also load and unload models")
    add.add_argument("--rate-limit", help='its own, such as "60/minute;1000/hour"; "none": unlimited')
    add.add_argument("--quota", help='characters, such as "500000/month;50000/day"; "none": unlimited')
    add.set_defaults(run=_add)
    listing = commands.add_parser("list", parents=[behind], help="names, scopes and limits")
    listing.set_defaults(run=_list)
    remove = commands.add_parser("remove", parents=[behind], help="take a key away")
    remove.add_argument("name")
    remove.set_defaults(run=_remove)
    return parser, {"add": add, "list": listing, "remove": remove}


def _unknown_option(
    given: Sequence[str], parser: argparse.ArgumentParser, commands: dict[str, argparse.ArgumentParser]
) -> str | None:
    """A sentence about the first option that neither the program nor its command knows, with the nearest one that it
    knows. argparse would take the option's value for the command."""
    command = next((word for word in given if word in commands), None)
    parsers = [parser, *([commands[command]] if command else commands.values())]
    known = sorted({option for each in parsers for option in each._option_string_actions if option.startswith("--")})
    program = f"{parser.prog} {command}" if command else parser.prog
    for word in takewhile(lambda word: word != "--", given):
        option = word.partition("=")[0]
        if option.startswith("--") and not any(name.startswith(option) for name in known):  # argparse takes prefixes
            nearest = get_close_matches(option, known, 1, 0.6)
            suggestion = f"; did you mean {nearest[0]}?" if nearest else ";"
            return f"{option} is no option{suggestion} {program} --help lists them."
    return None


if __name__ == "__main__":
    sys.exit(main())
