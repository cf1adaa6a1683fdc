"""Parse a directory tree from the output of a client's tool.

Tools return names, paths, trees (indented, or drawn with lines), lines in the format of `ls -l`, or JSON. For each
line, the parser determines the name of the entry, its depth, and whether it is a directory.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatch
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from tieline.wire.cursor._pb.exec_kinds_pb2 import LsDirectoryTreeNode
from tieline.wire.shared.json import decode_any

MAX_DEPTH = 40
"""The maximum depth of the tree; deeper entries are left out. Protobuf limits the nesting of messages."""

MAX_ENTRIES = 20_000

_ENTRIES = re.compile(r"<entries>\n?(.*?)\n?</entries>", re.DOTALL)
_NOTE = re.compile(
    r"NOTE:|\(.*\)$|\[(?:Showing|\d+ files? in|\d+ more)|Found \d|No (?:files|entries|matches)|total \d+$"
    r"|\d+ director(?:y|ies), \d+ files?$|(?:Directory listing|Contents|Listing|Files in) ?(?:for|of)? ?[^\n]*:$",
    re.IGNORECASE,
)
_DRAWN = re.compile(r"(?P<indent>[│|\u00a0 ]*)(?:├──|└──|\|--|`--) ?(?P<name>.+)")
_BULLET = re.compile(r"(?P<indent>\s*)[-*•] (?P<name>.+)")
_MARKED = re.compile(r"(?P<indent>\s*)\[(?P<kind>dir|file|directory|d|f)\]:? ?(?P<name>.+)", re.IGNORECASE)
_LONG = re.compile(r"(?P<kind>[bcdlps-])[rwxsStT-]{9}\S?\s+\d+\s+\S+\s+\S+\s+[\d,]+\s+\S+\s+\d+\s+[\d:]+\s(?P<name>.+)")
_SIZE = re.compile(r"\s+(?:\(|- )?\d[\d.,]* ?(?:[KMGT]i?B|B|bytes|items?|files?|lines?)\b[^/]{0,60}$", re.IGNORECASE)


class _ListingEntry(NamedTuple):
    indent: int
    name: str
    is_directory: bool | None = None


class _Directory:
    """A mutable directory, used while the tree is built."""

    def __init__(self) -> None:
        self.directories: dict[str, _Directory] = {}
        self.files: dict[str, None] = {}

    def directory(self, name: str) -> "_Directory":
        self.files.pop(name, None)
        return self.directories.setdefault(name, _Directory())

    def file(self, name: str) -> None:
        if name not in self.directories:
            self.files[name] = None


def tree(text: str, path: str, ignore: Sequence[str] = ()) -> LsDirectoryTreeNode:
    """Parse a tool's listing of the directory at `path` into a tree. Omit names that match a glob in `ignore`."""
    root = _Directory()
    entries = list(islice(_entries(text), MAX_ENTRIES))
    top = _is_top(entries[0], path) if entries else False
    _grow(root, entries[1:] if top else entries, path)
    return _written(root, path.rstrip("/") or path, ignore, is_root=True)


def _entries(text: str) -> Iterator[_ListingEntry]:
    wrapped = _ENTRIES.search(text)
    found = _from_json(text)
    if found is not None:
        yield from found
        return
    for line in (wrapped[1] if wrapped else text).split("\n"):
        if line.strip() and not _NOTE.match(line.strip()):
            entry = _entry(line.rstrip())
            if entry.name not in ("", ".", ".."):
                yield entry


def _entry(line: str) -> _ListingEntry:
    """Parse one line of a listing."""
    if found := _LONG.match(line):
        name = found["name"].split(" -> ")[0]
        return _ListingEntry(0, name, found["kind"] == "d")
    if found := _DRAWN.match(line):
        return _named(len(found["indent"]) + 4, found["name"])
    if found := _MARKED.match(line):
        entry = _named(len(found["indent"]), found["name"])
        return entry._replace(is_directory=found["kind"].lower().startswith("d"))
    if found := _BULLET.match(line):
        return _named(len(found["indent"]), found["name"])
    return _named(len(line) - len(line.lstrip()), line.strip())


