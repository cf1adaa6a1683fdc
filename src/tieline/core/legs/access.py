"""Limits on the models that a client may use."""

from fnmatch import fnmatchcase
from typing import NamedTuple

from tieline.model.errors import GatewayError

MAX_MATCHED_NAME = 256
"""Longer names match no pattern: a name may be as long as a request."""
MAX_SHOWN_NAME = 100
"""Longer names are truncated in messages."""


class ModelAccess(NamedTuple):
    """The models that a client may use."""

    allowed: tuple[str, ...] = ()
    """Patterns as for file names (`*`, `?`, `[…]`); the requested or the full name must match. If empty, all models."""
    refused_backends: tuple[str, ...] = ()
    """Names of backends whose models are refused even if a pattern allows them."""

    def allows(self, name: str, backend: str, model: str) -> bool:
        """Return whether a request may use `name`, which leads to a model of a backend. Options (`?…`) do not count."""
        return backend not in self.refused_backends and (self.matches(name) or self.matches(f"{backend}/{model}"))

    def matches(self, name: str) -> bool:
        """Return whether a pattern allows a name, wherever it leads."""
        if not self.allowed:
            return True
        name = name.partition("?")[0]
        return len(name) <= MAX_MATCHED_NAME and any(fnmatchcase(name, pattern) for pattern in self.allowed)

    def refusal(self, name: str) -> GatewayError:
        """Return the error for a model that the client may not use; it names those that are allowed."""
        shown = name if len(name) <= MAX_SHOWN_NAME else f"{name[:MAX_SHOWN_NAME]}…"
        message = f"This key may not use the model `{shown}`. It may use {self}."
        return GatewayError("forbidden", message, param="model", code="model_not_allowed")

    def __str__(self) -> str:
        """Return the allowed models in words."""
        refused = ", ".join(f"{backend}/*" for backend in self.refused_backends)
        if not self.allowed:
            return f"all models except {refused}" if refused else "all models"
        return ", ".join(self.allowed) + (f", but not {refused}" if refused else "")
