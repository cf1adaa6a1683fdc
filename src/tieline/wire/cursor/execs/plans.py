"""Plan the call to a client's tool for each kind of exec.

The tool is chosen by its capability, and the arguments are named and structured as its schema requires. If none of the
client's tools fits, the exec is refused, and the refusal tells the model what to use instead. An exec is never replaced
by a shell command, because the user may have set different permissions for commands and for other tools.
"""

import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from tieline.wire.cursor._pb import exec_kinds_pb2 as kinds
from tieline.wire.cursor._pb.shared_pb2 import TIMEOUT_BEHAVIOR_BACKGROUND
from tieline.wire.cursor.execs.search_results import mode_of
from tieline.wire.cursor.opening.offered_tools import OfferedTools
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
"""Patterns that match every file. A search for one of them asks for the names of files, not for their content."""

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
    "diagnostics": "report diagnostics",
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


class ClientToolset:
    """The client's tools in the newest leg, and the directory in which the client works."""

    def __init__(self, offer: OfferedTools, workspace: str = "") -> None:
        self.offer = offer
        self.tools = client_tools(list(offer.specs.values()))
        self.workspace = workspace

    def fit(self, capability: Capability, wanted: Wanted) -> FittedCall | None:
        """Choose one of the client's tools with this capability, and build its arguments from `wanted`.

        Return None if no tool fits.
        """
        return fit_call(capability, self.tools, wanted)

    def is_here(self, path: str) -> bool:
        """Return whether a path denotes the workspace itself."""
        return (path.rstrip("/") or path) in ("", ".", self.workspace.rstrip("/") or self.workspace)

    def absolute(self, path: str) -> str:
        """Make a path in the workspace absolute. If the workspace is unknown, return the path unchanged."""
        if not self.workspace or is_absolute(path):
            return path
        inside = re.sub(r"^(?:\./)+", "", path)
        return self.workspace if inside in ("", ".") else f"{self.workspace.rstrip('/')}/{inside}"

    def refusal(self, capability: Capability, deed: str = "") -> str:
        """Return a text that tells the model that no tool has this capability, and what to use instead.

        `deed` completes the phrase "no tool to …"; by default it is derived from the capability.
        """
        deed = deed or _DEEDS[capability]
        if not self.tools:
            return f"This client runs no tools, so there is nothing here that can {deed}. Answer without it."
        for other in _INSTEAD.get(capability, ()):
            tool = next(matching_tools(other, self.tools), None)
            if tool is not None:
                return f"This client has no tool of its own to {deed}. Use `{self.offer.spell(tool.name)}` instead."
        return f"This client has no tool that can {deed}. Do without it."


class CallPlan(NamedTuple):
    """A call to the client's tool `name`.

    `capability` is None if the model called the tool by its name. `placed` contains the roles (see
    `wire.shared.capabilities`) of the values in its arguments.
    """

    name: str
    arguments: str
    capability: Capability | None = None
    placed: frozenset[Role] = frozenset()
    freeform: bool = False


class ExecRefusal(NamedTuple):
    """The refusal of an exec, because none of the client's tools fits. `reason` is a text for the model."""

    reason: str


def plan(kind: str, args: Any, toolset: ClientToolset) -> CallPlan | ExecRefusal | None:
    """Return the call for an exec, or a refusal if no tool fits.

    Return None if the caller must answer the exec without a call.
    """
    planner = _PLANNERS.get(kind)
    return planner(args, toolset) if planner else None


def call(capability: Capability, fitted: FittedCall | None) -> CallPlan | None:
    """Return the call to a fitted tool; None if `fitted` is None."""
    return fitted and CallPlan(fitted.tool.name, encode(fitted.arguments).decode(), capability, fitted.placed)


def _planned(capability: Capability, fitted: FittedCall | None, toolset: ClientToolset) -> CallPlan | ExecRefusal:
    return call(capability, fitted) or ExecRefusal(toolset.refusal(capability))


# ── Commands ─────────────────────────────────────────────────────────────────────────────────────


def _shell(args: kinds.ShellArgs, toolset: ClientToolset) -> CallPlan | ExecRefusal:
    may: dict[Role, Any] = {"description": args.description or None, "timeout": _timeout(args)}
    return _command(args.command, args.working_directory, may, {"background": False}, toolset)


def _background(args: kinds.BackgroundShellSpawnArgs, toolset: ClientToolset) -> CallPlan | ExecRefusal:
    may: dict[Role, Any] = {"description": args.description or None, "background": True}
    found = _command(args.command, args.working_directory, may, {}, toolset)
    if isinstance(found, CallPlan) and "background" not in found.placed:
        name = toolset.offer.spell(found.name)
        return ExecRefusal(
            f"This client does not start commands in the background. Use `{name}` and wait for it to end."
        )
    return found


