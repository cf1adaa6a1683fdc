"""Log formatting: one line per record, even if a client or upstream put line breaks into the message."""

import logging
import sys
from collections import deque
from collections.abc import Collection
from types import TracebackType

from tieline.tools.invisible_text import visible

LONGEST = 16 * 1024
"""Maximum number of characters in a message or a traceback. Longer ones are truncated."""

_ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class OneLineFormatter(logging.Formatter):
    """Escapes line breaks and control characters in messages, and indents tracebacks."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - name defined by logging
        """Format the record without its traceback."""
        message = record.message
        if len(message) > LONGEST:
            message = f"{message[:LONGEST]}… ({len(message) - LONGEST} more characters)"
        record.message = one_line(message)
        return super().formatMessage(record)

    def formatException(self, ei: _ExcInfo) -> str:  # noqa: N802 - name defined by logging
        """Format a traceback so that none of its lines looks like another record."""
        text = super().formatException(ei)[-LONGEST:]
        return "\n".join(f"  {visible(line)}" for line in text.splitlines())


def one_line(text: str) -> str:
    """Escape line breaks, tabs and invisible characters."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def collect(level: str, most: int = 20) -> Collection[str]:
    """Keep the last `most` log records of `level` and above, as a live collection of lines, instead of writing them."""
    handler = _Collector(most)
    handler.setFormatter(OneLineFormatter("%(message)s"))
    logging.basicConfig(level=level, handlers=[handler])
    return handler.lines


class _Collector(logging.Handler):
    def __init__(self, most: int) -> None:
        super().__init__()
        self.lines: deque[str] = deque(maxlen=most)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


def configure(level: str, layout: str = "%(message)s") -> None:
    """Write log records of `level` and above to standard error. `layout` is the format string of a record."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLineFormatter(layout))
    logging.basicConfig(level=level, handlers=[handler])
