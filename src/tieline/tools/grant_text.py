"""Descriptions of grants, the rules that a person creates by choosing "Always allow"."""

import re

from tieline.model.rules import Rule

_ACTIONS = {
    "read_file": ("reading", "reading any file in"),
    "list_directory": ("listing", "listing any folder in"),
    "search_files": ("finding files in", "finding files anywhere in"),
    "search_content": ("searching", "searching any file in"),
    "write_file": ("writing", "writing any file in"),
    "edit_file": ("editing", "editing any file in"),
}
"""For each tool, two phrases: one for its use on a single path, one for its use on everything in a folder."""
_THIS_FOLDER = "this folder"
_ESCAPED = re.compile(r"\\(.)")


def grant_label(rule: Rule) -> str:
    """Return the label of the option that creates this rule, such as "Always allow editing any file in src"."""
    return f"Always allow {_action(rule)}"


def grant_summary(rule: Rule) -> str:
    """Return a description of the rule for a list of grants, such as "Editing any file in src"."""
    action = _action(rule)
    return action[0].upper() + action[1:]


def _action(rule: Rule) -> str:
    if rule.command is not None:
        return _running(rule.command, rule)
    if rule.path is None:
        return f"using {rule.tool}"
    on_one, on_all = _ACTIONS.get(rule.tool, (f"using {rule.tool} on", f"using {rule.tool} on any file in"))
    if rule.path == "**":
        return f"{on_all} {_THIS_FOLDER}"
    return f"{on_all if rule.path.endswith('/') else on_one} {_place(rule.path)}"


def _running(command: str, rule: Rule) -> str:
    """Describe a rule that allows this command: exactly as it is, or with any read-only arguments."""
    run = f"running “{command}”" if rule.path is None else f"running “{command}” in {_place(rule.path)}"
    return run if rule.exact else f"{run} with any read-only arguments"


def _place(pattern: str) -> str:
    """Return a path pattern without escapes, as text for a person."""
    path = _ESCAPED.sub(r"\1", pattern).strip("/")
    return _THIS_FOLDER if path in ("", ".") else path
