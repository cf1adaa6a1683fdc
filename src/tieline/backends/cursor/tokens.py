"""The tokens of a Cursor login, and the claims in them.

Access tokens are JWTs. They are decoded, but not verified: only the service can verify them.
"""

import base64
import binascii
import math
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import msgspec

from tieline.model.content import Value

OPAQUE_LIFE = 3600.0
"""Seconds for which a renewable token without a known expiry time counts as valid."""

MAX_TOKEN = 16 * 1024
LATEST = 4e9
"""Latest plausible expiry time, in the year 2096. Later times are treated as unknown."""

Origin = Literal["browser", "import", "key", "fixed"]

_KINDS: dict[Origin, str] = {
    "browser": "login in the browser",
    "import": "login imported from Cursor's own client",
    "key": "API key",
    "fixed": "fixed token",
}


class LoginTokens(Value):
    """The tokens of a login. `obtained` is the time of issue, in seconds since 1970.

    `api_key`, if there is one, can be exchanged for new tokens.
    """

    access: str = ""
    refresh: str = ""
    api_key: str = ""
    origin: Origin = "browser"
    obtained: float = 0.0

    def __post_init__(self) -> None:
        if not all(_is_sendable(text) for text in (self.access, self.refresh, self.api_key)):
            raise ValueError("a token is too long or contains characters that are not allowed in an HTTP header")

    def __repr__(self) -> str:
        held = [name for name in ("access", "refresh", "api_key") if getattr(self, name)]
        return f"LoginTokens(origin={self.origin!r}, holds={'+'.join(held) or 'nothing'})"

    @property
    def is_renewable(self) -> bool:
        """Whether a new access token can be obtained when this one expires."""
        return bool(self.refresh or self.api_key)


class Claims(NamedTuple):
    """The claims of an access token: the id and email address of the account, and the expiry time, if known."""

    subject: str = ""
    email: str = ""
    expires: float | None = None


def bare(token: str) -> str:
    """Return a token without surrounding white space and without the account id that some programs put before it."""
    token = token.strip()
    for separator in ("::", "%3A%3A", "%3a%3a"):
        token = token.rpartition(separator)[2]
    return token


def owner_of(token: str, key: str = "") -> str:
    """Return a string that identifies the account of a token and, if given, `key`, the name of the client's key."""
    account = read_claims(token).subject or token
    return f"{account}\0{key}" if key else account


def read_claims(token: str) -> Claims:
    """Return the claims of a token. They are empty if it is not a JWT."""
    pieces = token.split(".")
    if len(pieces) != 3 or len(token) > MAX_TOKEN:
        return Claims()
    try:
        payload = base64.urlsafe_b64decode(pieces[1] + "=" * (-len(pieces[1]) % 4))
        fields = msgspec.json.decode(payload)
    except (binascii.Error, ValueError, RecursionError):
        return Claims()
    if not isinstance(fields, dict):
        return Claims()
    return Claims(_text(fields.get("sub")), _text(fields.get("email")), _moment(fields.get("exp")))


def expiry(tokens: LoginTokens) -> float:
    """Return the time at which the access token expires, in seconds since 1970.

    A token without an expiry time counts as valid for an hour after its issue or, if it cannot be renewed, forever.
    """
    expires = read_claims(tokens.access).expires
    if expires is not None:
        return expires
    return tokens.obtained + OPAQUE_LIFE if tokens.is_renewable else math.inf


def describe(tokens: LoginTokens, now: float) -> str:
    """Return a description of a login for the user: the account, the kind of login, and when the token expires."""
    claims = read_claims(tokens.access)
    names = [name for name in (claims.email, claims.subject) if name]
    account = f"{names[0]} ({names[1]})" if len(names) == 2 else "".join(names) or "unknown, the token does not say"
    return f"Account:  {account}\nLogin:    {_KINDS[tokens.origin]}\nToken:    {describe_validity(tokens, now)}"


def describe_validity(tokens: LoginTokens, now: float) -> str:
    """Return a text that says when the access token expires. It contains nothing about the account."""
    text = _validity(read_claims(tokens.access).expires, now)
    return f"{text}; renewed automatically" if tokens.is_renewable else text


def _validity(expires: float | None, now: float) -> str:
    if expires is None:
        return "expiry unknown"
    date = datetime.fromtimestamp(expires, UTC).strftime("%Y-%m-%d %H:%M UTC")
    left = expires - now
    return f"valid until {date} (in {_span(left)})" if left > 0 else f"expired on {date} ({_span(-left)} ago)"


def _span(seconds: float) -> str:
    for unit, name in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= unit:
            number = int(seconds // unit)
            return f"{number} {name}{'s' if number > 1 else ''}"
    return "less than a minute"


def _is_sendable(text: str) -> bool:
    return not text or (len(text) <= MAX_TOKEN and text.isascii() and text.isprintable() and " " not in text)


def _text(value: Any) -> str:
    """Return a claim in a form that is safe to print on a terminal."""
    return "".join(filter(str.isprintable, value))[:200] if isinstance(value, str) else ""


def _moment(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value <= LATEST else None
