"""Describes stored keys, for people and as JSON values."""

from typing import Any

import msgspec

from tieline.app.config import KeyRules
from tieline.app.keys.rules import end_of
from tieline.app.keys.table import KeyRecord


def state_of(record: KeyRecord, now: float) -> str:
    """Return "valid", "expired" or "revoked"."""
    if record.revoked is not None:
        return "revoked"
    return "expired" if record.rules.expires is not None and now >= end_of(record.rules.expires) else "valid"


def describe(rules: KeyRules) -> str:
    """Return the rules of a key as one line."""
    if rules.admin:
        return "admin: may do everything"
    parts = [f"models {', '.join(rules.models)}" if rules.models else "all models"]
    parts += [name for name in ("tools", "agents", "page") if getattr(rules, name)]
    for name in KeyRules.__struct_fields__:
        value = getattr(rules, name)
        if value is not None and name.startswith(("requests_", "tokens_", "cost_")):
            what, _, period = name.partition("_per_")
            parts.append(f"${value:g} per {period}" if what == "cost" else f"{value} {what} per {period}")
    if rules.expires is not None:
        parts.append(f"until {rules.expires}")
    return ", ".join(parts)


def key_json(record: KeyRecord, now: float) -> dict[str, Any]:
    """Return a key as JSON values. Digests are left out."""
    return {
        "name": record.name,
        "id": record.id,
        "state": state_of(record, now),
        "created": record.created,
        "revoked": record.revoked,
        "last_used": record.last_used,
        "previous_until": record.previous_until,
        "text": describe(record.rules),
        "rules": msgspec.to_builtins(record.rules),
    }
