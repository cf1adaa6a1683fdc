"""What is known of a client by its user agent or key, and how it therefore wants its answers."""

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple

from tieline.core.showing import Style
from tieline.frontends.http import Exchange

Arguments = Literal["buffered", "incremental"]
ReasoningField = Literal["reasoning_content", "reasoning", "none"]


class Profile(NamedTuple):
    """One kind of client. Patterns take `*`; what is None is left to the protocol's own default."""

    user_agent: str | None = None
    key: str | None = None
    arguments: Arguments | None = None
    reasoning: ReasoningField | None = None
    activity: Style | None = None

    def fits(self, user_agent: str, key: str) -> bool:
        """Whether this is that client: everything the profile names must match."""
        if self.user_agent is not None and not fnmatchcase(user_agent.lower(), self.user_agent.lower()):
            return False
        return self.key is None or self.key == key


class Profiles:
    """The first profile that fits decides; the last one fits everybody."""

    def __init__(self, profiles: Iterable[Profile] = (), everybody: Profile | None = None) -> None:
        self._profiles = tuple(profiles)
        self._everybody = everybody or Profile()

    def of(self, exchange: Exchange) -> Profile:
        """The profile of a client; what it leaves open is what holds for everybody."""
        everybody = self._everybody
        if not self._profiles:
            return everybody
        user_agent, key = exchange.header(b"user-agent"), exchange.key
        for profile in self._profiles:
            if profile.fits(user_agent, key):
                return profile._replace(
                    arguments=profile.arguments or everybody.arguments,
                    reasoning=profile.reasoning or everybody.reasoning,
                    activity=profile.activity or everybody.activity,
                )
        return everybody
