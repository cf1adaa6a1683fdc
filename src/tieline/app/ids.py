"""Mints the ids of this process. An id that a client may send back contains the *tag* of the process that minted it.

A tag consists of four random characters that are chosen when the process starts. In a cluster, the tag in an id shows
which replica holds the run, the response or the inbox item. Without a cluster, ids have the same form.
"""

import itertools
import secrets
import string
from functools import partial

_ALPHABET = string.ascii_letters + string.digits
TAG_LENGTH = 4
_CALL_LENGTH = 22
"""The number of random characters of a call id after its tag: 131 bits, so that an id cannot be guessed."""


def new_tag() -> str:
    """Return a random tag."""
    return _random(TAG_LENGTH)


def tag_of(identity: str) -> str:
    """Return the tag in an id that `Ids` minted. For any other id, the result is meaningless.

    The ids of a response's items contain the id of the response, and therefore the same tag.
    """
    return (identity.partition("_")[2] or identity)[:TAG_LENGTH]


class Ids:
    """Mints the ids of one process."""

    def __init__(self, tag: str | None = None) -> None:
        self.tag = tag or new_tag()
        # A random prefix makes the ids of legs unique across restarts.
        self.leg = map(f"tl-{secrets.token_hex(8)}{{:06x}}".format, itertools.count(1)).__next__
        """Returns a new id for a leg. Clients do not send it back, so it has no tag."""
        self.inbox_item = map(self.tag.__add__, iter(partial(secrets.token_hex, 6), "")).__next__
        """Returns a new id for an inbox item."""

    def call(self) -> str:
        """Return a new id for a tool call: 31 characters, short enough for every client and upstream."""
        return f"call_{self.tag}{_random(_CALL_LENGTH)}"

    def document(self, prefix: str) -> str:
        """Return a new id for a stored object, with a prefix such as `resp`."""
        return f"{prefix}_{self.tag}{secrets.token_hex(18)}"


def _random(length: int) -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))
