"""What the service asks for, as calls of the client's own tools: one plan for each kind of exec.

The tool is found by what it can do, its arguments by its schema. A kind that no tool of the client can serve is
refused in words that name the tool to use instead: a shell is not used behind the back of those who allow or forbid
its commands by hand.
"""

import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from tieline.wire.cursor._pb import exec_kinds_pb2 as kinds
from tieline.wire.cursor._pb.shared_pb2 import TIMEOUT_BEHAVIOR_BACKGROUND
from tieline.wire.cursor.execs.search import mode_of
from tieline.wire.cursor.opening.tools import Offer
from tieline.wire.shared.capabilities import (
    Capability,
    FittedCall,
    Role,
    Wanted,
    client_tools,
    fit_call,
    is_absolute,
    matching_tools,
)
from tieline.wire.shared.json import encode

EVERYTHING = frozenset(["", ".", ".*", ".+", "^", "$", "^.*$", "(?s).*"])
"""Patterns that match in any file: who looks for them wants the files."""

_DEEDS: Mapping[Capability, str] = {
    "shell": "run commands",
    "stdin": "write to a running command",
    "read": "read files",
    "write": "write files",
    "edit": "edit files",
    "delete": "delete files",
    "list": "list directories",
    "grep": "search in files",
    "glob": "find files by name",
    "fetch": "fetch web pages",
    "diagnostics": "tell diagnostics",
    "task": "run a subagent",
}
_INSTEAD: Mapping[Capability, tuple[Capability, ...]] = {
    "write": ("edit", "shell"),
    "edit": ("write", "shell"),
    "list": ("glob", "shell", "read"),
    "grep": ("shell", "glob"),
    "glob": ("list", "shell", "grep"),
    "read": ("shell",),
    "delete": ("shell",),
    "fetch": ("shell",),
    "diagnostics": ("shell",),
    "stdin": ("shell",),
    "task": ("task",),
}
_READS_DIRECTORIES = re.compile(r"\bfiles? (?:or|and) director(?:y|ies)|director(?:y|ies) (?:or|and) files?")
_PLAIN_COMMAND = re.compile(r"[^;&|\n<>(){}`#]*\Z")


class Desk:
    """What there is to work with: the tools of the newest leg, and where the client works."""

    def __init__(self, offer: Offer, workspace: str = "") -> None:
        self.offer = offer
        self.tools = client_tools(list(offer.specs.values()))
        self.workspace = workspace

    def fit(self, capability: Capability, wanted: Wanted) -> FittedCall | None:
        """The client's tool for this, with its arguments."""
        return fit_call(capability, self.tools, wanted)

    def is_here(self, path: str) -> bool:
        """Whether a path is where the client works anyway."""
        return (path.rstrip("/") or path) in ("", ".", self.workspace.rstrip("/") or self.workspace)

    def absolute(self, path: str) -> str:
        """A path from the root, where it is known what a relative one is relative to."""
        if not self.workspace or is_absolute(path):
            return path
        inside = re.sub(r"^(?:\./)+", "", path)
        return self.workspace if inside in ("", ".") else f"{self.workspace.rstrip('/')}/{inside}"

    def refusal(self, capability: Capability, deed: str = "") -> str:
        """Why this cannot be done here, and what to do instead."""
        deed = deed or _DEEDS[capability]
        if not self.tools:
            return f"This client runs no tools, so there is nothing here that can {deed}. Answer without it."
        for other in _INSTEAD.get(capability, ()):
            tool = next(matching_tools(other, self.tools), None)
            if tool is not None:
                return f"This client has no tool of its own to {deed}. Use `{self.offer.spell(tool.name)}` instead."
        return f"This client has no tool that can {deed}. Do without it."


class Plan(NamedTuple):
    """A call of the client's tool `name`; `placed` are the roles it could be told."""

    name: str
    arguments: str
    capability: Capability | None = None
    placed: frozenset[Role] = frozenset()
    freeform: bool = False


class Refused(NamedTuple):
    """There is no such call."""

    reason: str


def plan(kind: str, args: Any, desk: Desk) -> Plan | Refused | None:
    """The call for an exec of this kind; None if tools have nothing to do with it."""
    planner = _PLANNERS.get(kind)
    return planner(args, desk) if planner else None


def call(capability: Capability, fitted: FittedCall | None) -> Plan | None:
    """The call of a tool that fits, if one does."""
    return fitted and Plan(fitted.tool.name, encode(fitted.arguments).decode(), capability, fitted.placed)


def _planned(capability: Capability, fitted: FittedCall | None, desk: Desk) -> Plan | Refused:
    return call(capability, fitted) or Refused(desk.refusal(capability))


# ── Commands ─────────────────────────────────────────────────────────────────────────────────────


def _shell(args: kinds.ShellArgs, desk: Desk) -> Plan | Refused:
    may: dict[Role, Any] = {"description": args.description or None, "timeout": _timeout(args)}
    return _command(args.command, args.working_directory, may, {"background": False}, desk)