def _named(indent: int, name: str) -> _ListingEntry:
    name = _SIZE.sub("", name.strip()).replace("\\", "/")
    return _ListingEntry(indent, name, True if name.endswith("/") else None)


def _from_json(text: str) -> list[_ListingEntry] | None:
    if not text.lstrip().startswith(("[", "{")):
        return None
    try:
        value = decode_any(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    if not isinstance(value, dict):
        return [entry for item in value for entry in _from_item(item)] if isinstance(value, list) else None
    found = [_ListingEntry(0, name, True) for name in value.get("directories") or () if isinstance(name, str)]
    for key in ("entries", "files", "items", "children", "contents"):
        items = value.get(key)
        found += [entry for item in items for entry in _from_item(item)] if isinstance(items, list) else []
    return found or None


def _from_item(item: Any) -> Iterator[_ListingEntry]:
    if isinstance(item, str):
        yield _named(0, item)
    elif isinstance(item, dict):
        name = item.get("path") or item.get("name")
        kind = str(item.get("type") or item.get("kind") or "").lower()
        flags = [item.get(key) for key in ("isDirectory", "is_directory", "is_dir", "isDir")]
        if isinstance(name, str):
            yield _named(0, name)._replace(is_directory=True if kind.startswith("dir") or True in flags else None)


def _is_top(entry: _ListingEntry, path: str) -> bool:
    """Return whether an entry is the listed directory itself. Some listings begin with it."""
    return entry.name.rstrip("/") in (path.rstrip("/"), ".") or (
        entry.name.startswith("/") and entry.name.endswith("/") and path.endswith(entry.name.rstrip("/"))
    )


def _grow(root: _Directory, entries: Sequence[_ListingEntry], path: str) -> None:
    """Add the entries to the tree. An entry belongs to the last directory above it that is less indented."""
    above: list[tuple[int, int, _Directory]] = []
    for at, entry in enumerate(entries):
        following = entries[at + 1].indent if at + 1 < len(entries) else 0
        while above and above[-1][0] >= entry.indent:
            above.pop()
        parts = _parts(entry.name, path)
        _, depth, node = above[-1] if above else (0, 0, root)
        depth += len(parts)
        if not parts or depth > MAX_DEPTH:
            continue
        for part in parts[:-1]:
            node = node.directory(part)
        if entry.is_directory or (entry.is_directory is None and following > entry.indent):
            above.append((entry.indent, depth, node.directory(parts[-1])))
        else:
            node.file(parts[-1])


def _parts(name: str, path: str) -> list[str]:
    """Return the components of an entry's path relative to the listed directory."""
    base = path.rstrip("/")
    inside = name[len(base) :] if base and name.startswith(f"{base}/") else name
    return [part for part in inside.split("/") if part not in ("", ".")]


def _written(node: _Directory, path: str, ignore: Sequence[str], *, is_root: bool = False) -> LsDirectoryTreeNode:
    base = path.rstrip("/")
    directories = [
        _written(inner, f"{base}/{name}", ignore) for name, inner in _sorted(node.directories.items(), ignore)
    ]
    files = [LsDirectoryTreeNode.File(name=name) for name, _ in _sorted(node.files.items(), ignore)]
    # In a flat listing, a subdirectory without entries is not necessarily empty: its contents are not shown.
    is_known = is_root or bool(node.directories or node.files)
    return LsDirectoryTreeNode(
        abs_path=path, children_dirs=directories, children_files=files, children_were_processed=is_known
    )


def _sorted(items: Iterable[tuple[str, Any]], ignore: Sequence[str]) -> list[tuple[str, Any]]:
    kept = [item for item in items if not any(fnmatch(item[0], pattern.removeprefix("**/")) for pattern in ignore)]
    return sorted(kept, key=lambda item: (item[0].lower(), item[0]))
