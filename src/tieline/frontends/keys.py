"""Client keys, their permissions and limits; `guard` checks them."""

from datetime import UTC, datetime
from hashlib import sha256
from typing import NamedTuple, Protocol

from tieline.core.legs.access import ModelAccess
from tieline.core.usage.limits import NO_LIMITS, KeyLimits
from tieline.model.errors import GatewayError

MODEL_PATHS = (
    "/v1/",
    "/cursor/",
    "/openai/deployments/",
    # The paths below `/v1/` also work without it.
    "/audio/",
    "/chat/",
    "/completions",
    "/conversations",
    "/embeddings",
    "/images/",
    "/messages",
    "/models",
    "/moderations",
    "/responses",
)
"""Path prefixes of the model APIs. Without further permissions, named keys are valid only for these paths."""
PAGE_PATHS = ("/api/",)
"""Path prefixes of the web page's API."""
ALL_PATHS = ("",)
RESERVED_NAMES = frozenset(("tunnel", "other"))
"""Names that a key must not have: the key of a tunnel, and the name under which metrics count all further keys."""
NEEDS_KEY = "This gateway needs its key, as `Authorization: Bearer <key>`, `x-api-key: <key>` or `api-key: <key>`."


class NamedKey(NamedTuple):
    """The key of one client, from the configuration or from the database.

    Unless it has `PAGE_PATHS`, it is valid only for the model APIs, so that a client cannot answer inbox items and
    thereby approve its own commands.
    """

    name: str
    value: str = ""
    """The key itself; empty if only its digest is known."""
    tools: bool = False
    """Whether the gateway adds its own tools to requests with this key."""
    access: ModelAccess | None = None
    """The models that requests with this key may use; None if there is no limit."""
    paths: tuple[str, ...] = MODEL_PATHS
    """Prefixes of the paths for which the key is valid."""
    limits: KeyLimits = NO_LIMITS
    is_admin: bool = False
    """Whether the key may change the set-up of the gateway and see the data of all keys."""
    expires: float | None = None
    """The Unix time at which the key becomes invalid; None if it does not expire."""
    is_revoked: bool = False
    digest: str = ""
    """The SHA-256 digest of a stored key; see `digest_of`."""
    archive: str = ""
    """The name under which responses are stored; if empty, it is derived from the key itself."""

    @property
    def fingerprint(self) -> str:
        """The digest of the key, whether or not the key itself is known."""
        return self.digest or digest_of(self.value)

    def check_valid(self, now: float) -> None:
        """Raise GatewayError if the key has been revoked or has expired."""
        if self.is_revoked:
            raise GatewayError("unauthorized", "This key has been revoked.", code="invalid_api_key")
        if self.expires is not None and now >= self.expires:
            when = datetime.fromtimestamp(self.expires, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            raise GatewayError("unauthorized", f"This key expired at {when}.", code="invalid_api_key")


OWN_KEY = NamedKey("", paths=ALL_PATHS, is_admin=True)
"""Stands for any of the gateway's own keys; it has no limits."""


class KeySource(Protocol):
    """Keys that are stored elsewhere and can change while the gateway runs."""

    def find(self, digest: str) -> NamedKey | None:
        """Return the key with this digest, or None. Raise GatewayError if it was read from the store too long ago."""

    def named(self, name: str) -> NamedKey | None:
        """Return the key with this name, or None. Raise GatewayError if it was read from the store too long ago."""

    async def refresh(self) -> None:
        """Read the keys again. Raise GatewayError if that is not possible."""


class UnknownKey(GatewayError):
    """The key is not known, but it may have been created a moment ago: refresh the keys and check again."""

    def __init__(self) -> None:
        super().__init__("unauthorized", NEEDS_KEY, code="invalid_api_key")


def digest_of(key: str) -> str:
    """Return the SHA-256 digest of a key.

    A plain hash is right for keys with 32 random bytes: they cannot be guessed, so a slow or salted hash would protect
    nothing and cost time in every request.
    """
    return sha256(key.encode("utf-8", "replace")).hexdigest()
