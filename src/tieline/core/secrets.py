"""The keys of upstreams, kept out of what clients and logs are told: some servers repeat a key they refuse."""

import re
from collections.abc import Iterable

HIDDEN = "***"
SHORTEST = 8
"""A shorter text is no secret, and may well be a word that has its place in a message."""


class Secrets:
    """Texts that nobody outside may read."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        secret = sorted((text for text in texts if len(text) >= SHORTEST), key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, secret))) if secret else None

    def hide(self, message: str) -> str:
        """The message without them."""
        return message if self._pattern is None else self._pattern.sub(HIDDEN, message)
