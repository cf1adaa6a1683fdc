"""Text that an attempt says again because the one before it broke off, told apart from what is new."""


class RepeatFilter:
    """Feed it text; it keeps back what was said before, word for word, and gives what goes beyond it.

    Blank space in front counts neither way.
    """

    def __init__(self, said: str) -> None:
        self._said = said.lstrip()
        self._heard = ""
        self.is_over = not self._said
        """Whether all that comes from now on is new."""
        self.has_strayed = False
        """Whether something else was said than before: then it is given whole."""

    def feed(self, text: str) -> str:
        """What of this text is new."""
        if self.is_over:
            return text
        self._heard = (self._heard + text).lstrip()
        if self._said.startswith(self._heard):
            return ""
        self.is_over = True
        if self._heard.startswith(self._said):
            return self._heard[len(self._said) :]
        self.has_strayed = True
        return self._heard
