"""Finds and reads workspace files that a user attaches to a message on the web page."""

import asyncio
import base64
import itertools
import os
import time
from collections.abc import Callable, Sequence

from tieline.model.content import File, Image
from tieline.model.errors import BadRequest
from tieline.tools import files, search_fallback
from tieline.tools.errors import ToolFailed
from tieline.tools.workspace import Workspace

MOST_NAMES = 50_000
"""Maximum number of workspace files that are listed."""
MOST_FOUND = 50
NAMES_KEPT = 5.0
"""Seconds for which the list of files is cached, so that it is not read again for each letter that the user types."""
MOST_ATTACHED = 256 * 1024
"""Maximum number of characters in an attached text file. Longer files are truncated."""


class WorkspaceFiles:
    """The files of the workspace that the user can attach to a message."""

    def __init__(self, root: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._workspace = Workspace(root)
        self._clock = clock
        self._names: tuple[str, ...] = ()
        self._read_at: float | None = None

    async def find(self, query: str) -> Sequence[str]:
        if self._read_at is None or self._clock() - self._read_at > NAMES_KEPT:
            self._names = await asyncio.to_thread(self._list)
            self._read_at = self._clock()
        return await asyncio.to_thread(best_matches, self._names, query, MOST_FOUND)

    async def read(self, path: str) -> Image | File:
        try:
            return await asyncio.to_thread(self._content, path)
        except ToolFailed as error:
            raise BadRequest(str(error), "files") from error

    def _list(self) -> tuple[str, ...]:
        root = self._workspace.root
        found = itertools.islice(search_fallback.files(root, search_fallback.SKIPPED), MOST_NAMES)
        return tuple(os.path.relpath(path, root) for path in found)

    def _content(self, path: str) -> Image | File:
        with self._workspace.open(path) as opened:
            data = opened.stream.read(files.MAX_IMAGE + 1)
            name = opened.path
        if len(data) > files.MAX_IMAGE:
            raise ToolFailed(f"`{name}` is too large for a message (the limit is {files.MAX_IMAGE >> 20} MiB)")
        if media_type := files.image_type(data[: files.SNIFFED]):
            return Image(media_type=media_type, data=base64.b64encode(data).decode())
        if b"\0" in data[: files.SNIFFED]:
            raise ToolFailed(f"`{name}` is neither text nor an image")
        text = data.decode("utf-8", "replace")
        if len(text) > MOST_ATTACHED:
            text = f"{text[:MOST_ATTACHED]}\n… ({len(text) - MOST_ATTACHED} more characters)"
        return File(media_type="text/plain", data=base64.b64encode(text.encode()).decode(), name=name)


def best_matches(names: Sequence[str], query: str, most: int) -> list[str]:
    """Return up to `most` names that contain the letters of `query` in the same order, the best matches first."""
    wanted = query.lower().strip()
    ranked = ((_rank(name.lower(), wanted), name) for name in names)
    found = sorted((rank, len(name), name) for rank, name in ranked if rank is not None)
    return [name for _, _, name in found[:most]]


def _rank(name: str, wanted: str) -> int | None:
    base = name.rpartition("/")[2]
    if base.startswith(wanted):
        return 0
    if wanted in base:
        return 1
    if wanted in name:
        return 2
    letters = iter(name)
    return 3 if all(letter in letters for letter in wanted) else None
