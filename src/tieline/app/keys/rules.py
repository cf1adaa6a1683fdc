"""Turns the rules of a key, from the configuration or the database, into the key that the guard checks."""

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta

from tieline.app.config import KeyRules
from tieline.core.legs.access import ModelAccess
from tieline.core.usage.limits import NANO, KeyLimits
from tieline.frontends.keys import ALL_PATHS, MODEL_PATHS, PAGE_PATHS, RESERVED_NAMES, NamedKey

AGENTS = "acp"
"""The name of the backend for coding agents."""
MAX_NAME = 64
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]*")


def named_key(
    name: str,
    rules: KeyRules,
    value: str = "",
    *,
    digest: str = "",
    archive: str = "",
    is_revoked: bool = False,
) -> NamedKey:
    """Return the key with these rules. For a stored key, `value` is empty, because only its digest is known."""
    return NamedKey(
        name,
        value,
        tools=rules.tools,
        access=model_access(rules.models, agents=rules.agents),
        paths=_paths(rules),
        limits=key_limits(rules),
        is_admin=rules.admin,
        expires=None if rules.expires is None else end_of(rules.expires),
        is_revoked=is_revoked,
        digest=digest,
        archive=archive,
    )


def name_mistake(name: str) -> str | None:
    """Return what is wrong with the name of a new key, or None if it is valid."""
    if not _NAME.fullmatch(name) or len(name) > MAX_NAME:
        return f"expected 1 to {MAX_NAME} letters, digits, `.`, `_`, `@` or `-`, beginning with a letter or digit"
    return "this name is reserved" if name in RESERVED_NAMES else None


def model_access(patterns: Sequence[str], *, agents: bool) -> ModelAccess | None:
    """Return the models that a key may use: those that match `patterns`, and agents only if `agents` is true.

    Return None if the key may use all models.
    """
    if not patterns and agents:
        return None
    return ModelAccess(tuple(patterns), () if agents else (AGENTS,))


def key_limits(rules: KeyRules) -> KeyLimits:
    """Return the limits of a key."""
    return KeyLimits(
        requests_per_minute=rules.requests_per_minute,
        tokens_per_minute=rules.tokens_per_minute,
        tokens_per_day=rules.tokens_per_day,
        tokens_per_month=rules.tokens_per_month,
        cost_per_day=_nano(rules.cost_per_day),
        cost_per_month=_nano(rules.cost_per_month),
    )


def end_of(day: date) -> float:
    """Return the Unix time at which a day (UTC) ends."""
    return datetime.combine(day, time.min, UTC).timestamp() + timedelta(days=1).total_seconds()


def _paths(rules: KeyRules) -> tuple[str, ...]:
    if rules.admin:
        return ALL_PATHS
    return (*(rules.paths or MODEL_PATHS), *(PAGE_PATHS if rules.page else ()))


def _nano(dollars: float | None) -> int | None:
    return None if dollars is None else round(dollars * NANO)
