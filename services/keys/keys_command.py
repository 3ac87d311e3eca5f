"""The command `keys`: makes, lists and revokes API keys in a file that processes read."""

import argparse
import os
import re
import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pydantic import ValidationError

from services.keys.key import KEY_SCOPES, Key, new_key
from services.keys.key_file import NEW_KEY, KeyFileError, change_keys, read_keys

DEFAULT_FILE = "GATEWAY_KEYS_FILE"
_UNITS = {"h": "hours", "d": "days", "w": "weeks"}


def keys_command(arguments: Sequence[str]) -> None:
    """Runs the command. Exits with status 1 and one sentence if it cannot be done, 2 for wrong arguments."""
    options = _parser().parse_args(arguments)
    try:
        match options.action:
            case "new":
                _new(options)
            case "list":
                _list(options.file)
            case "revoke":
                _revoke(options.file, options.id)
    except KeyFileError as error:
        sys.exit(f"keys: {error}")
    except FileNotFoundError:
        sys.exit(f"keys: {options.file}: there is no such file; `{NEW_KEY} {shlex.quote(str(options.file))}` makes it.")
    except OSError as error:
        sys.exit(f"keys: {error.filename}: {error.strerror}.")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="keys", description=__doc__)
    actions = parser.add_subparsers(dest="action", required=True)
    default = os.environ.get(DEFAULT_FILE)
    new = actions.add_parser("new", help="make a key; it is printed once and not kept")
    listed = actions.add_parser("list", help="list all keys of the file")
    revoke = actions.add_parser("revoke", help="revoke a key; it takes effect within a second")
    for command in (new, listed, revoke):
        command.add_argument(
            "--file",
            type=Path,
            default=default,
            required=default is None,
            help=f"the key file (default: the value of {DEFAULT_FILE})",
        )
    new.add_argument("--name", required=True, help="name of the holder, shown by `list`")
    new.add_argument("--scope", action="append", choices=KEY_SCOPES, help="default: search; may be repeated")
    new.add_argument("--expires", type=_lasting, metavar="90d", help="lifetime in hours (h), days (d) or weeks (w)")
    new.add_argument(
        "--collection", action="append", metavar="shop-*", help="limit the key to these collections; may be repeated"
    )
    new.add_argument("--per-second", type=float, help="most requests per second; bursts may use one second's")
    new.add_argument("--at-once", type=int, help="most requests in flight")
    revoke.add_argument("id", help="the id of the key, as `list` shows it")
    return parser


def _lasting(text: str) -> timedelta:
    duration = re.fullmatch(r"([1-9]\d{0,4})([hdw])", text)
    if duration is None:
        raise argparse.ArgumentTypeError("a number and h, d or w, such as 90d")
    return timedelta(**{_UNITS[duration[2]]: int(duration[1])})


def _new(options: argparse.Namespace) -> None:
    scopes = tuple(dict.fromkeys(options.scope or ("search",)))
    collections = None if options.collection is None else tuple(options.collection)
    try:
        text, key = new_key(options.name, scopes, options.expires, collections, options.per_second, options.at_once)
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        sys.exit(f"keys: {first['loc'][0]}: {first['msg']}.")
    change_keys(options.file, lambda keys: (*keys, key))
    try:
        print(text, flush=True)
    except OSError:  # nobody has read it
        change_keys(options.file, lambda keys: tuple(other for other in keys if other.id != key.id))
        raise
    print(f"Key {key.id} is in {options.file}, by its hash alone: keep what is printed above.", file=sys.stderr)


def _list(file: Path) -> None:
    now = datetime.now(UTC)
    rows: list[tuple[str, ...]] = [
        ("id", "name", "scopes", "state", "created", "expires", "collections", "per s", "at once")
    ]
    rows += [_row(key, now) for key in read_keys(file)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _row(key: Key, now: datetime) -> tuple[str, ...]:
    return (
        key.id,
        key.name,
        ",".join(key.scopes),
        key.state(now),
        f"{key.created:%Y-%m-%d %H:%M}",
        "never" if key.expires is None else f"{key.expires:%Y-%m-%d %H:%M}",
        "all" if key.collections is None else ",".join(key.collections),
        "-" if key.per_second is None else f"{key.per_second:g}",
        "-" if key.at_once is None else str(key.at_once),
    )


def _revoke(file: Path, identity: str) -> None:
    def revoked(keys: tuple[Key, ...]) -> tuple[Key, ...]:
        if identity not in {key.id for key in keys}:
            raise KeyFileError(f"{file} has no key {identity}; `list` shows all.")
        now = datetime.now(UTC).replace(microsecond=0)
        return tuple(
            key.model_copy(update={"revoked": key.revoked or now}) if key.id == identity else key for key in keys
        )

    if not file.exists():
        raise FileNotFoundError(file)
    change_keys(file, revoked)
    print(f"Key {identity} is revoked; processes that read {file} refuse it within a second.")
