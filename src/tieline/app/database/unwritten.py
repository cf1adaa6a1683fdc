"""Changes to documents that have not been written to the database yet."""

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

T = TypeVar("T")

MAX_UNWRITTEN = 64 << 20
"""Maximum size of all unwritten documents in bytes."""
OVERHEAD = 200
"""Bytes that are counted for every change in addition to its data."""


class DocumentChange(NamedTuple):
    """The document that a change is about. If `key` is None, the change removes all documents of the shelf."""

    shelf: str
    key: str | None


class UnwrittenChanges:
    """Changes in the order in which they have to be written. Data of None removes a document."""

    def __init__(self, max_size: int = MAX_UNWRITTEN) -> None:
        self._max_size = max_size
        self._changes: dict[DocumentChange, bytes | None] = {}
        self._size = 0

    def __len__(self) -> int:
        return len(self._changes)

    def put(self, change: DocumentChange, data: bytes | None) -> bool:
        """Add a change, which replaces earlier ones to the same document.

        Return False if there is no room for it. In that case, the earlier changes are kept: they are still newer than
        what is stored, and the documents end up as if this change had never been made.
        """
        replaced = [change] if change.key is not None else [one for one in self._changes if one.shelf == change.shelf]
        freed = sum(_size(self._changes[one]) for one in replaced if one in self._changes)
        size = _size(data)
        if self._size - freed + size > self._max_size:
            return False
        for one in replaced:
            self._remove(one)
        self._changes[change] = data
        self._size += size
        return True

    def first(self) -> tuple[DocumentChange, bytes | None]:
        """Return the change to write next."""
        return next(iter(self._changes.items()))

    def written(self, change: DocumentChange, data: bytes | None) -> bool:
        """Forget a change that has been written. Return False if it has been replaced by another one."""
        if change in self._changes:
            if self._changes[change] is not data:
                return False
            self._remove(change)
        return True

    def apply(self, shelf: str, stored: Mapping[str, T], convert: Callable[[bytes], T]) -> dict[str, T]:
        """Return the documents of a shelf as they will be when all changes have been written.

        `stored` contains a value for each document in the database; `convert` returns the value of a changed document.
        """
        documents = {} if DocumentChange(shelf, None) in self._changes else dict(stored)
        for change, data in self._changes.items():
            if change.shelf == shelf and change.key is not None:
                if data is None:
                    documents.pop(change.key, None)
                else:
                    documents[change.key] = convert(data)
        return documents

    def get(self, shelf: str, key: str) -> tuple[bool, bytes | None]:
        """Return whether a document has been changed, and its new data; None if it has been removed."""
        if DocumentChange(shelf, key) in self._changes:
            return True, self._changes[DocumentChange(shelf, key)]
        return DocumentChange(shelf, None) in self._changes, None

    def concerns(self, shelf: str, key: str | None) -> bool:
        """Return whether there are changes to a document, or to any document of the shelf if `key` is None."""
        return any(one.shelf == shelf and (key is None or one.key in (None, key)) for one in self._changes)

    def _remove(self, change: DocumentChange) -> None:
        if change in self._changes:
            self._size -= _size(self._changes.pop(change))


def _size(data: bytes | None) -> int:
    return OVERHEAD + len(data or b"")
