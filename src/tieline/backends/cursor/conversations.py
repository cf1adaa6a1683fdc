"""Which id a conversation goes by: the same as it grows, since caches upstream go by it, and never two at once."""

import hashlib
from collections import OrderedDict
from collections.abc import Callable

from tieline.model.content import Text
from tieline.model.request import Request

REMEMBERED = 4096
"""So many new names of conversations are kept in mind."""


class Conversations:
    """The ids of the conversations under way."""

    def __init__(self, mint: Callable[[], str]) -> None:
        self._mint = mint
        self._live: set[str] = set()
        self._renamed: OrderedDict[str, str] = OrderedDict()

    def open(self, request: Request) -> str:
        """The id for a run. It is made from how the conversation begins; two that begin alike are told apart."""
        conversation_id = _made_from(request)
        while (newer := self._renamed.get(conversation_id)) is not None:
            conversation_id = newer
        if conversation_id in self._live:
            conversation_id = self._mint()
        self._live.add(conversation_id)
        return conversation_id

    def rename(self, conversation_id: str) -> str:
        """Another id for a conversation that the service will not go on with; its next turn has it too."""
        newer = self._mint()
        self._renamed[conversation_id] = newer
        if len(self._renamed) > REMEMBERED:
            self._renamed.popitem(last=False)
        self._live.discard(conversation_id)
        self._live.add(newer)
        return newer

    def close(self, conversation_id: str) -> None:
        """The run with this id is over."""
        self._live.discard(conversation_id)


def _made_from(request: Request) -> str:
    digest = hashlib.sha256()
    for message in request.messages[:4]:
        if message.role == "assistant":
            break
        for part in message.parts:
            if isinstance(part, Text):
                digest.update(part.text.encode("utf-8", "replace"))
                digest.update(b"\0")
    made = digest.hexdigest()
    return f"{made[:8]}-{made[8:12]}-5{made[13:16]}-a{made[17:20]}-{made[20:32]}"
