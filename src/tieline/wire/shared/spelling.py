"""Spell call ids and tool names as a protocol allows, and restore the originals.

Ids: `tieline.model` keeps the upstream's spelling. If the client's protocol does not allow it, the id is escaped when
it is sent to the client and unescaped when it comes back, without any state. For example, `functions.bash:0` becomes
`tlx_functions-2ebash-3a0` for a client that accepts only letters, digits, `_` and `-`. An id that would become too long
is replaced by its hash, both in the call and in its result.

Names: the tools of a request define a map from the client's spelling to the upstream's. The reader of the response
applies it in the opposite direction.
"""

import re
from collections.abc import Callable, Iterable
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


def plain_id(call_id: str, limit: int = ID_LIMIT) -> str:
    """Return the id in a form with at most `limit` characters, all of them letters, digits, `_` or `-`.

    `restore_id` is the inverse, unless the id was too long and was replaced by a hash.
    """
    if _PLAIN_ID.match(call_id) and not call_id.startswith(_MARK):
        return short_id(call_id, limit)
    escaped = _MARK + _UNSAFE.sub(
        lambda match: "".join(f"-{byte:02x}" for byte in match[0].encode("utf-8", "surrogatepass")), call_id
    )
    return escaped if len(escaped) <= limit else short_id(call_id, 0)


def restore_id(call_id: str) -> str:
    """Return the original of an id that `plain_id` escaped; return any other id unchanged."""
    if not call_id.startswith(_MARK):
        return call_id
    raw = _ESCAPED.sub(lambda match: chr(int(match[1], 16)), call_id.removeprefix(_MARK))
    try:
        return raw.encode("latin-1").decode("utf-8", "surrogatepass")
    except UnicodeError:
        return call_id


def short_id(call_id: str, limit: int = ID_LIMIT) -> str:
    """Return the id if it is short enough, otherwise its hash. (Truncation could make two ids equal.)"""
    if len(call_id) <= limit:
        return call_id
    return "call_" + sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def is_plain_name(name: str) -> bool:
    """Return whether every upstream accepts this name for a tool."""
    return _PLAIN_NAME.match(name) is not None


class ToolNames:
    """The tool names of one request: the client's names, and the corresponding names that are sent to the upstream."""

    def __init__(self, names: Iterable[str] = (), freeform: frozenset[str] = frozenset()) -> None:
        upstream_names = _UpstreamNames()
        self._client_names: dict[str, str] = {}
        changed = []
        for name in names:
            if _PLAIN_NAME.match(name):
                upstream_names[name] = self._client_names[name] = name
            else:
                changed.append(name)
        for name in changed:
            if name not in upstream_names:
                upstream_names[name] = plain = self._free(name)
                self._client_names[plain] = name
        self.freeform = freeform
        """The client's names of the freeform tools that are sent as functions with one string property, `input`."""
        self.renamed = tuple([(name, upstream_names[name]) for name in changed])
        """The names that had to be changed, as pairs of the client's name and the upstream's name."""
        self.to_upstream: Callable[[str], str] = upstream_names.__getitem__
        """A function that converts a client's name to the upstream's, even if the tool is no longer offered."""

    def to_client(self, name: str) -> str:
        """Return the client's name for the name in an upstream's tool call.

        Upstreams sometimes change the case of a name or drop its prefix. Such a name is corrected if it matches exactly
        one offered name; any other unknown name is returned unchanged.
        """
        known = self._client_names.get(name)
        if known is not None:
            return known
        folded = _fold(name)
        offered = self._client_names.items()
        close = [own for plain, own in offered if _fold(plain) == folded]
        if not close:  # the prefix may be a different one, such as a tool's namespace
            close = [own for plain, own in offered if "__" in plain and _fold(plain.rpartition("__")[2]) == folded]
        return close[0] if folded and len(close) == 1 else name

    def _free(self, name: str) -> str:
        plain = _plain(name)
        return _with_hash(plain, name) if plain in self._client_names else plain


def _plain(name: str) -> str:
    plain = _UNSAFE.sub("_", name.replace("-", "_")) or "tool"
    return plain if len(plain) <= NAME_LIMIT else _with_hash(plain, name)


def _with_hash(plain: str, name: str) -> str:
    digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{plain[: NAME_LIMIT - 9]}_{digest}"


def _fold(name: str) -> str:
    """Return the name in lower case, without separators and without an MCP prefix, for comparison."""
    bare = re.sub(r"\Amcp__[^_]+(?:_[^_]+)*__", "", name)
    return re.sub(r"[^a-z0-9]", "", bare.casefold())


class _UpstreamNames(dict[str, str]):
    """Maps the client's names to the upstream's. The name of a tool that is not offered is computed but not stored."""

    def __missing__(self, name: str) -> str:
        return name if _PLAIN_NAME.match(name) else _plain(name)


NO_TOOL_NAMES = ToolNames()


class BuiltRequest(Struct, frozen=True):
    """A request for an upstream: its body, its tool names, and notes about changes and omissions."""

    body: bytes
    tool_names: ToolNames
    notes: tuple[Note, ...] = ()
    continues: bool = False
    """Whether the body refers to a checkpoint instead of containing the whole history."""
