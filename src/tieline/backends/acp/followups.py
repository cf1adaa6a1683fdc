"""Follow-ups: texts that are sent to the agent as further prompts in the same turn.

A follow-up is feedback on a rejected plan, the reason for a denial, or a message that the user wrote instead of
answering a question. In ACP, such texts can be sent only as prompts. The same text is not sent twice in a row, and the
number of follow-ups is limited: if no person is present, a plan may be rejected for the same reason again and again.
"""

from collections import deque

MAX_FOLLOWUPS = 8


class Followups:
    """The follow-ups of one turn. They wait until the agent has answered the current prompt."""

    def __init__(self) -> None:
        self._waiting: deque[str] = deque()
        self._unconfirmed: list[str] = []
        """Feedback that the agent received as part of an answer. It is sent again only if the agent ignores it."""
        self._last = ""
        self._count = 0

    def add(self, text: str) -> None:
        """Add a text from the user, unless it is blank."""
        if text.strip():
            self._waiting.append(text)

    def feedback(self, text: str, is_sent: bool) -> None:
        """Add the user's reason for denying a request or rejecting a plan.

        `is_sent` says whether the agent received it as part of the answer.
        """
        if not text.strip():
            return
        if is_sent:
            self._unconfirmed.append(text)
        else:
            self._waiting.append(text)

    def confirm(self) -> None:
        """Drop the feedback that the agent received as part of an answer, because the agent has reacted to it."""
        self._unconfirmed.clear()

    def next(self) -> str:
        """Return the next text to send, or an empty string if there is none or the limit has been reached."""
        self._waiting.extend(self._unconfirmed)
        self._unconfirmed.clear()
        while self._waiting and self._count < MAX_FOLLOWUPS:
            text = self._waiting.popleft()
            if text != self._last:
                self._last = text
                self._count += 1
                return text
        return ""
