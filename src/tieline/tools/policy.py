"""The permission policy: rules decide whether a call is allowed, denied, or needs a person's permission.

A rule consists of a tool, a path, a command and a decision. The first matching rule decides; the user's rules come
before the defaults. If the deciding rule requires a person's permission, a grant (a rule that a person created with
"Always allow") can provide it. So a grant can never allow a call that a rule denies.

A grant covers calls of one tool: all of them, or those for a file, a folder or the whole workspace. A grant for
commands covers one command in one folder, either with exactly the same text or with any read-only arguments (see
`read_only`). No grant covers changes to a protected file (see `protected`); a rule allows such changes only if it names
the file or its folder.

Paths are judged after their links are resolved. Commands are judged conservatively: a rule that allows a prefix matches
only if a shell would run exactly one program; a rule that denies or asks matches if its words occur anywhere. Such a
rule guards against mistakes, not against malice: a command can be written to avoid it. The reliable way to prevent a
command is to have no rule that allows it.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from tieline.model.content import ToolCall, Value
from tieline.model.rules import Decision, Rule
from tieline.model.workspaces import Autonomy
from tieline.tools.arguments import decode_arguments
from tieline.tools.command_line import loose_words, simple_command
from tieline.tools.errors import ToolFailed
from tieline.tools.globs import Glob, escaped, is_exact
from tieline.tools.protected import controlled_program
from tieline.tools.read_only import is_read_only, read_only_prefix

log = logging.getLogger("tieline.tools")

_PATHS = {
    "read_file": "path",
    "write_file": "path",
    "edit_file": "path",
    "list_directory": "path",
    "search_files": "path",
    "search_content": "path",
    "run_terminal": "cwd",
}
_COMMANDS = {"run_terminal": "command"}
PATH_READERS = frozenset(("read_file", "list_directory", "search_files", "search_content"))
"""The tools that only read a path."""


class Verdict(Value):
    """A decision, and its reason as text for a person or a model. `rule` is the rule that was applied, if any."""

    decision: Decision
    reason: str
    rule: Rule | None = None


class Subject(Value):
    """The properties of a call that rules judge. `path` is relative to the root, with links resolved."""

    tool: str
    path: str | None = None
    command: str | None = None


DEFAULTS: tuple[Rule, ...] = (
    *(Rule(decision="allow", tool=name) for name in sorted(PATH_READERS)),
    # Allowed because the todo tools change no file, and the planning tools ask the user themselves.
    *(Rule(decision="allow", tool=name) for name in ("todo_read", "todo_write")),
    *(Rule(decision="allow", tool=name) for name in ("create_plan", "ask_question", "switch_mode")),
    Rule(decision="ask"),
)


EDITS = tuple(Rule(decision="allow", tool=name) for name in ("edit_file", "write_file"))
"""The calls that the autonomy `edits` also allows. Unlike other rules, these override no rule of the user."""


class Grants:
    """The rules granted with "Always allow", kept in memory. A subclass can share them with other gateways."""

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self._rules = check_rules(rules)

    def rules(self) -> tuple[Rule, ...]:
        """Return the granted rules."""
        return self._rules

    def add(self, rule: Rule) -> None:
        """Add a grant. If it cannot be saved, keep it only until the gateway stops, and raise OSError."""
        if rule not in self._rules:
            self._rules = (*self._rules, rule)

    def remove(self, rule_id: str) -> bool:
        """Revoke a grant and return whether it existed. Raise OSError if the change cannot be saved."""
        kept = tuple(rule for rule in self._rules if rule.id != rule_id)
        is_found = len(kept) < len(self._rules)
        self._rules = kept
        return is_found


class Policy:
    """The rules of one workspace. `locate` resolves a path, and raises ToolFailed if it is outside the workspace.

    The methods access the disk: call them in a thread.
    """

    def __init__(
        self,
        locate: Callable[[str], str],
        *,
        rules: Sequence[Rule] = (),
        remembered: Sequence[Rule] | Grants = (),
        autonomy: Autonomy = "ask",
    ) -> None:
        self.locate = locate
        self._rules = (*check_rules(rules), *DEFAULTS)
        self.autonomy = autonomy
        """What is allowed without asking. It may be changed at any time."""
        self._closed = ""
        self._grants = remembered if isinstance(remembered, Grants) else Grants(remembered)

    @property
    def remembered(self) -> tuple[Rule, ...]:
        """The rules granted with "Always allow"."""
        return self._grants.rules()

    def decide(self, call: ToolCall) -> Verdict:
        """Return the verdict on a call. Deny a call with invalid arguments or a path outside the workspace."""
        try:
            return self.judge(self.subject(call))
        except ToolFailed as error:
            return Verdict(decision="deny", reason=str(error))

    def judge(self, subject: Subject) -> Verdict:
        """Return the verdict on a subject. Its tool need not be one of the gateway's own tools."""
        if self._closed:
            return Verdict(decision="deny", reason=self._closed)
        if self.autonomy == "all":
            return Verdict(decision="allow", reason="everything is allowed (--yolo)")
        is_protected = _changes_protected(subject)
        rule = next(
            rule
            for rule in self._rules
            if rule_matches(rule, subject)
            and not (is_protected and rule.decision == "allow" and not _names_protected(rule))
        )
        if rule.decision != "ask":
            return Verdict(decision=rule.decision, reason=_reason(rule), rule=rule)
        granted = next((one for one in self.remembered if _covers(one, subject)), None)
        if granted is not None:
            return Verdict(decision="allow", reason=f"remembered: {granted}", rule=granted)
        if self.autonomy == "edits" and rule in DEFAULTS and not is_protected and subject.path is not None:
            edits = next((one for one in EDITS if one.tool == subject.tool), None)
            if edits is not None:
                return Verdict(decision="allow", reason="edits are allowed (autonomy `edits`)", rule=edits)
        return Verdict(decision="ask", reason="it is protected" if is_protected else _reason(rule), rule=rule)

    def subject(self, call: ToolCall) -> Subject:
        """Return the subject of a call. Raise ToolFailed for invalid arguments or a path outside the workspace."""
        path, command = _PATHS.get(call.name), _COMMANDS.get(call.name)
        if path is None and command is None:
            return Subject(tool=call.name)
        given = decode_arguments(call)
        return Subject(
            tool=call.name,
            path=None if path is None else self.locate(_string_argument(given, path, call) or "."),
            command=None if command is None else _string_argument(given, command, call),
        )

    def hides(self, path: str) -> bool:
        """Return whether a search must not show this file, because a rule denies it or requires permission for it."""
        if self.autonomy == "all":
            return False
        about_paths = (rule for rule in self._rules if rule.path is not None)
        subjects = [Subject(tool=tool, path=path) for tool in ("read_file", "search_content")]
        rules = [rule for rule in about_paths if any(rule_matches(rule, subject) for subject in subjects)]
        return bool(rules) and rules[0].decision != "allow"

    @property
    def restricts_paths(self) -> bool:
        """Whether any rule restricts access to paths: it denies access, or requires a person's permission."""
        return any(rule.path is not None and rule.decision != "allow" for rule in self._rules)

    def suggest(self, subject: Subject) -> tuple[Rule, ...]:
        """Return the grants to offer for this subject, the narrowest first. There are none if no grant can cover it."""
        if subject.command is not None:
            return tuple(rule for rule in _for_command(subject) if _covers(rule, subject))
        if _changes_protected(subject):
            return ()
        if subject.path is None:
            return (Rule(decision="allow", tool=subject.tool),)
        folder = subject.path.rpartition("/")[0]
        patterns = [escaped(subject.path), f"{escaped(folder)}/" if folder else None, "**"]
        return tuple(Rule(decision="allow", tool=subject.tool, path=pattern) for pattern in patterns if pattern)

    def close(self, reason: str) -> None:
        """Deny every call from now on, for this reason."""
        self._closed = reason

    def remember(self, rule: Rule) -> None:
        """Add a grant. Raise ValueError if it is not a valid `allow` rule, or OSError if it cannot be saved."""
        if rule.decision != "allow":
            raise ValueError("only a rule that allows can be granted")
        check_rules((rule,))
        self._grants.add(rule)

    def revoke(self, rule_id: str) -> bool:
        """Revoke a grant and return whether it existed. Raise OSError if the change cannot be saved."""
        return self._grants.remove(rule_id)


