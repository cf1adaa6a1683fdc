"""Limits on the models that a client may use."""

from fnmatch import fnmatchcase
from typing import NamedTuple

from tieline.model.errors import GatewayError

MAX_MATCHED_NAME = 256
"""Names longer than this match no pattern. There is a limit because clients can send names of any length."""
MAX_SHOWN_NAME = 100
"""Maximum number of characters of a name in an error message."""


class ModelAccess(NamedTuple):
    """The models that a client may use."""

    allowed: tuple[str, ...] = ()
    """Patterns with `*`, `?` and `[…]`. One of them must match the requested or the full name. If empty, all match."""
    refused_backends: tuple[str, ...] = ()
    """Names of backends whose models are refused even if a pattern allows them."""

    def allows(self, name: str, backend: str, model: str) -> bool:
        """Return whether a client may use `name`, which stands for the backend's model `model`.

        If `name` has options (`?…`), only the full name without them counts. Otherwise a client could choose options
        that make the name match a pattern.
        """
        full_name = f"{backend}/{model.partition('?')[0]}"
        is_allowed = ("?" not in name and self.matches(name)) or self.matches(full_name)
        return is_allowed and backend not in self.refused_backends

    def matches(self, name: str) -> bool:
        """Return whether the patterns allow a name, regardless of the backend and model that it stands for."""
        if not self.allowed:
            return True
        return len(name) <= MAX_MATCHED_NAME and any(fnmatchcase(name, pattern) for pattern in self.allowed)

    def refusal(self, name: str) -> GatewayError:
        """Return the error for a model that the client may not use. Its message names the allowed models."""
        shown = name if len(name) <= MAX_SHOWN_NAME else f"{name[:MAX_SHOWN_NAME]}…"
        message = f"This key may not use the model `{shown}`. It may use {self}."
        return GatewayError("forbidden", message, param="model", code="model_not_allowed")

    def __str__(self) -> str:
        """Return a phrase that names the allowed models."""
        refused = ", ".join(f"{backend}/*" for backend in self.refused_backends)
        if not self.allowed:
            return f"all models except {refused}" if refused else "all models"
        return ", ".join(self.allowed) + (f", but not {refused}" if refused else "")


class Rights(NamedTuple):
    """What the owner of a session may use."""

    access: ModelAccess | None = None
    """The models; None if there is no limit."""
    tools: bool = True
    """Whether the gateway's own tools may be used."""


ALL_RIGHTS = Rights()
NO_RIGHTS = Rights(ModelAccess(allowed=("",)), tools=False)
"""The rights of an owner whose key is no longer valid: no model has an empty name."""
