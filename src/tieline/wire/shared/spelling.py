"""Names and ids in the spelling a protocol allows, and back.

Ids: the model keeps the upstream's own spelling. Where a protocol does not allow it, the id is escaped on the way out
and restored on the way in, without any memory: `functions.bash:0` is `tlx_functions-2ebash-3a0` to a client that takes
only letters, digits, `_` and `-`. An id that would get too long is hashed instead, call and result alike.

Names: a request's tools define a map from the client's spelling to the upstream's, and the reader of the answer uses
it backwards.
"""

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from hashlib import sha256

from msgspec import Struct

from tieline.model.events import Note

_PLAIN_ID = re.compile(r"[A-Za-z0-9_-]+\Z")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
_UNSAFE = re.compile(r"[^A-Za-z0-9_]")
_ESCAPED = re.compile(r"-([0-9a-f]{2})")
_MARK = "tlx_"

NAME_LIMIT = 64
ID_LIMIT = 64


@lru_cache(maxsize=4096)
def plain_id(call_id: str, limit: int = ID_LIMIT) -> str:
    """The id in letters, digits, `_` and `-`, at most `limit` of them; `restore_id` undoes it."""
    if _PLAIN_ID.match(call_id) and not call_id.startswith(_MARK):
        return short_id(call_id, limit)
    escaped = _MARK + _UNSAFE.sub(
        lambda match: "".join(f"-{byte:02x}" for byte in match[0].encode("utf-8", "surrogatepass")), call_id
    )
    return escaped if len(escaped) <= limit else short_id(call_id, 0)


def restore_id(call_id: str) -> str:
    """The id as it was before `plain_id`."""
    if not call_id.startswith(_MARK):
        return call_id
    raw = _ESCAPED.sub(lambda match: chr(int(match[1], 16)), call_id.removeprefix(_MARK))
    try:
        return raw.encode("latin-1").decode("utf-8", "surrogatepass")
    except UnicodeError:
        return call_id


def short_id(call_id: str, limit: int = ID_LIMIT) -> str:
    """The id if it is short enough, else a hash of it: cutting would make two ids one."""
    if len(call_id) <= limit:
        return call_id
    return "call_" + sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def is_plain_name(name: str) -> bool:
    """Return whether every upstream takes this as the name of a tool."""
    return _PLAIN_NAME.match(name) is not None


class Names:
    """The tool names of one request, in the client's spelling and in the upstream's."""

    def __init__(self, names: Iterable[str]) -> None:
        out = _Spellings()
        self._back: dict[str, str] = {}
        odd = []
        for name in names:
            if _PLAIN_NAME.match(name):
                out[name] = self._back[name] = name
            else:
                odd.append(name)
        for name in odd:
            if name not in out:
                out[name] = spelled = self._free(name)
                self._back[spelled] = name
        self.renamed = tuple([(name, out[name]) for name in odd])
        """The names that are spelled differently for the upstream."""
        self.spell: Callable[[str], str] = out.__getitem__
        """The name for the upstream; a name of the history that is no longer offered is spelled the same way."""

    def restore(self, name: str) -> str:
        """The client's name for what the upstream called.

        Upstreams also change the case or drop a prefix: a name that is close to exactly one of the offered names in
        that way is that name, any other stays as it came.
        """
        known = self._back.get(name)
        if known is not None:
            return known
        folded = _fold(name)
        close = [own for spelled, own in self._back.items() if _fold(spelled) == folded]
        return close[0] if folded and len(close) == 1 else name

    def _free(self, name: str) -> str:
        spelled = _plain(name)
        if spelled in self._back:
            spelled = _with_hash(spelled, name)
        return spelled


def _plain(name: str) -> str:
    spelled = _UNSAFE.sub("_", name.replace("-", "_")) or "tool"
    return spelled if len(spelled) <= NAME_LIMIT else _with_hash(spelled, name)


def _with_hash(spelled: str, name: str) -> str:
    digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{spelled[: NAME_LIMIT - 9]}_{digest}"


def _fold(name: str) -> str:
    """What is left of a name when case, separators and an MCP prefix do not count."""
    bare = re.sub(r"\Amcp__[^_]+(?:_[^_]+)*__", "", name)
    return re.sub(r"[^a-z0-9]", "", bare.casefold())


class _Spellings(dict[str, str]):
    """Names for the upstream by the client's; a name that was not offered is spelled and not kept."""

    def __missing__(self, name: str) -> str:
        return name if _PLAIN_NAME.match(name) else _plain(name)


class Spelled(Struct, frozen=True):
    """How a request was spelled for its upstream: what the reader of the answer has to know."""

    names: Names = Names(())
    freeform: frozenset[str] = frozenset()
    """Freeform tools, by the client's name, that went out as functions with one string field `input`."""


UNCHANGED = Spelled()
"""The spelling of a request without tools."""


@lru_cache(maxsize=64)
def spelled_as(names: tuple[str, ...], freeform: frozenset[str] = frozenset()) -> Spelled:
    """The spelling of the tools with these names; an agent offers the same ones in every request."""
    return Spelled(Names(names), freeform)


class Outgoing(Struct, frozen=True):
    """A request ready to be sent, and what was changed or left out on the way."""

    body: bytes
    spelled: Spelled
    notes: tuple[Note, ...] = ()
