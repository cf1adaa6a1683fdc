"""Classify the result of a call by the text that the client's tool returned.

Many clients set no error flag: only a phrase in the text says that a file is missing or that the user refused the call.
Such a phrase counts as an error only if the text is short and begins with it. A file is classified as missing only if
the text clearly says so, because the service may then create the file.
"""

import re
from base64 import b64decode
from collections.abc import Mapping
from typing import Literal, NamedTuple

import msgspec

from tieline.model.content import File, Image, Text, ToolResult
from tieline.wire.cursor.opening.user_message import as_text

Kind = Literal[
    "ok",
    "rejected",
    "missing",
    "directory",
    "no_directory",
    "denied",
    "binary",
    "no_space",
    "busy",
    "unchanged",
    "error",
]

_LONG = 2000
"""The maximum length of an error message. Longer text counts as an error only if the client flags it as one."""
_SHORT = 300

_FRAME = re.compile(r"\s*<(tool_use_error|error)>(?P<inner>.*)</\1>\s*", re.DOTALL)
_REJECTED = re.compile(
    r"(?:error: ?)?(?:"
    r"the user doesn.t want to (?:proceed|take this action)|the user denied this operation"
    r"|the user rejected permission to use|the user has (?:specified a rule which prevents|declined to run this)"
    r"|\[(?:operation cancel+ed|request interrupted by user)"
    r"|(?:exec|shell|patch|tool)\b[\w ]{0,40} (?:rejected|denied|declined|cancel+ed) by (?:the )?(?:user|policy)"
    r"|permission to use .{1,300} (?:has been|was) (?:denied|rejected)"
    r"|\w+ requested permissions? to .{1,300} but you haven.t granted"
    r"|permission (?:request )?(?:was )?(?:rejected|denied) by (?:the )?user"
    r"|tool (?:use|call|execution) (?:was )?(?:rejected|denied|declined|cancel+ed)\b"
    r")",
    re.IGNORECASE | re.DOTALL,
)
"""Matches phrases that clients use to report a refusal and that no command prints."""
_REFUSED = re.compile(
    r"(?:error: ?)?(?:the )?(?:user|command|operation|edit|write) (?:has |was )?"
    r"(?:rejected|denied|declined|refused|cancel+ed|did not allow|chose not to)\b",
    re.IGNORECASE,
)
_FAILED = re.compile(
    r"(?:"
    r"error(?: (?:reading|writing|listing|accessing|opening|creating|deleting|searching|fetching)[^\n:]{0,300})?: "
    r"|failed to \w|(?:could not|cannot|can't|unable to) (?:read|write|open|access|find|list|create|delete|fetch)\b"
    r"|(?:ENOENT|EACCES|EPERM|EISDIR|ENOTDIR|ENOSPC|EBUSY)\b"
    r"|(?:the )?(?:file|path|directory)\b[^\n]{0,300}?\b(?:not found|does(?: not|n't) exist|is a directory)"
    r"|no such file|permission denied|[^\n]{1,300}: (?:no such file or directory|permission denied|is a directory)\s*\Z"
    r"|request failed with status|[^\n]{0,80}\bregex parse error"
    r")",
    re.IGNORECASE,
)
_CAUSES: Mapping[Kind, str] = {
    "missing": (
        r"\bENOENT\b|no such file|FileNotFoundError"
        r"|(?<!tool )\b(?:file|path|directory)\b[^\n]{0,300}?\b(?:not found|does(?: not|n't) exist|cannot be found)"
        r"|(?:could not|couldn't|cannot|can't) find (?:the )?(?:file|path|directory)"
    ),
    "directory": r"\bEISDIR\b|is a directory|illegal operation on a directory",
    "no_directory": r"\bENOTDIR\b|not a directory",
    "denied": r"\b(?:EACCES|EPERM)\b|permission denied|operation not permitted|access (?:is )?denied",
    "no_space": r"\bENOSPC\b|no space left",
    "busy": r"\bEBUSY\b|resource busy|file is (?:in use|busy)",
    "binary": r"binary (?:file|content|data)|not a text file|appears to be binary|unsupported file type",
}
_UNCHANGED = re.compile(r'(?:\{"status": ?"unchanged"|File unchanged since last read\b)')


class ToolOutcome(NamedTuple):
    """The outcome of a call: its kind, and the text of the tool's result or error."""

    kind: Kind
    text: str


def judge(result: ToolResult) -> ToolOutcome:
    """Classify the result of a call to any tool other than a shell."""
    text = text_of(result)
    if is_rejected(text, is_error=result.is_error or len(text) <= _SHORT):
        return ToolOutcome("rejected", unframed(text))
    failure = _failure(text, is_error=result.is_error)
    if failure is None:
        return ToolOutcome("unchanged" if _UNCHANGED.match(text) else "ok", text)
    cause: Kind = next(
        (kind for kind, pattern in _CAUSES.items() if re.search(pattern, failure[:_LONG], re.IGNORECASE)),
        "error",
    )
    return ToolOutcome(cause, failure)


def is_rejected(text: str, *, is_error: bool) -> bool:
    """Return whether the text says that the user or one of the client's rules refused the call.

    `is_error` says whether the client flagged the result as an error, or it is likely to be one. If so, phrases that
    could also be ordinary output count as refusals, too.
    """
    words = unframed(text)
    return _REJECTED.match(words) is not None or (is_error and _REFUSED.match(words) is not None)


def unframed(text: str) -> str:
    """Return the text without the error tags around it, if there are any."""
    frame = _FRAME.fullmatch(text)
    return frame["inner"].strip() if frame else text.lstrip()


def text_of(result: ToolResult) -> str:
    """Return the texts of all parts of a result, joined by newlines."""
    return "\n".join(words for part in result.content if (words := part_text(part)) is not None)


def part_text(part: Text | Image | File) -> str | None:
    """Return a part as text; None for image data. Lone surrogates, which protobuf cannot encode, are replaced."""
    if isinstance(part, Image) and part.url is None:
        return None
    text = part.text if isinstance(part, Text) else as_text(part, [])
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def image_of(part: object) -> tuple[bytes, str] | None:
    """Return the bytes and the media type of an image; None if the part is not an image or has no valid data."""
    if not isinstance(part, Image) or part.data is None:
        return None
    try:
        return b64decode(part.data), part.media_type
    except ValueError:
        return None


class _Report(msgspec.Struct):
    """The JSON format in which some tools report success or failure."""

    error: str | None = None
    result: str | None = None
    message: str | None = None
    success: bool | None = None


def _failure(text: str, *, is_error: bool) -> str | None:
    """Return the error message in a result's text; None if the call succeeded."""
    inner = unframed(text)
    if is_error:
        return inner
    if len(text) > _LONG:
        return None
    if _FRAME.fullmatch(text):
        return inner
    reported = _reported(inner)
    if reported is not None:
        return reported
    return inner if _FAILED.match(inner) else None


def _reported(text: str) -> str | None:
    if not text.startswith(("{", "[")):
        return None
    try:
        reports = msgspec.json.decode(text, type=_Report | list[_Report])
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
    failed = [report for report in ([reports] if isinstance(reports, _Report) else reports) if _has_failed(report)]
    return "\n".join(report.error or report.message or report.result or "failed" for report in failed) or None


def _has_failed(report: _Report) -> bool:
    return report.success is False or (report.success is None and bool(report.error) and not report.result)
