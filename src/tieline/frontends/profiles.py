"""Client profiles: options for the answers to a client, which is recognised by its user agent or key."""

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple

from tieline.core.legs.activity_text import ActivityStyle
from tieline.frontends.http import Exchange
from tieline.frontends.keys import same_key

Arguments = Literal["buffered", "incremental"]
ReasoningField = Literal["reasoning_content", "reasoning", "none"]


class Profile(NamedTuple):
    """Options for one kind of client. `user_agent` may contain `*`. None stands for the protocol's default."""

    user_agent: str | None = None
    key: str | None = None
    arguments: Arguments | None = None
    reasoning: ReasoningField | None = None
    activity: ActivityStyle | None = None
    tools: bool | None = None
    """Whether requests receive the gateway's own tools. If None, only those with a named key that allows it do."""

    def matches(self, user_agent: str, key: str) -> bool:
        """Return whether the profile applies to a client with this user agent and key."""
        if self.user_agent is not None and not fnmatchcase(user_agent.lower(), self.user_agent.lower()):
            return False
        return self.key is None or same_key(key, self.key)


class Profiles:
    """Finds the profile of a client: the first that matches, completed by the default profile and its named key."""

    def __init__(
        self, profiles: Iterable[Profile] = (), default: Profile | None = None, *, has_named_keys: bool = False
    ) -> None:
        self._profiles = tuple(profiles)
        self._default = default or Profile()
        self.common = None if self._profiles or has_named_keys else self._default
        """The profile of every client, or None if it depends on the client; in this case call `of`."""

    def of(self, exchange: Exchange) -> Profile:
        """Return the profile of the client that sent a request."""
        user_agent, key = exchange.header(b"user-agent"), exchange.key
        found = next((profile for profile in self._profiles if profile.matches(user_agent, key)), Profile())
        named = exchange.client_key
        default = self._default
        return found._replace(
            arguments=found.arguments or default.arguments,
            reasoning=found.reasoning or default.reasoning,
            activity=found.activity or default.activity,
            tools=found.tools if found.tools is not None else named is not None and named.tools,
        )