def _timeout(args: kinds.ShellArgs) -> int | None:
    """Return the time in milliseconds after which a command may be killed; None for no limit.

    If the service wants the command to continue in the background after its timeout, only the hard timeout applies.
    """
    is_soft = args.timeout_behavior == TIMEOUT_BEHAVIOR_BACKGROUND
    millis = args.hard_timeout if is_soft else args.timeout
    return millis if millis > 0 else None


def _command(
    command: str, directory: str, may: Mapping[Role, Any], spare: Mapping[Role, Any], toolset: ClientToolset
) -> CallPlan | ExecRefusal:
    elsewhere = directory if not toolset.is_here(directory) else None
    wanted = Wanted(
        must={"command": command},
        may={**may, "workdir": elsewhere},
        spare={**spare, "workdir": toolset.absolute(directory) or "."},
        phrase=str(may.get("description") or f"Run {_shortened(command)}"),
        directory=toolset.workspace,
    )
    fitted = toolset.fit("shell", wanted)
    if fitted is not None and elsewhere and "workdir" not in fitted.placed:
        # Without the braces, commands after a `;` would run in the wrong directory if `cd` fails.
        inside = command if _PLAIN_COMMAND.match(command) else f"{{\n{command}\n}}"
        moved = f"cd {shlex.quote(elsewhere)} && {inside}"
        fitted = toolset.fit("shell", replace(wanted, must={"command": moved}))
    return _planned("shell", fitted, toolset)


def _shortened(text: str) -> str:
    line = " ".join(text[:200].split())
    return line if len(line) <= 60 else f"{line[:59]}…"


# ── Files ────────────────────────────────────────────────────────────────────────────────────────


def _read(args: kinds.ReadArgs, toolset: ClientToolset) -> CallPlan | ExecRefusal:
    may: dict[Role, Any] = {}
    if args.HasField("offset") or args.HasField("limit"):
        may = _range(args)
    # A tool that requires a range gets one that is longer than any file.
    spare: dict[Role, Any] = {"whole": not may, "start": 1, "end": 1_000_000, "count": 1_000_000}
    wanted = Wanted(
        must={"path": args.path}, may=may, spare=spare, phrase=f"Read {args.path}", directory=toolset.workspace
    )
    return _planned("read", toolset.fit("read", wanted), toolset)


def _range(args: kinds.ReadArgs) -> dict[Role, Any]:
    """Return the range of lines to read, by role; empty for the whole file.

    A negative offset counts from the end of the file. No tool supports this, so the whole file is read, and the
    requested lines are selected later.
    """
    if args.offset < 0:
        return {}
    start = args.offset or 1
    last = start + args.limit - 1 if args.limit else None
    may: dict[Role, Any] = {"start": start, "count": args.limit or None, "end": last}
    return {**may, "range": [start, last if last is not None else -1]}


def _write(args: kinds.WriteArgs, toolset: ClientToolset) -> CallPlan | ExecRefusal:
    text = args.file_text
    if args.file_bytes and not text:
        try:
            text = args.file_bytes.decode()
        except UnicodeDecodeError:
            return ExecRefusal("This client writes only text. Make the file with a command instead.")
    wanted = Wanted(
        must={"path": args.path, "content": text},
        spare={"lines": text.count("\n") + 1},
        phrase=f"Write {args.path}",
        directory=toolset.workspace,
    )
    return _planned("write", toolset.fit("write", wanted), toolset)


def _delete(args: kinds.DeleteArgs, toolset: ClientToolset) -> CallPlan | ExecRefusal:
    wanted = Wanted(must={"path": args.path}, phrase=f"Delete {args.path}", directory=toolset.workspace)
    return _planned("delete", toolset.fit("delete", wanted), toolset)


def _ls(args: kinds.LsArgs, toolset: ClientToolset) -> CallPlan | ExecRefusal:
    """Plan a call that lists a directory.

    Use the first that the client has: a listing tool, a reading tool that accepts directories, or a glob tool.
    """
    phrase = f"List {args.path or 'the files'}"
    may: dict[Role, Any] = {"ignore": list(args.ignore) or None}
    must, spare = _place(args.path, toolset)
    listed = toolset.fit("list", Wanted(must=must, may=may, spare=spare, phrase=phrase, directory=toolset.workspace))
    if listed is not None:
        return _planned("list", listed, toolset)
    named = Wanted(must={"path": args.path or "."}, phrase=phrase, directory=toolset.workspace)
    reader = toolset.fit("read", named)
    if reader is not None and _READS_DIRECTORIES.search(reader.tool.description.lower()):
        return _planned("list", reader, toolset)
    found = toolset.fit(
        "glob", Wanted(must={**must, "pattern": "*"}, spare=spare, phrase=phrase, directory=toolset.workspace)
    )
    return _planned("list", found, toolset)


