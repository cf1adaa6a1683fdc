"""Rules decide what a call may do: it is allowed, it has to be asked for, or it is denied.

A rule is data: which tool, which path, which command, and what then. The first rule that fits decides, the rules of the
user before the defaults. Where the decision is to ask, what a person answered with "always" (a grant) stands in for the
answer; so it can never open what a rule denies.

A grant covers little: a path, or a command in one folder, either exactly this text or one that only looks (see
`read_only`). No grant covers a protected file (see `protected`), and neither does a rule that does not name it.

A path is judged by where it really leads, not by how it is spelled. A command is judged with suspicion: a rule that
allows a prefix fits only if a shell would run exactly one program, a rule that denies or asks fits if its words occur
anywhere. (That catches mistakes, not malice: who wants to be safe from a command must not allow it.)
"""

from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from tieline.model.content import ToolCall, Value
from tieline.model.rules import Decision, Rule
from tieline.tools.arguments import fields
from tieline.tools.command_line import loose_words, simple_command
from tieline.tools.errors import ToolFailed
from tieline.tools.globs import Glob, escaped, is_exact
from tieline.tools.protected import protection
from tieline.tools.read_only import only_looks, prefix_of

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
READING = frozenset(("read_file", "list_directory", "search_files", "search_content"))
"""The tools that only look at a path."""


class Verdict(Value):
    """What was decided, and why, in words for a person or a model. `rule` is the one that decided, if one did."""

    decision: Decision
    reason: str
    rule: Rule | None = None


class Subject(Value):
    """What is to be judged: a tool, where it acts (from the root, without links), and what it runs."""

    tool: str
    path: str | None = None
    command: str | None = None


DEFAULTS: tuple[Rule, ...] = (
    *(Rule(decision="allow", tool=name) for name in sorted(READING)),
    # These touch nothing, and those of planning put their case to a person by themselves.
    *(Rule(decision="allow", tool=name) for name in ("todo_read", "todo_write")),
    *(Rule(decision="allow", tool=name) for name in ("create_plan", "ask_question", "switch_mode")),
    Rule(decision="ask"),
)


class Grants:
    """What was answered with "always", kept in memory. A subclass may share it with other gateways."""

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self._rules = check(rules)

    def rules(self) -> tuple[Rule, ...]:
        """Return what is granted now."""
        return self._rules

    def add(self, rule: Rule) -> None:
        """Grant this too. Raises OSError if that holds only until the end of the program."""
        if rule not in self._rules:
            self._rules = (*self._rules, rule)

    def remove(self, rule_id: str) -> bool:
        """Revoke a grant; return whether there was one. Raises OSError if it would come back."""
        kept = tuple(rule for rule in self._rules if rule.id != rule_id)
        is_found = len(kept) < len(self._rules)
        self._rules = kept
        return is_found


