"""Generates ids of tool calls and legs."""

import itertools
import secrets
import string
from collections.abc import Callable

_ALPHABET = string.ascii_letters + string.digits
_CALL_LENGTH = 22


def new_call_id() -> str:
    """Return a random id for a tool call, short enough for every client."""
    return "call_" + "".join(secrets.choice(_ALPHABET) for _ in range(_CALL_LENGTH))


def leg_ids() -> Callable[[], str]:
    """Return a function that generates leg ids. A random prefix makes them unique across restarts."""
    prefix = secrets.token_hex(8)
    return map(f"tl-{prefix}{{:06x}}".format, itertools.count(1)).__next__
