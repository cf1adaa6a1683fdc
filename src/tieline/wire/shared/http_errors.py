"""Interpret an upstream's HTTP error independently of the protocol: its kind, retry delay and a readable excerpt."""

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from html import unescape

from tieline.model.events import ErrorKind

EXCERPT = 300
LONGEST = 1e6

_BY_STATUS: dict[int, ErrorKind] = {
    401: "unauthorized",
    402: "billing",
    403: "forbidden",
    404: "not_found",
    408: "timeout",
    413: "too_large",
    429: "rate_limited",
    499: "cancelled",
    503: "overloaded",
    504: "timeout",
    529: "overloaded",
}
_TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)
_UNREAD = re.compile(r"<(script|style)\b.*?</\1>|<[^>]*>", re.IGNORECASE | re.DOTALL)


def kind_of(status: int) -> ErrorKind:
    """Return the error kind for an HTTP status. It is used if the body of the error is not more specific."""
    known = _BY_STATUS.get(status)
    if known is not None:
        return known
    return "bad_request" if 400 <= status < 500 else "upstream"


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the number of seconds to wait before a retry, or None if the headers do not say.

    Header names must be in lower case. A date in `retry-after` is compared with the upstream's own `date` header.
    """
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers[name]) / unit
        except (KeyError, ValueError):
            continue
        if 0 <= seconds < LONGEST:
            return seconds
    return _until(headers.get("retry-after"), headers.get("date"))


def _until(then: str | None, now: str | None) -> float | None:
    if not then or not now:
        return None
    try:
        seconds = (parsedate_to_datetime(then) - parsedate_to_datetime(now)).total_seconds()
    except (ValueError, TypeError):
        return None
    return seconds if 0 <= seconds < LONGEST else None


def excerpt(text: str) -> str:
    """Return the beginning of an error body as one line of text. HTML is reduced to its title or its text."""
    if "<" in text:
        title = _TITLE.search(text)
        text = unescape(title[1] if title and title[1].strip() else _UNREAD.sub(" ", text))
    words = " ".join(text.split())
    return words if len(words) <= EXCERPT else f"{words[:EXCERPT].rstrip()}…"
