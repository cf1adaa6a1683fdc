"""Authentication: JWTs that expire, API keys that can be exchanged for such tokens, and browser logins."""

import hmac
import secrets
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import OrderedDict
from hashlib import sha256

import msgspec

from tieline.sim.cursor.settings import SimSettings

LOGINS = 1000
"""Maximum number of pending logins."""

_HEAD = {"alg": "HS256", "typ": "JWT"}


class TokenIssuer:
    """Issues and verifies the tokens of the simulated service."""

    def __init__(self, settings: SimSettings) -> None:
        self._settings = settings
        self._secret = secrets.token_bytes(32)
        self._generation = 0
        self._logins: OrderedDict[str, _Login] = OrderedDict()
        self.issued = 0
        """Number of token pairs issued so far."""

    def issue(self) -> dict[str, str]:
        """Issue an access token and a refresh token."""
        self.issued += 1
        lifetime = self._settings.token_lifetime
        return {"accessToken": self._token("session", lifetime), "refreshToken": self._token("refresh", 60 * 86400)}

    def revoke(self) -> None:
        """Revoke all access tokens issued so far."""
        self._generation += 1

    def is_access(self, token: str) -> bool:
        """Return whether `token` is a valid access token."""
        if not self._settings.auth:
            return True
        claims = self._claims(token)
        is_current = claims.generation == self._generation and claims.exp > time.time()
        return claims.type == "session" and is_current

    def is_key(self, key: str) -> bool:
        """Return whether `key` is a valid API key or refresh token, so that it can be exchanged for tokens."""
        if not self._settings.auth:
            return True
        return self.is_refresh(key) or (bool(key) and (not self._settings.keys or key in self._settings.keys))

    def is_refresh(self, token: str) -> bool:
        """Return whether `token` is a valid refresh token."""
        return not self._settings.auth or self._claims(token).type == "refresh"

    # Logins

    def opened(self, login: str, challenge: str) -> None:
        """Record that the user has opened the link for the login with the id `login`. The link contains `challenge`."""
        self._login(login).challenge = challenge

    def polled(self, login: str, verifier: str) -> dict[str, str] | None:
        """Return tokens if the login with the id `login` is granted; None if it is pending or `verifier` is wrong."""
        found = self._login(login)
        found.polls += 1
        if found.challenge is not None:
            is_granted = hmac.compare_digest(found.challenge, _encoded(sha256(verifier.encode()).digest()))
        else:
            polls = self._settings.login_polls
            is_granted = polls is not None and found.polls > polls
        if not is_granted:
            return None
        del self._logins[login]
        return self.issue()

    def _login(self, login: str) -> "_Login":
        found = self._logins.setdefault(login, _Login())
        if len(self._logins) > LOGINS:
            self._logins.popitem(last=False)
        return found

    # Token format

    def _token(self, kind: str, lifetime: float) -> str:
        claims = _Claims(
            type=kind, exp=int(time.time() + lifetime), generation=self._generation, nonce=secrets.token_hex(4)
        )
        signed = f"{_encoded(msgspec.json.encode(_HEAD))}.{_encoded(msgspec.json.encode(claims))}"
        return f"{signed}.{self._signature(signed)}"

    def _claims(self, token: str) -> "_Claims":
        """Return the claims of a token, or empty claims if its signature is invalid."""
        signed, _, signature = token.rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._signature(signed).encode()):
            return _Claims()
        claims = signed.partition(".")[2]
        return msgspec.json.decode(urlsafe_b64decode(claims + "=" * (-len(claims) % 4)), type=_Claims)

    def _signature(self, signed: str) -> str:
        return _encoded(hmac.digest(self._secret, signed.encode(), "sha256"))


class _Claims(msgspec.Struct):
    sub: str = "simulated|user"
    type: str = ""
    exp: int = 0
    generation: int = -1
    nonce: str = ""


class _Login:
    def __init__(self) -> None:
        self.polls = 0
        self.challenge: str | None = None


def _encoded(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")
