"""Remove secrets from messages and logs. For example, some servers repeat a rejected key in their error message."""

import re
from collections.abc import Iterable, Mapping

HIDDEN = "***"
MIN_LENGTH = 8
"""Minimum length of a secret. Shorter texts are not hidden, because they may be ordinary words."""

_LIKELY = re.compile(
    r"""\b(?:sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|xox[abprs]-[\w-]{10,}
    |AKIA[0-9A-Z]{16}|AIza[\w-]{30,}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]{5,})|(?<=[Bb]earer\ )[\w.~+/-]{16,}""",
    re.VERBOSE,
)
"""Matches common formats of keys and tokens."""


class Secrets:
    """The known secrets, such as API keys, which must not appear in messages or logs."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._texts: frozenset[str] = frozenset()
        self._pattern: re.Pattern[str] | None = None
        self.add(texts)

    def add(self, texts: Iterable[str]) -> None:
        """Add secrets that became known later. A secret is never removed: older records may still contain it."""
        self._texts |= {text for text in texts if len(text) >= MIN_LENGTH}
        # Longer secrets first, because one secret may begin with another.
        longest_first = sorted(self._texts, key=lambda text: (-len(text), text))
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def hide(self, message: str) -> str:
        """Return the message with all known secrets replaced."""
        return message if self._pattern is None else self._pattern.sub(HIDDEN, message)


_SECRET_NAME = re.compile(r"auth|key|token|secret|passw|credential|cookie|session", re.IGNORECASE)


def is_secret_name(name: str) -> bool:
    """Return whether the name of a header or an environment variable suggests that its value is a secret."""
    return _SECRET_NAME.search(name) is not None


def secret_values(settings: Mapping[str, str]) -> list[str]:
    """Return the values in `settings` (headers or environment variables) whose name or format suggests a secret.

    The words of such a value are returned as well, for example the token after `Bearer`.
    """
    found = [value for name, value in settings.items() if is_secret_name(name) or _LIKELY.search(value)]
    return [*found, *(word for value in found for word in value.split() if word != value)]


def hide_likely(text: str) -> str:
    """Return the text with everything that looks like a key or token replaced."""
    return _LIKELY.sub(HIDDEN, text)
