"""The one exception of the tools: something cannot be done, in words a model can act on."""


class ToolFailed(Exception):
    """A tool could not do what was asked; the text is the result the model gets."""
