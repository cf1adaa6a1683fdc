"""The command `tieline keys`: creates, lists, revokes and rotates the keys in the database.

It uses the database directly, so it works whether or not the gateway is running. A change takes effect in a running
gateway within a second.
"""

import argparse
import asyncio
import datetime
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

import msgspec

from tieline.app.build.keys import client_keys
from tieline.app.build.storage import Storage
from tieline.app.config import Config, ConfigError, KeyRules
from tieline.app.database.engine import DatabaseFailed
from tieline.app.keys.description import describe, key_json, state_of
from tieline.app.keys.table import KeyTable, NewKey
from tieline.cli.trust import typed_yes
from tieline.model.errors import GatewayError

Say = Callable[[str], None]
T = TypeVar("T")

SHOWN_ONCE = "This key is shown only once. Keep it in a safe place, and send it as `Authorization: Bearer <key>`."
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 24 * 3600}


def run(options: argparse.Namespace, config: Config, env: Mapping[str, str], say: Say) -> int:
    """Run `tieline keys` and return its exit status. `say` prints a line."""
    actions = {"create": _create, "list": _list, "revoke": _revoke, "rotate": _rotate}
    return actions[options.action](options, config, env, say)


def _create(options: argparse.Namespace, config: Config, env: Mapping[str, str], say: Say) -> int:
    if not client_keys(config, env):
        raise ConfigError(
            f"named keys also need the gateway's own key, for the page and the inbox: set {config.server.key_env} "
            "(or `server.key_file`) to a long random string"
        )
    if options.name in config.keys:
        raise ConfigError(f"the configuration already has a key `{options.name}`")
    rules = _rules(options)
    new = _with_table(config, env, lambda table: table.create(options.name, rules))
    _say_new(new, options, say)
    return 0


def _list(options: argparse.Namespace, config: Config, env: Mapping[str, str], say: Say) -> int:
    records = _with_table(config, env, lambda table: table.all())
    if options.json:
        say(_json([key_json(record, time.time()) for record in records]))
        return 0
    if not records:
        say("No keys are stored. `tieline keys create NAME` creates one.")
        return 0
    rows = [("NAME", "STATE", "CREATED", "LAST USED", "RULES")]
    rows += [
        (one.name, state_of(one, time.time()), _day(one.created), _day(one.last_used), describe(one.rules))
        for one in records
    ]
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]) - 1)]
    for row in rows:
        say("  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip())
    return 0


def _revoke(options: argparse.Namespace, config: Config, env: Mapping[str, str], say: Say) -> int:
    if not options.yes:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise ConfigError("revoking a key cannot be undone: confirm it with --yes")
        if not typed_yes(f"Revoke the key {options.name}? Its clients stop working, and this cannot be undone. [y/N] "):
            say("The key was not revoked.")
            return 1
    record = _with_table(config, env, lambda table: table.revoke(options.name))
    say(_json(key_json(record, time.time())) if options.json else f"The key {record.name} is revoked.")
    return 0


def _rotate(options: argparse.Namespace, config: Config, env: Mapping[str, str], say: Say) -> int:
    grace = seconds(options.grace) if options.grace else 0.0
    new = _with_table(config, env, lambda table: table.rotate(options.name, grace))
    _say_new(new, options, say)
    return 0


def _say_new(new: NewKey, options: argparse.Namespace, say: Say) -> None:
    if options.json:
        say(_json({**key_json(new.record, time.time()), "key": new.value}))
        return
    say(f"{new.value}\n\n{SHOWN_ONCE}\n{new.record.name}: {describe(new.record.rules)}.")
    until = new.record.previous_until
    if until is not None:
        say(f"The old key stays valid until {_time(until)}.")


def _with_table(config: Config, env: Mapping[str, str], do: Callable[[KeyTable], Awaitable[T]]) -> T:
    """Open the database, and call `do` with the table of keys."""

    async def work() -> T:
        storage = Storage(config.store, env)
        if not storage.is_persistent:
            raise ConfigError("keys cannot be stored: neither HOME nor XDG_STATE_HOME is set")
        try:
            return await do(KeyTable(storage.database.now(), time.time))
        except DatabaseFailed as error:
            raise GatewayError("overloaded", f"the database cannot be used: {error}") from error
        finally:
            await storage.aclose()

    return asyncio.run(work())


def _rules(options: argparse.Namespace) -> KeyRules:
    fields = {
        "models": tuple(options.models),
        "tools": options.tools,
        "agents": options.agents,
        "page": not options.no_page,
        "admin": options.admin,
        "expires": _last_day(options.expires) if options.expires else None,
        **{
            name: getattr(options, name)
            for name in KeyRules.__struct_fields__
            if name.startswith(("requests_", "tokens_", "cost_"))
        },
    }
    try:
        return msgspec.convert({name: value for name, value in fields.items() if value is not None}, KeyRules)
    except msgspec.ValidationError as error:
        reason, _, place = str(error).partition(" - at `$.")
        raise ConfigError(f"--{place.rstrip('`').replace('_', '-')}: {reason[:1].lower()}{reason[1:]}") from error


def _last_day(text: str) -> str:
    """Return the last day on which a key is valid, from a date or a number of days such as `30d`."""
    number = text.removesuffix("d")
    if text.endswith("d") and number.isascii() and number.isdecimal() and len(number) < 6:
        today = datetime.datetime.now(datetime.UTC).date()
        return (today + datetime.timedelta(days=int(number))).isoformat()
    try:
        return datetime.date.fromisoformat(text).isoformat()
    except ValueError:
        raise ConfigError(
            f"--expires {text}: expected a date such as 2027-01-31, or a number of days such as 30d"
        ) from None


def seconds(text: str) -> float:
    """Return the number of seconds in a duration such as `90s`, `15m`, `24h` or `7d`."""
    number, unit = text[:-1], text[-1:]
    if unit not in UNITS or not (number.isascii() and number.isdecimal()) or len(number) > 6:
        raise ConfigError(f"--grace {text}: expected a duration such as 90s, 15m, 24h or 7d")
    return float(int(number) * UNITS[unit])


def _json(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def _day(at: float | None) -> str:
    return "-" if at is None else _time(at)[:10]


def _time(at: float) -> str:
    return datetime.datetime.fromtimestamp(at, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