class Policy:
    """The rules of one workspace. `locate` says where a path really leads, or raises ToolFailed if that is outside.

    Everything here may read files: call it in a thread.
    """

    def __init__(
        self,
        locate: Callable[[str], str],
        *,
        rules: Sequence[Rule] = (),
        remembered: Sequence[Rule] | Grants = (),
        yolo: bool = False,
    ) -> None:
        self.locate = locate
        self._rules = (*check(rules), *DEFAULTS)
        self._yolo = yolo
        self._grants = remembered if isinstance(remembered, Grants) else Grants(remembered)

    @property
    def remembered(self) -> tuple[Rule, ...]:
        """What was answered with "always"."""
        return self._grants.rules()

    def decide(self, call: ToolCall) -> Verdict:
        """What to do with a call. It looks at the disk, to see where paths lead, and never raises."""
        try:
            return self.judge(self.subject(call))
        except ToolFailed as error:
            return Verdict(decision="deny", reason=str(error))

    def judge(self, subject: Subject) -> Verdict:
        """What to do about something that is not a call of ours."""
        if self._yolo:
            return Verdict(decision="allow", reason="everything is allowed (--yolo)")
        guarded = _is_guarded(subject)
        rule = next(
            rule
            for rule in self._rules
            if fits(rule, subject) and not (guarded and rule.decision == "allow" and not _names_protected(rule))
        )
        if rule.decision != "ask":
            return Verdict(decision=rule.decision, reason=_reason(rule), rule=rule)
        granted = next((one for one in self.remembered if _covers(one, subject)), None)
        if granted is not None:
            return Verdict(decision="allow", reason=f"remembered: {granted}", rule=granted)
        return Verdict(decision="ask", reason="it is protected" if guarded else _reason(rule), rule=rule)

    def subject(self, call: ToolCall) -> Subject:
        """What a call is about; raises ToolFailed when it cannot be told or leads outside."""
        path, command = _PATHS.get(call.name), _COMMANDS.get(call.name)
        if path is None and command is None:
            return Subject(tool=call.name)
        given = fields(call)
        return Subject(
            tool=call.name,
            path=None if path is None else self.locate(_text(given, path, call) or "."),
            command=None if command is None else _text(given, command, call),
        )

    def hides(self, path: str) -> bool:
        """Whether a search must not show what is in this file: a rule about such paths does not simply allow it."""
        if self._yolo:
            return False
        about_paths = (rule for rule in self._rules if rule.path is not None)
        subjects = [Subject(tool=tool, path=path) for tool in ("read_file", "search_content")]
        rules = [rule for rule in about_paths if any(fits(rule, subject) for subject in subjects)]
        return bool(rules) and rules[0].decision != "allow"

    @property
    def holds_back(self) -> bool:
        """Whether some paths are not simply allowed: who looks at a whole folder may come upon them."""
        return any(rule.path is not None and rule.decision != "allow" for rule in self._rules)

    def suggest(self, subject: Subject) -> tuple[Rule, ...]:
        """Return what "always" could mean for this, the narrowest first; nothing if no grant would cover it."""
        if subject.command is not None:
            return tuple(rule for rule in _for_command(subject) if _covers(rule, subject))
        if _is_guarded(subject):
            return ()
        if subject.path is None:
            return (Rule(decision="allow", tool=subject.tool),)
        folder = subject.path.rpartition("/")[0]
        patterns = [escaped(subject.path), f"{escaped(folder)}/" if folder else None, "**"]
        return tuple(Rule(decision="allow", tool=subject.tool, path=pattern) for pattern in patterns if pattern)

    def remember(self, rule: Rule) -> None:
        """Grant a rule; raises ValueError for one that cannot be understood or does not allow, OSError as `Grants`."""
        if rule.decision != "allow":
            raise ValueError("only a rule that allows can be remembered")
        check((rule,))
        self._grants.add(rule)

    def revoke(self, rule_id: str) -> bool:
        """Revoke a grant; return whether there was one. Raises OSError as `Grants`."""
        return self._grants.remove(rule_id)


def retired(rule: Rule) -> str:
    """Return why a grant that was given earlier covers nothing any more; empty if it still does."""
    words = simple_command(rule.command) if rule.command is not None else None
    if rule.command is not None and not rule.exact:
        if prefix_of(words or ()) is None:
            return "its program can run or write anything with the right options"
        return "" if _is_bound(rule) else "it is not bound to a folder"
    folder = rule.path.removeprefix("/") if rule.path is not None and is_exact(rule.path) else ""
    if rule.command is not None:
        return "" if _is_bound(rule) and _may_repeat(rule.command, folder) else "it concerns a protected file"
    return "the file is protected" if rule.tool not in READING and protection(folder) is not None else ""


def fits(rule: Rule, subject: Subject) -> bool:
    """Whether a rule is about this."""
    if not fnmatchcase(subject.tool, rule.tool):
        return False
    if rule.path is not None and not _path_fits(rule, subject.path):
        return False
    return rule.command is None or (subject.command is not None and _command_fits(rule, subject.command))


