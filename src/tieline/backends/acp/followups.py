"""Words for the agent that have to wait for the end of its prompt: it is told them next, in the same turn.

Feedback to a plan that is rejected, the reason of a no, a wish instead of an answer: the protocol has no place for them
but a prompt.
What is said twice in a row is not said a third time, and there is a bound on all of it: where nobody is there, a plan
may be rejected for that reason again and again.
"""

from collections import deque

MOST = 8


class Followups:
    """What is still to be said."""

    def __init__(self) -> None:
        self._waiting: deque[str] = deque()
        self._unsure: list[str] = []
        """Feedback the agent was told with its answer: said again only if it says nothing to it."""
        self._last = ""
        self._count = 0

    def add(self, words: str) -> None:
        """Something the user said."""
        if words.strip():
            self._waiting.append(words)

    def feedback(self, words: str, is_told: bool) -> None:
        """Something a person said along with a no."""
        if not words.strip():
            return
        if is_told:
            self._unsure.append(words)
        else:
            self._waiting.append(words)

    def spoken(self) -> None:
        """The agent says something: what it was told with an answer has reached it."""
        self._unsure.clear()

    def next(self) -> str:
        """What to say next; nothing if there is nothing."""
        self._waiting.extend(self._unsure)
        self._unsure.clear()
        while self._waiting and self._count < MOST:
            words = self._waiting.popleft()
            if words != self._last:
                self._last = words
                self._count += 1
                return words
        return ""
