"""The messages of a session as a tree, in which edited and regenerated messages are siblings."""

from collections.abc import Iterable

from tieline.model.errors import BadRequest
from tieline.model.session import Turn


class MessageTree:
    """The tree of all messages of a session."""

    def __init__(self, turns: Iterable[Turn] = ()) -> None:
        self._turns: dict[str, Turn] = {}
        self._children: dict[str | None, list[str]] = {}
        for turn in turns:
            self.put(turn)

    def __contains__(self, turn_id: str) -> bool:
        return turn_id in self._turns

    def put(self, turn: Turn) -> None:
        """Add a message below its parent, or replace the message with the same id."""
        if turn.id not in self._turns:
            self._children.setdefault(turn.parent, []).append(turn.id)
        self._turns[turn.id] = turn

    def get(self, turn_id: str) -> Turn:
        """Return the message with this id. Raise BadRequest if there is none."""
        turn = self._turns.get(turn_id)
        if turn is None:
            raise BadRequest(f"`message` is `{turn_id[:60]}`, but this session has no such message", "message")
        return turn

    def path(self, head: str | None) -> list[Turn]:
        """Return the messages of a branch, from the first message to the message with the id `head`."""
        found: list[Turn] = []
        seen: set[str] = set()
        while head is not None and head in self._turns and head not in seen:
            seen.add(head)
            turn = self._turns[head]
            found.append(turn)
            head = turn.parent
        return found[::-1]

    def siblings(self, turn: Turn) -> list[str]:
        """Return the ids of a message and its alternatives, oldest first."""
        return self._children.get(turn.parent, [])

    def newest(self, turn_id: str | None) -> str | None:
        """Follow the newest children, starting at the message `turn_id` (None: the root), until there are no more.

        Return the id of the last message.
        """
        seen: set[str] = set()
        while (children := self._children.get(turn_id)) and children[-1] not in seen:
            turn_id = children[-1]
            seen.add(turn_id)
        return turn_id
