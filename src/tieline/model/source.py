"""The wire text that requests and answers were parsed from, kept with the parsed values.

Much traffic uses the same protocol on both sides. Then the other side should get exactly what was sent, including
fields that the model does not have. So a request and a batch of events may have a *source*. Only a codec of the same
protocol reads it, and uses it only as far as the parsed values are unchanged. All other code works on these values.
"""

from msgspec import Struct


class AnswerSource(Struct, frozen=True):
    """The text that a batch of events was parsed from: complete frames of a stream, or the body of a whole answer."""

    protocol: str
    text: bytes
    is_stream: bool
    is_exact: bool = True
    """Whether the text means exactly the same as the events. If not, only its unknown fields are used."""
    model: bytes = b""
    """The JSON member with the model's name, as it occurs in the text; empty if there is none."""
