"""The exception that all tools raise."""


class ToolFailed(Exception):
    """A tool call failed. The message becomes the tool result, so it tells the model what to do."""
