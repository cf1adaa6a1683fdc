"""Text for the agent that is sent as its next prompt, in the same turn.

Feedback on a rejected plan, the reason for a denial, or a message in place of an answer: the protocol can transport
them only as a prompt. The same text is not sent twice in a row, and the number of prompts is limited: without a person,
a plan may be rejected for the same reason again and again.
"""

from collections import deque

MAX_FOLLOWUPS = 8


class Followups:
    """The texts that wait for the end of the current prompt."""

    def __init__(self) -> None:
        self._waiting: deque[str] = deque()
        self._unconfirmed: list[str] = []
        """Feedback that was part of an answer. It is repeated only if the agent does not react to it."""
        self._last = ""
        self._count = 0

    def add(self, text: str) -> None:
        """Add text of the user."""
        if text.strip():
            self._waiting.append(text)

    def feedback(self, text: str, is_sent: bool) -> None:
        """Add text that came with a denial. `is_sent` says whether the agent received it with the answer."""
        if not text.strip():
            return
        if is_sent:
            self._unconfirmed.append(text)
        else:
            self._waiting.append(text)

    def confirm(self) -> None:
        """Drop feedback that the agent has received, since it has reacted."""
        self._unconfirmed.clear()

    def next(self) -> str:
        """Return the next text to send, or an empty one."""
        self._waiting.extend(self._unconfirmed)
        self._unconfirmed.clear()
        while self._waiting and self._count < MAX_FOLLOWUPS:
            text = self._waiting.popleft()
            if text != self._last:
                self._last = text
                self._count += 1
                return text
        return ""
