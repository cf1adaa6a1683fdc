"""Client profiles: options for answering a client that is recognised by its user agent or key.

Cursor's editor has a profile of its own. The module `cursor_editor` recognises the editor.
"""

import hmac
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple

from tieline.core.legs.activity_text import ActivityStyle
from tieline.frontends.http import Exchange

Arguments = Literal["buffered", "incremental"]
ReasoningField = Literal["reasoning_content", "reasoning", "none", "think"]
Freeform = Literal["custom", "function"]
Incomplete = Literal["incomplete", "completed"]


class Profile(NamedTuple):
    """Options for one kind of client. `user_agent` is a pattern that may contain `*`.

    Options that are None are not set.
    """

    user_agent: str | None = None
    key: str | None = None
    arguments: Arguments | None = None
    reasoning: ReasoningField | None = None
    freeform: Freeform | None = None
    """The form in which Chat Completions clients receive calls to freeform tools."""
    incomplete: Incomplete | None = None
    """The status that Responses clients see on an answer that was cut off. Some of them retry an incomplete answer."""
    activity: ActivityStyle | None = None
    tools: bool | None = None
    """Whether the gateway adds its own tools to requests. If None, this depends on the client's named key."""

    def completed_by(self, other: "Profile") -> "Profile":
        """Return a copy in which options that are not set are taken from `other`."""
        return self._replace(
            arguments=self.arguments or other.arguments,
            reasoning=self.reasoning or other.reasoning,
            freeform=self.freeform or other.freeform,
            incomplete=self.incomplete or other.incomplete,
            activity=self.activity or other.activity,
            tools=self.tools if self.tools is not None else other.tools,
        )

    def matches(self, user_agent: str, key: str) -> bool:
        """Return whether the profile applies to a client with this user agent and key."""
        if self.user_agent is not None and not fnmatchcase(user_agent.lower(), self.user_agent.lower()):
            return False
        return self.key is None or (bool(self.key) and hmac.compare_digest(key.encode(), self.key.encode()))


EDITOR = Profile(arguments="buffered", freeform="function")
"""The built-in profile of Cursor's editor. The editor supports only function calls, and may run incomplete calls."""


class Profiles:
    """Finds the profile of a client: the first profile that matches.

    Options that it does not set are taken from the default profile, and then from the client's key.

    `editor` contains the configured options for Cursor's editor. They take precedence over its built-in profile.
    """

    def __init__(
        self,
        profiles: Iterable[Profile] = (),
        default: Profile | None = None,
        *,
        has_named_keys: bool = False,
        editor: Profile | None = None,
    ) -> None:
        self._profiles = tuple(profiles)
        self._default = default or Profile()
        self._editor = (editor or Profile()).completed_by(EDITOR)
        self._by_tools = [self._default.completed_by(Profile(tools=tools)) for tools in (False, True)]
        """The profiles of clients without and with the gateway's own tools, for use if no profiles are configured."""
        self.common = None if self._profiles or has_named_keys else self._default
        """The profile of all clients. If it is None, the profile depends on the client: call `of`."""

    def distinguish(self) -> None:
        """Treat clients according to their keys from now on, because there are named keys now."""
        self.common = None

    def of(self, exchange: Exchange, *, is_editor: bool = False) -> Profile:
        """Return the profile of the client that sent a request. `is_editor` says whether it is Cursor's editor."""
        named = exchange.client_key
        if not self._profiles and not is_editor:
            return self._by_tools[named is not None and named.tools]
        user_agent, key = exchange.header(b"user-agent"), exchange.key
        found = next((profile for profile in self._profiles if profile.matches(user_agent, key)), Profile())
        if is_editor:
            found = found.completed_by(self._editor)
        if found.tools and found.key is None and named is not None and named.name:
            found = found._replace(tools=None)  # any client can send the user agent of another
        by_key = Profile(tools=named is not None and named.tools)
        return found.completed_by(self._default).completed_by(by_key)
