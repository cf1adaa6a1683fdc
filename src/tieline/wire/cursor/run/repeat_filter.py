"""Filter out text that a new attempt repeats after the one before it broke off."""


class RepeatFilter:
    """Drops text as long as it repeats `earlier`, and passes on what goes beyond it.

    Leading blank space is ignored on both sides.
    """

    def __init__(self, earlier: str) -> None:
        self._earlier = earlier.lstrip()
        self._received = ""
        self.is_over = not self._earlier
        """Whether all further text is new."""
        self.has_diverged = False
        """Whether the text differs from the earlier one; it is then passed on as a whole."""

    def feed(self, text: str) -> str:
        """Return the new part of this text."""
        if self.is_over:
            return text
        self._received = (self._received + text).lstrip()
        if self._earlier.startswith(self._received):
            return ""
        self.is_over = True
        if self._received.startswith(self._earlier):
            return self._received[len(self._earlier) :]
        self.has_diverged = True
        return self._received