def check(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """The rules, if each can be understood; raises ValueError with the first problem."""
    checked = tuple(rules)
    for number, rule in enumerate(checked, 1):
        if rule.path is not None:
            try:
                Glob.of(rule.path)
            except ValueError as error:
                raise ValueError(f"rule {number} ({rule}): {error}") from None
        if rule.command is not None and not rule.exact and simple_command(rule.command) is None:
            raise ValueError(f"rule {number} ({rule}): a prefix has to be the plain words of one command; or say exact")
    return checked


def dump_rules(rules: Sequence[Rule]) -> str:
    """Rules as JSON text, one on each line."""
    lines = ",\n  ".join(msgspec.json.encode(rule).decode() for rule in rules)
    return f"[\n  {lines}\n]\n" if rules else "[]\n"


def load_rules(text: str) -> tuple[Rule, ...]:
    """Rules from JSON text; raises ValueError for text that cannot be understood as a whole."""
    try:
        rules = msgspec.json.decode(text, type=tuple[Rule, ...])
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise ValueError(f"the rules cannot be read: {error}") from None
    return check(rules)


def _text(given: dict[str, Any], name: str, call: ToolCall) -> str:
    found = given.get(name)
    if found is not None and not isinstance(found, str):
        raise ToolFailed(f"`{name}` of {call.name} has to be a string")
    return found or ""


def _reason(rule: Rule) -> str:
    if rule in DEFAULTS:
        return "it is allowed as long as no rule says otherwise" if rule.decision == "allow" else "no rule allows it"
    return f"rule: {rule}"


def _is_guarded(subject: Subject) -> bool:
    """Whether this would change a protected file."""
    is_change = subject.command is None and subject.tool not in READING
    return is_change and subject.path is not None and protection(subject.path) is not None


def _names_protected(rule: Rule) -> bool:
    """Whether a rule is expressly about protected files: `.vscode/` is, `**` is not."""
    return rule.path is not None and protection(rule.path.strip("/").replace("\\", "")) is not None


def _covers(rule: Rule, subject: Subject) -> bool:
    """Whether a grant covers this."""
    if not fits(rule, subject):
        return False
    if subject.command is None:
        return not _is_guarded(subject)
    if rule.command is None or not _is_bound(rule):
        return False
    if rule.exact:
        return _may_repeat(subject.command, subject.path or ".")
    words = simple_command(subject.command)
    return words is not None and only_looks(words)


def _is_bound(rule: Rule) -> bool:
    """Whether a grant for a command holds in one folder only: elsewhere the same words may mean another program."""
    return rule.path is not None and is_exact(rule.path)


def _may_repeat(command: str, folder: str) -> bool:
    """Whether a command may run again without asking: it only looks, or it concerns no protected file."""
    words = simple_command(command)
    if words is not None and only_looks(words):
        return True
    named = (word.removeprefix("./") for word in loose_words(command))
    return protection(folder) is None and not any(protection(word) for word in named)


def _path_fits(rule: Rule, path: str | None) -> bool:
    if path is None or rule.path is None:
        return False
    if rule.decision == "allow":
        return Glob.of(rule.path).matches(path)
    # Some disks take upper and lower case for the same, and a rule that holds something back must hold there too.
    return Glob.of(rule.path.casefold()).matches(path.casefold())


def _command_fits(rule: Rule, command: str) -> bool:
    wanted = rule.command or ""
    if rule.exact:
        return command.strip() == wanted.strip()
    if rule.decision == "allow":
        words, prefix = simple_command(command), simple_command(wanted)
        return bool(words and prefix) and (words or [])[: len(prefix or [])] == prefix
    return _occurs(loose_words(wanted), loose_words(command))


def _occurs(wanted: Sequence[str], words: Sequence[str]) -> bool:
    """Whether the words stand somewhere in this order; a program may be named with its folder."""
    size = len(wanted)
    if not size:
        return False
    for at in range(len(words) - size + 1):
        first, *others = words[at : at + size]
        if [first.rpartition("/")[2] if "/" not in wanted[0] else first, *others] == list(wanted):
            return True
    return False


def _for_command(subject: Subject) -> tuple[Rule, ...]:
    """A grant for exactly this command; and if it only looks, for the same with other arguments. Both in its folder."""
    command = subject.command or ""
    folder = escaped(subject.path or ".")
    exactly = Rule(decision="allow", tool=subject.tool, path=folder, command=command, exact=True)
    words = simple_command(command) or ()
    prefix = prefix_of(words)
    if prefix is None or not only_looks(words):
        return (exactly,)
    return (exactly, Rule(decision="allow", tool=subject.tool, path=folder, command=" ".join(prefix)))
