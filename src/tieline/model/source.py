"""The wire text that requests and answers were parsed from, carried beside its meaning.

About half of all traffic uses the same protocol on both sides. There the other side should get exactly what was sent,
including fields that the model has no name for. So a request and a batch of events may carry their *source*. Only a
codec of the same protocol may look inside, and it uses the source only as far as its meaning is unchanged. Everything
else works on the parsed meaning.
"""

from msgspec import Struct


class AnswerSource(Struct, frozen=True):
    """The text that a batch of events was read from: whole frames of a stream, or the body of a whole answer."""

    protocol: str
    text: bytes
    is_stream: bool
    is_exact: bool = True
    """Whether the text means exactly what the events say. If not, only its unknown fields are of use."""
    model: bytes = b""
    """The member that names the model, as it occurs in the text; empty if there is none."""
