"""Generators of ids."""

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
    """Return a generator of leg ids: a counter with a random prefix, so that ids stay unique across restarts."""
    prefix = secrets.token_hex(8)
    return map(f"tl-{prefix}{{:06x}}".format, itertools.count(1)).__next__
