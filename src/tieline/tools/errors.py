"""The exception that all tools raise."""


class ToolFailed(Exception):
    """A tool call failed. The message is sent to the model as the tool result, so it should say how to proceed."""
