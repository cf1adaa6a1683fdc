"""What is known of a client by its user agent or key, and how it therefore wants its answers."""

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple

from tieline.core.legs.activity_text import ActivityStyle
from tieline.frontends.http import Exchange
from tieline.frontends.keys import Keys, NamedKey, same_key

Arguments = Literal["buffered", "incremental"]
ReasoningField = Literal["reasoning_content", "reasoning", "none"]


class Profile(NamedTuple):
    """One kind of client. Patterns take `*`; what is None is left to the protocol's own default."""

    user_agent: str | None = None
    key: str | None = None
    arguments: Arguments | None = None
    reasoning: ReasoningField | None = None
    activity: ActivityStyle | None = None
    tools: bool | None = None
    """Whether its requests receive the gateway's own tools; None: what its named key says, otherwise no."""

    def fits(self, user_agent: str, key: str) -> bool:
        """Whether this is that client: everything the profile names must match."""
        if self.user_agent is not None and not fnmatchcase(user_agent.lower(), self.user_agent.lower()):
            return False
        return self.key is None or same_key(key, self.key)


class Profiles:
    """Finds the profile of a client: the first that fits, completed by what holds for all clients and by its key."""

    def __init__(
        self, profiles: Iterable[Profile] = (), everybody: Profile | None = None, named: Iterable[NamedKey] = ()
    ) -> None:
        self._profiles = tuple(profiles)
        self._everybody = everybody or Profile()
        self._keys = Keys(named=named)

    def of(self, exchange: Exchange) -> Profile:
        """Return the profile of the client that sent a request."""
        if not self._profiles and not self._keys.has_named:
            return self._everybody
        user_agent, key = exchange.header(b"user-agent"), exchange.key
        found = next((profile for profile in self._profiles if profile.fits(user_agent, key)), Profile())
        named = self._keys.named(key)
        everybody = self._everybody
        return found._replace(
            arguments=found.arguments or everybody.arguments,
            reasoning=found.reasoning or everybody.reasoning,
            activity=found.activity or everybody.activity,
            tools=found.tools if found.tools is not None else named is not None and named.tools,
        )
