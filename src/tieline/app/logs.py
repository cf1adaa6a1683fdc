"""The log: one line per event, whatever clients and upstreams have put into it."""

import logging
import sys
from types import TracebackType

from tieline.tools.invisible_text import visible

LONGEST = 16 * 1024
"""Characters of one event."""

_ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class OneLine(logging.Formatter):
    """Spells out line ends and control characters; a traceback follows in lines that are indented."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging calls it so
        """The event without its traceback."""
        message = record.message
        if len(message) > LONGEST:
            message = f"{message[:LONGEST]}… ({len(message) - LONGEST} characters more)"
        record.message = one_line(message)
        return super().formatMessage(record)

    def formatException(self, ei: _ExcInfo) -> str:  # noqa: N802 - logging calls it so
        """A traceback that no line of can be taken for another event."""
        text = super().formatException(ei)[-LONGEST:]
        return "\n".join(f"  {visible(line)}" for line in text.splitlines())


def one_line(text: str) -> str:
    """The text with line ends, tabs and everything that does not show spelled out."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def configure(level: str, layout: str = "%(message)s") -> None:
    """Send the log to the standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLine(layout))
    logging.basicConfig(level=level, handlers=[handler])
