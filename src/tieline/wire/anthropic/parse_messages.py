"""Parse a client's messages."""

from collections.abc import Iterable
from typing import NamedTuple, get_args

import msgspec

from tieline.model.content import NO_META, Message, Role
from tieline.wire.anthropic.parse_content import content_parts, is_standard, parse, unexpected
from tieline.wire.anthropic.schema import PROTOCOL, MessageShell
from tieline.wire.shared.conversations import ConversationCache, parsed_weight
from tieline.wire.shared.unsupported import AT

_MESSAGE = msgspec.json.Decoder(MessageShell)
_ROLES: tuple[Role, ...] = get_args(Role)


class SourcedMessage(NamedTuple):
    """A message, and its JSON text in `source`. `source` is None if the API would not accept this text as it is."""

    message: Message
    source: bytes | None


class MessagesParser:
    """Parses messages and appends them to `messages`. Messages that were parsed earlier are taken from the cache."""

    def __init__(self, cache: ConversationCache | None) -> None:
        self._cache = cache
        self.messages: list[Message] = []
        self.sources: list[bytes | None] = []
        """The JSON text of each message; see `RequestSource`."""
        self._begun = False
        """Whether the conversation has begun. System messages after that do not belong to the initial system prompt."""

    def parse(self, raws: Iterable[msgspec.Raw]) -> None:
        """Parse all messages. If a field is invalid, raise BadRequest with its path."""
        for at, raw in enumerate(raws):
            message, source = self._parsed(bytes(raw), at)
            self.messages.append(message)
            self.sources.append(source)
            self._begun = message.role != "system" or message.meta is not NO_META

    def _parsed(self, text: bytes, at: int) -> SourcedMessage:
        cache, key = self._cache, (PROTOCOL, self._begun, text)
        if cache is not None:
            known: SourcedMessage | None = cache.get(key)
            if known is not None:
                return known
        shell = parse(_MESSAGE, text, f"messages[{at}]")
        role = next((role for role in _ROLES if role == shell.role), None)
        if role is None:
            raise unexpected(f"messages[{at}].role", '"user", "assistant" or "system"', shell.role)
        parts = content_parts(shell.content, at)
        is_late = role == "system" and self._begun
        message = Message(role=role, parts=parts, meta={PROTOCOL: {"in_place": True}} if is_late else NO_META)
        parsed = SourcedMessage(message, text if is_standard(role, parts, text) else None)
        if cache is not None and not any(AT in part.meta for part in parts):  # such parts contain their position
            cache.put(key, parsed, parsed_weight(text))
        return parsed