def _background(args: kinds.BackgroundShellSpawnArgs, desk: Desk) -> Plan | Refused:
    may: dict[Role, Any] = {"description": args.description or None, "background": True}
    found = _command(args.command, args.working_directory, may, {}, desk)
    if isinstance(found, Plan) and "background" not in found.placed:
        name = desk.offer.spell(found.name)
        return Refused(f"This client does not start commands in the background. Use `{name}` and wait for it to end.")
    return found


def _timeout(args: kinds.ShellArgs) -> int | None:
    """How long the command may take in all: one that would go on in the background must not be ended instead."""
    is_soft = args.timeout_behavior == TIMEOUT_BEHAVIOR_BACKGROUND
    millis = args.hard_timeout if is_soft else args.timeout
    return millis if millis > 0 else None


def _command(
    command: str, directory: str, may: Mapping[Role, Any], spare: Mapping[Role, Any], desk: Desk
) -> Plan | Refused:
    elsewhere = directory if not desk.is_here(directory) else None
    wanted = Wanted(
        must={"command": command},
        may={**may, "workdir": elsewhere},
        spare={**spare, "workdir": desk.absolute(directory) or "."},
        phrase=str(may.get("description") or f"Run {_shortened(command)}"),
        directory=desk.workspace,
    )
    fitted = desk.fit("shell", wanted)
    if fitted is not None and elsewhere and "workdir" not in fitted.placed:
        # Parts of a command joined by `;` would run where they should not if the directory is not there.
        inside = command if _PLAIN_COMMAND.match(command) else f"{{\n{command}\n}}"
        moved = f"cd {shlex.quote(elsewhere)} && {inside}"
        fitted = desk.fit("shell", replace(wanted, must={"command": moved}))
    return _planned("shell", fitted, desk)


def _shortened(text: str) -> str:
    line = " ".join(text[:200].split())
    return line if len(line) <= 60 else f"{line[:59]}…"


# ── Files ────────────────────────────────────────────────────────────────────────────────────────


def _read(args: kinds.ReadArgs, desk: Desk) -> Plan | Refused:
    may: dict[Role, Any] = {}
    if args.HasField("offset") or args.HasField("limit"):
        may = _range(args)
    # Tools that always want a range get one that no file exceeds.
    spare: dict[Role, Any] = {"whole": not may, "start": 1, "end": 1_000_000, "count": 1_000_000}
    wanted = Wanted(
        must={"path": args.path}, may=may, spare=spare, phrase=f"Read {args.path}", directory=desk.workspace
    )
    return _planned("read", desk.fit("read", wanted), desk)


def _range(args: kinds.ReadArgs) -> dict[Role, Any]:
    """The lines to read; those counted from the end no tool knows, so the file is read whole and cut here."""
    if args.offset < 0:
        return {}
    start = args.offset or 1
    last = start + args.limit - 1 if args.limit else None
    may: dict[Role, Any] = {"start": start, "count": args.limit or None, "end": last}
    return {**may, "range": [start, last if last is not None else -1]}


def _write(args: kinds.WriteArgs, desk: Desk) -> Plan | Refused:
    text = args.file_text
    if args.file_bytes and not text:
        try:
            text = args.file_bytes.decode()
        except UnicodeDecodeError:
            return Refused("This client writes only text. Make the file with a command instead.")
    wanted = Wanted(
        must={"path": args.path, "content": text},
        spare={"lines": text.count("\n") + 1},
        phrase=f"Write {args.path}",
        directory=desk.workspace,
    )
    return _planned("write", desk.fit("write", wanted), desk)


def _delete(args: kinds.DeleteArgs, desk: Desk) -> Plan | Refused:
    wanted = Wanted(must={"path": args.path}, phrase=f"Delete {args.path}", directory=desk.workspace)
    return _planned("delete", desk.fit("delete", wanted), desk)


def _ls(args: kinds.LsArgs, desk: Desk) -> Plan | Refused:
    """A tool that lists; else one that reads directories as well as files; else one that finds every file."""
    phrase = f"List {args.path or 'the files'}"
    may: dict[Role, Any] = {"ignore": list(args.ignore) or None}
    must, spare = _place(args.path, desk)
    listed = desk.fit("list", Wanted(must=must, may=may, spare=spare, phrase=phrase, directory=desk.workspace))
    if listed is not None:
        return _planned("list", listed, desk)
    named = Wanted(must={"path": args.path or "."}, phrase=phrase, directory=desk.workspace)
    reader = desk.fit("read", named)
    if reader is not None and _READS_DIRECTORIES.search(reader.tool.description.lower()):
        return _planned("list", reader, desk)
    found = desk.fit(
        "glob", Wanted(must={**must, "pattern": "*"}, spare=spare, phrase=phrase, directory=desk.workspace)
    )
    return _planned("list", found, desk)


def _place(path: str, desk: Desk) -> tuple[dict[Role, Any], dict[Role, Any]]:
    """Where to look: said if it is not where the client works anyway, or if the tool insists."""
    return ({}, {"path": path or "."}) if desk.is_here(path) else ({"path": path}, {})


