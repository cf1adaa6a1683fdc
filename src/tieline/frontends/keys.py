"""Client keys and their limits; `guard` checks them."""

from typing import NamedTuple

from tieline.core.legs.access import ModelAccess

MODEL_PATHS = ("/v1/", "/chat/", "/cursor/", "/openai/deployments/")
"""Path prefixes of the model APIs. Named keys are valid only for these paths."""


class NamedKey(NamedTuple):
    """The key of one client.

    It is valid only for the model APIs, so that a client cannot answer inbox items and thereby approve its own
    commands.
    """

    name: str
    value: str
    tools: bool = False
    """Whether the gateway adds its own tools to requests with this key."""
    access: ModelAccess | None = None
    """The models that requests with this key may use; None if there is no limit."""
    paths: tuple[str, ...] = MODEL_PATHS
    """Prefixes of the paths for which the key is valid."""
    requests_per_minute: int | None = None
    """Maximum number of requests per minute; None if there is no limit."""


OWN_KEY = NamedKey("", "", paths=("",))
"""Stands for any of the gateway's own keys; it has no limits."""
