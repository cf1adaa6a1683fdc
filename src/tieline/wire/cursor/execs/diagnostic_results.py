"""Parse file diagnostics from the JSON or the lines of text that a client's tool returns."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tieline.wire.cursor._pb import exec_kinds_pb2 as kinds
from tieline.wire.cursor._pb import shared_pb2 as shared
from tieline.wire.shared.json import decode_any

MAX_DIAGNOSTICS = 1000

_SEVERITIES: Mapping[str, shared.DiagnosticSeverity] = {
    "error": shared.DIAGNOSTIC_SEVERITY_ERROR,
    "1": shared.DIAGNOSTIC_SEVERITY_ERROR,
    "warning": shared.DIAGNOSTIC_SEVERITY_WARNING,
    "warn": shared.DIAGNOSTIC_SEVERITY_WARNING,
    "2": shared.DIAGNOSTIC_SEVERITY_WARNING,
    "information": shared.DIAGNOSTIC_SEVERITY_INFORMATION,
    "info": shared.DIAGNOSTIC_SEVERITY_INFORMATION,
    "3": shared.DIAGNOSTIC_SEVERITY_INFORMATION,
    "hint": shared.DIAGNOSTIC_SEVERITY_HINT,
    "4": shared.DIAGNOSTIC_SEVERITY_HINT,
}
_NONE = re.compile(
    r"\s*(?:\[\]|no\b[^\n]{0,60}\b(?:diagnostics|errors|problems|issues|lints?|warnings)\b.*)?\s*", re.IGNORECASE
)
_LINE = re.compile(
    r"\s*(?:[-*] )?(?:(?P<first>error|warning|warn|info|hint)\s+\[(?P<l1>\d{1,9}):(?P<c1>\d{1,9})\]\s*(?P<m1>.+)"
    r"|(?:[^\n:]{1,300}:)?(?:line )?(?P<l2>\d{1,9}):(?:(?P<c2>\d{1,9}):?)?\s*-?\s*"
    r"(?P<second>error|warning|warn|info|information|hint)\b:?\s*(?P<m2>.+))",
    re.IGNORECASE,
)


def diagnostics(text: str) -> list[kinds.Diagnostic]:
    """Return the diagnostics in a tool's output. Text that cannot be parsed becomes a single diagnostic."""
    if _NONE.fullmatch(text):
        return []
    found = list(_from_json(text))[:MAX_DIAGNOSTICS] or [
        _from_line(line) for match in text.split("\n")[:MAX_DIAGNOSTICS] if (line := _LINE.match(match))
    ]
    severity = shared.DIAGNOSTIC_SEVERITY_INFORMATION
    return found or ([] if _is_empty(text) else [kinds.Diagnostic(severity=severity, message=text)])


def _from_line(line: re.Match[str]) -> kinds.Diagnostic:
    at = _position({"line": int(line["l1"] or line["l2"]) - 1, "character": int(line["c1"] or line["c2"] or 1) - 1})
    return kinds.Diagnostic(
        severity=_SEVERITIES[(line["first"] or line["second"]).lower()],
        range=kinds.Range(start=at, end=at),
        message=line["m1"] or line["m2"],
    )


def _from_json(text: str) -> Iterator[kinds.Diagnostic]:
    """Yield the diagnostics in JSON, either as a plain list or grouped by file."""
    if not text.lstrip().startswith(("[", "{")):
        return
    try:
        value = decode_any(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return
    level = value if isinstance(value, list) else [value]
    for item in level:
        inner = item.get("diagnostics") if isinstance(item, dict) else None
        for one in inner if isinstance(inner, list) else [item]:
            if isinstance(one, dict) and isinstance(one.get("message"), str):
                yield _diagnostic(one)


def _is_empty(text: str) -> bool:
    """Return whether the text is JSON that lists files without any diagnostics."""
    return text.lstrip().startswith(("[", "{")) and '"message"' not in text and '"diagnostics"' in text


def _diagnostic(value: Mapping[str, Any]) -> kinds.Diagnostic:
    severity = _SEVERITIES.get(str(value.get("severity")).lower(), shared.DIAGNOSTIC_SEVERITY_UNSPECIFIED)
    diagnostic = kinds.Diagnostic(severity=severity, message=value["message"])
    place = value.get("range")
    if isinstance(place, dict):
        diagnostic.range.CopyFrom(kinds.Range(start=_position(place.get("start")), end=_position(place.get("end"))))
    if isinstance(value.get("source"), str):
        diagnostic.source = value["source"]
    if isinstance(value.get("code"), str | int):
        diagnostic.code = str(value["code"])
    return diagnostic


def _position(value: Any) -> kinds.Position:
    place: Mapping[str, Any] = value if isinstance(value, dict) else {}
    line, column = place.get("line"), place.get("character", place.get("column"))
    return kinds.Position(line=_index(line), column=_index(column))


def _index(value: object) -> int:
    return min(max(value, 0), 2**31 - 1) if isinstance(value, int) else 0
