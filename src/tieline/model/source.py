"""The wire text of an answer, kept together with the values that were parsed from it.

If client and upstream use the same protocol, each side should receive the other's text unchanged, including fields
that `tieline.model` does not represent. Therefore a request or a batch of events may have a *source*: the text
it was parsed from. Only a codec of the same protocol uses a source, and only where the parsed values are unchanged. All
other code works with the parsed values.
"""

from msgspec import Struct


class AnswerSource(Struct, frozen=True):
    """The text that a batch of events was parsed from: complete frames of a stream, or the body of a whole answer."""

    protocol: str
    text: bytes
    is_stream: bool
    is_exact: bool = True
    """Whether `text` and the events have the same meaning. If not, only fields that the gateway does not recognise are
    taken from `text`."""
    model: bytes = b""
    """The JSON member that holds the model's name, exactly as it appears in `text`; empty if there is none."""