def _place(path: str, toolset: ClientToolset) -> tuple[dict[Role, Any], dict[Role, Any]]:
    """Return the path to search as `must` and `spare` values of a `Wanted`.

    The path of the workspace is a `spare` value, so it is passed only to tools that require a path.
    """
    return ({}, {"path": path or "."}) if toolset.is_here(path) else ({"path": path}, {})


def _grep(args: kinds.GrepArgs, toolset: ClientToolset) -> CallPlan | ExecRefusal:
    mode = mode_of(args.output_mode)
    # Without a pattern, the result can only be the names of files.
    wants_names = mode == "files_with_matches" or not (args.pattern or args.output_mode)
    if wants_names and args.pattern in EVERYTHING and (args.glob or args.output_mode):
        found = _glob(args, toolset)
        if found is not None:
            return found
    must, spare = _place(args.path, toolset)
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
        directory=toolset.workspace,
    )
    fitted = toolset.fit("grep", wanted)
    if fitted is not None:
        fitted = toolset.fit("grep", _for_lesser_tool(args, wanted, fitted))
    return _planned("grep", fitted, toolset)


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
        # The service discards all further lines.
        "most": args.head_limit + max(args.offset, 0) if args.head_limit > 0 else None,
    }


def _for_lesser_tool(args: kinds.GrepArgs, wanted: Wanted, fitted: FittedCall) -> Wanted:
    """Adapt a search to a tool that lacks some options, by adding these options to the pattern or the glob."""
    if args.case_insensitive and not fitted.placed & {"insensitive", "sensitive"}:
        wanted = replace(wanted, must={**wanted.must, "pattern": f"(?i){wanted.must['pattern']}"})
    if args.type and not args.glob and "type" not in fitted.placed:
        wanted = replace(wanted, may={**wanted.may, "glob": glob_of(args)})
    return wanted


def glob_of(args: kinds.GrepArgs) -> str:
    """Return the glob for the files to search; empty for all files. If `args` has no glob, its file type is used."""
    return args.glob or (f"*.{_ENDINGS.get(args.type, args.type)}" if args.type else "")


_ENDINGS = {"python": "py", "rust": "rs", "typescript": "ts", "javascript": "js", "markdown": "md", "ruby": "rb"}


def _glob(args: kinds.GrepArgs, toolset: ClientToolset) -> CallPlan | None:
    """Return a call that finds files by name; None if no tool fits.

    For a tool without a path argument, the path becomes part of the pattern.
    """
    pattern = args.glob or "**/*"
    must, spare = _place(args.path, toolset)
    phrase = f"Find {pattern}"
    fitted = toolset.fit("glob", Wanted(must={"pattern": pattern, **must}, spare=spare, phrase=phrase))
    if fitted is None and must:
        fitted = toolset.fit("glob", Wanted(must={"pattern": f"{args.path.rstrip('/')}/{pattern}"}, phrase=phrase))
    return call("glob", fitted)


# ── Others ───────────────────────────────────────────────────────────────────────────────────────


def _fetch(args: kinds.FetchArgs, toolset: ClientToolset) -> CallPlan | ExecRefusal:
    spare: dict[Role, Any] = {"prompt": "Give back the whole content of the page, unchanged.", "format": "markdown"}
    wanted = Wanted(must={"url": args.url}, spare=spare, phrase=f"Fetch {args.url}")
    return _planned("fetch", toolset.fit("fetch", wanted), toolset)


def _diagnostics(args: kinds.DiagnosticsArgs, toolset: ClientToolset) -> CallPlan | ExecRefusal:
    wanted = Wanted(must={"path": args.path}, phrase=f"Check {args.path}", directory=toolset.workspace)
    return _planned("diagnostics", toolset.fit("diagnostics", wanted), toolset)


def _resources(args: kinds.ListMcpResourcesExecArgs, toolset: ClientToolset) -> CallPlan | None:
    return call("resources", toolset.fit("resources", Wanted(may={"server": args.server or None})))


def _resource(args: kinds.ReadMcpResourceExecArgs, toolset: ClientToolset) -> CallPlan | None:
    return call("resource", toolset.fit("resource", Wanted(must={"server": args.server, "uri": args.uri})))


_PLANNERS: Mapping[str, Callable[[Any, ClientToolset], CallPlan | ExecRefusal | None]] = {
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