def _grep(args: kinds.GrepArgs, desk: Desk) -> Plan | Refused:
    mode = mode_of(args.output_mode)
    # Without a pattern there is nothing to show of a file but its name.
    wants_names = mode == "files_with_matches" or not (args.pattern or args.output_mode)
    if wants_names and args.pattern in EVERYTHING and (args.glob or args.output_mode):
        found = _glob(args, desk)
        if found is not None:
            return found
    must, spare = _place(args.path, desk)
    wanted = Wanted(
        must={"pattern": args.pattern or ".*", **must},
        may={
            "mode": mode,
            "names": True if mode == "files_with_matches" else None,
            "numbers": True if mode == "content" else None,
            "regexp": True,
            **_options(args),
        },
        spare=spare,
        phrase=f"Search for {_shortened(args.pattern)}",
        directory=desk.workspace,
    )
    fitted = desk.fit("grep", wanted)
    if fitted is not None:
        fitted = desk.fit("grep", _told_otherwise(args, wanted, fitted))
    return _planned("grep", fitted, desk)


def _options(args: kinds.GrepArgs) -> dict[Role, Any]:
    return {
        "glob": args.glob or None,
        "type": args.type or None,
        "before": args.context_before or None,
        "after": args.context_after or None,
        "context": args.context or None,
        "insensitive": True if args.case_insensitive else None,
        "sensitive": not args.case_insensitive,
        "multiline": True if args.multiline else None,
        # More than that the service leaves out by itself.
        "most": args.head_limit + max(args.offset, 0) if args.head_limit > 0 else None,
    }


def _told_otherwise(args: kinds.GrepArgs, wanted: Wanted, fitted: FittedCall) -> Wanted:
    """The same search for a tool without the right option: what it lacks goes into the pattern, or the name."""
    if args.case_insensitive and not fitted.placed & {"insensitive", "sensitive"}:
        wanted = replace(wanted, must={**wanted.must, "pattern": f"(?i){wanted.must['pattern']}"})
    if args.type and not args.glob and "type" not in fitted.placed:
        wanted = replace(wanted, may={**wanted.may, "glob": glob_of(args)})
    return wanted


def glob_of(args: kinds.GrepArgs) -> str:
    """The names of the files that count, a type spelled as its usual ending; empty if all do."""
    return args.glob or (f"*.{_ENDINGS.get(args.type, args.type)}" if args.type else "")


_ENDINGS = {"python": "py", "rust": "rs", "typescript": "ts", "javascript": "js", "markdown": "md", "ruby": "rb"}


def _glob(args: kinds.GrepArgs, desk: Desk) -> Plan | None:
    """The files of a name; a tool that cannot be told where to look is told in the pattern."""
    pattern = args.glob or "**/*"
    must, spare = _place(args.path, desk)
    phrase = f"Find {pattern}"
    fitted = desk.fit("glob", Wanted(must={"pattern": pattern, **must}, spare=spare, phrase=phrase))
    if fitted is None and must:
        fitted = desk.fit("glob", Wanted(must={"pattern": f"{args.path.rstrip('/')}/{pattern}"}, phrase=phrase))
    return call("glob", fitted)


# ── The rest ─────────────────────────────────────────────────────────────────────────────────────


def _fetch(args: kinds.FetchArgs, desk: Desk) -> Plan | Refused:
    spare: dict[Role, Any] = {"prompt": "Give back the whole content of the page, unchanged.", "format": "markdown"}
    wanted = Wanted(must={"url": args.url}, spare=spare, phrase=f"Fetch {args.url}")
    return _planned("fetch", desk.fit("fetch", wanted), desk)


def _diagnostics(args: kinds.DiagnosticsArgs, desk: Desk) -> Plan | Refused:
    wanted = Wanted(must={"path": args.path}, phrase=f"Check {args.path}", directory=desk.workspace)
    return _planned("diagnostics", desk.fit("diagnostics", wanted), desk)


def _resources(args: kinds.ListMcpResourcesExecArgs, desk: Desk) -> Plan | None:
    return call("resources", desk.fit("resources", Wanted(may={"server": args.server or None})))


def _resource(args: kinds.ReadMcpResourceExecArgs, desk: Desk) -> Plan | None:
    return call("resource", desk.fit("resource", Wanted(must={"server": args.server, "uri": args.uri})))


_PLANNERS: Mapping[str, Callable[[Any, Desk], Plan | Refused | None]] = {
    "shell_args": _shell,
    "shell_stream_args": _shell,
    "mini_swe_agent_bash_args": _shell,
    "background_shell_spawn_args": _background,
    "read_args": _read,
    "redacted_read_args": _read,
    "write_args": _write,
    "delete_args": _delete,
    "ls_args": _ls,
    "grep_args": _grep,
    "fetch_args": _fetch,
    "diagnostics_args": _diagnostics,
    "list_mcp_resources_exec_args": _resources,
    "read_mcp_resource_exec_args": _resource,
}
