"""What "always" would mean, in a sentence for the person who is asked."""

import re

from tieline.model.rules import Rule

_DEEDS = {
    "read_file": "reading",
    "list_directory": "listing",
    "search_files": "finding files in",
    "search_content": "searching in",
    "write_file": "writing",
    "edit_file": "editing",
    "run_terminal": "running",
}
_ESCAPED = re.compile(r"\\(.)")


def grant_words(rule: Rule) -> str:
    """Return a label for an answer that grants this rule, such as "Always allow editing any file in this folder"."""
    deed = _DEEDS.get(rule.tool, f"using {rule.tool} on" if rule.path else f"using {rule.tool}")
    if rule.command is not None:
        run = f"exactly {rule.command}" if rule.exact else f"any command that begins with {rule.command}"
        place = _place(rule.path)
        return f"Always allow {deed} {run}" + (f" in {place}" if place else "")
    if rule.path is None:
        return f"Always allow {deed}"
    if rule.path == "**":
        return f"Always allow {deed} any file in this folder"
    if rule.path.endswith("/"):
        return f"Always allow {deed} any file in {_place(rule.path)}"
    return f"Always allow {deed} {_place(rule.path)}"


def _place(pattern: str | None) -> str:
    """A path as a person writes it; nothing for the root of the workspace."""
    path = _ESCAPED.sub(r"\1", pattern or "").removeprefix("/")
    return "" if path in ("", ".", "./") else path