def retirement_reason(rule: Rule) -> str:
    """Return the reason why a saved grant no longer applies, or an empty string if it still applies."""
    words = simple_command(rule.command) if rule.command is not None else None
    if rule.command is not None and not rule.exact:
        if read_only_prefix(words or ()) is None:
            return "its program can run or write anything with the right options"
        return "" if _is_bound(rule) else "it is not bound to a folder"
    folder = rule.path.removeprefix("/") if rule.path is not None and is_exact(rule.path) else ""
    if rule.command is not None:
        return "" if _is_bound(rule) and _may_repeat(rule.command, folder) else "it concerns a protected file"
    return "the file is protected" if rule.tool not in PATH_READERS and controlled_program(folder) is not None else ""


def warn_of_retired(grants: Iterable[Rule]) -> None:
    """Log the saved grants that no longer apply, because the user will be asked again."""
    for rule in grants:
        if reason := retirement_reason(rule):
            log.warning(
                "a saved permission is no longer honoured, so you will be asked again: %s (%s). "
                "`tieline inbox rules` lists it.",
                rule,
                reason,
            )


def rule_matches(rule: Rule, subject: Subject) -> bool:
    """Return whether a rule matches this subject."""
    if not fnmatchcase(subject.tool, rule.tool):
        return False
    if rule.path is not None and not _path_matches(rule, subject.path):
        return False
    return rule.command is None or (subject.command is not None and _command_matches(rule, subject.command))


