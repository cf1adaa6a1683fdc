"""The keys of upstreams, kept out of what clients and logs are told: some servers repeat a key they refuse."""

import re
from collections.abc import Iterable, Mapping

HIDDEN = "***"
SHORTEST = 8
"""A shorter text is no secret, and may well be a word that has its place in a message."""

_LIKELY = re.compile(
    r"""\b(?:sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|xox[abprs]-[\w-]{10,}
    |AKIA[0-9A-Z]{16}|AIza[\w-]{30,}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]{5,})|(?<=[Bb]earer\ )[\w.~+/-]{16,}""",
    re.VERBOSE,
)
"""How keys that everybody uses look."""


class Secrets:
    """Texts that nobody outside may read."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        secret = sorted((text for text in texts if len(text) >= SHORTEST), key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, secret))) if secret else None

    def hide(self, message: str) -> str:
        """The message without them."""
        return message if self._pattern is None else self._pattern.sub(HIDDEN, message)


_TELLING = re.compile(r"auth|key|token|secret|passw|credential|cookie|session", re.IGNORECASE)


def secret_values(settings: Mapping[str, str]) -> list[str]:
    """The values among named settings (headers, variables) that are secret, by their names or by how they look."""
    found = [value for name, value in settings.items() if _TELLING.search(name) or _LIKELY.search(value)]
    return [*found, *(word for value in found for word in value.split() if word != value)]


def hide_likely(text: str) -> str:
    """The text without what looks like a key, whoever it belongs to."""
    return _LIKELY.sub(HIDDEN, text)