def check_rules(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Return the rules if all are valid. Otherwise raise ValueError with the first problem."""
    checked = tuple(rules)
    for number, rule in enumerate(checked, 1):
        if rule.path is not None:
            try:
                Glob.of(rule.path)
            except ValueError as error:
                raise ValueError(f"rule {number} ({rule}): {error}") from None
        if rule.command is not None and not rule.exact and simple_command(rule.command) is None:
            raise ValueError(
                f"rule {number} ({rule}): a prefix must be the plain words of one command; otherwise set `exact`"
            )
    return checked


def dump_rules(rules: Sequence[Rule]) -> str:
    """Return rules as JSON text, one per line."""
    lines = ",\n  ".join(msgspec.json.encode(rule).decode() for rule in rules)
    return f"[\n  {lines}\n]\n" if rules else "[]\n"


def load_rules(text: str) -> tuple[Rule, ...]:
    """Parse rules from JSON text. Raise ValueError if the text or any rule is invalid."""
    try:
        rules = msgspec.json.decode(text, type=tuple[Rule, ...])
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise ValueError(f"the rules cannot be read: {error}") from None
    return check_rules(rules)


def _string_argument(given: dict[str, Any], name: str, call: ToolCall) -> str:
    found = given.get(name)
    if found is not None and not isinstance(found, str):
        raise ToolFailed(f"`{name}` of {call.name} must be a string")
    return found or ""


def _reason(rule: Rule) -> str:
    if rule in DEFAULTS:
        return "it is allowed by default" if rule.decision == "allow" else "no rule allows it"
    return f"rule: {rule}"


def _changes_protected(subject: Subject) -> bool:
    """Return whether the subject would change a protected file."""
    is_change = subject.command is None and subject.tool not in PATH_READERS
    return is_change and subject.path is not None and controlled_program(subject.path) is not None


def _names_protected(rule: Rule) -> bool:
    """Return whether a rule names protected files. For example, `.vscode/` does and `**` does not."""
    return rule.path is not None and controlled_program(rule.path.strip("/").replace("\\", "")) is not None


def _covers(rule: Rule, subject: Subject) -> bool:
    """Return whether a grant covers this subject."""
    if not rule_matches(rule, subject):
        return False
    if subject.command is None:
        return not _changes_protected(subject)
    if rule.command is None or not _is_bound(rule):
        return False
    if rule.exact:
        return _may_repeat(subject.command, subject.path or ".")
    words = simple_command(subject.command)
    return words is not None and is_read_only(words)


def _is_bound(rule: Rule) -> bool:
    """Return whether a grant for a command is limited to one folder. Elsewhere, the command could run other code."""
    return rule.path is not None and is_exact(rule.path)


def _may_repeat(command: str, folder: str) -> bool:
    """Return whether a grant may cover this command in this folder.

    Either the command must be read-only, or the folder and all files that the command names must be unprotected.
    """
    words = simple_command(command)
    if words is not None and is_read_only(words):
        return True
    named = (word.removeprefix("./") for word in loose_words(command))
    return controlled_program(folder) is None and not any(controlled_program(word) for word in named)


def _path_matches(rule: Rule, path: str | None) -> bool:
    if path is None or rule.path is None:
        return False
    if rule.decision == "allow":
        return Glob.of(rule.path).matches(path)
    # Some file systems ignore case, and a rule that denies or asks must hold there too.
    return Glob.of(rule.path.casefold()).matches(path.casefold())


def _command_matches(rule: Rule, command: str) -> bool:
    wanted = rule.command or ""
    if rule.exact:
        return command.strip() == wanted.strip()
    if rule.decision == "allow":
        words, prefix = simple_command(command), simple_command(wanted)
        return bool(words and prefix) and (words or [])[: len(prefix or [])] == prefix
    return _occurs(loose_words(wanted), loose_words(command))


def _occurs(wanted: Sequence[str], words: Sequence[str]) -> bool:
    """Return whether `words` contains the wanted words in sequence.

    If the first wanted word is a program without a folder, the program's folder in `words` (`/bin/`) is ignored.
    """
    size = len(wanted)
    if not size:
        return False
    for at in range(len(words) - size + 1):
        first, *others = words[at : at + size]
        if [first.rpartition("/")[2] if "/" not in wanted[0] else first, *others] == list(wanted):
            return True
    return False


def _for_command(subject: Subject) -> tuple[Rule, ...]:
    """Return a grant for exactly this command in its folder. If it is read-only, also return one for any arguments."""
    command = subject.command or ""
    folder = escaped(subject.path or ".")
    exactly = Rule(decision="allow", tool=subject.tool, path=folder, command=command, exact=True)
    words = simple_command(command) or ()
    prefix = read_only_prefix(words)
    if prefix is None or not is_read_only(words):
        return (exactly,)
    return (exactly, Rule(decision="allow", tool=subject.tool, path=folder, command=" ".join(prefix)))
