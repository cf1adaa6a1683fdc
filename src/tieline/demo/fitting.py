"""From a wish to calls of the tools that the client offers: the tool by what it can do, the arguments by its schema."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from tieline.demo.answer import Call
from tieline.demo.offer import Tool, call_with
from tieline.demo.phrases import shortened
from tieline.demo.schema import (
    Filler,
    Hints,
    Schema,
    branches,
    properties_of,
    required_of,
    resolve,
    types_of,
)
from tieline.demo.wishes import Kind, Wish, tool_named
from tieline.model.content import Value

Role = Literal["path", "command", "content", "pattern", "old", "new"]

# Names are compared without case and without anything but letters and digits; the first that is offered wins.
CAPABILITIES: Mapping[Kind, tuple[str, ...]] = {
    "shell": (
        *("bash", "shell", "runshellcommand", "runterminalcommand", "runterminalcmd", "runterminal", "runinterminal"),
        *("execcommand", "executecommand", "shellcommand", "runcommand", "runcommands", "localshell", "terminal"),
        *("executebash", "runbash", "exec", "execute", "sh", "cmd", "powershell", "run"),
    ),
    "read": (
        *("read", "readfile", "readfiles", "viewfile", "view", "openfile", "readtextfile", "fsread", "fileread"),
        *("getfile", "getfilecontents", "cat", "readmanyfiles", "strreplacebasededittool", "strreplaceeditor"),
        *("texteditor",),
    ),
    "write": (
        *("write", "writefile", "createfile", "writetofile", "createnewfile", "savefile", "save", "create", "fswrite"),
        *("filewrite", "newfile", "strreplacebasededittool", "strreplaceeditor", "texteditor", "editor"),
    ),
    "edit": (
        *("edit", "editfile", "strreplace", "replace", "searchreplace", "replaceinfile", "multiedit", "fsedit"),
        *("strreplacebasededittool", "strreplaceeditor", "texteditor", "editor"),
    ),
    "list": ("list", "ls", "listdirectory", "listdir", "listfiles", "readdirectory", "listfolder", "tree"),
    "grep": (
        *("grep", "grepsearch", "searchfilecontent", "searchfiles", "ripgrep", "rg", "searchtext", "findinfiles"),
        *("searchcodebase", "codebasesearch", "search"),
    ),
    "glob": ("glob", "globsearch", "findfiles", "filesearch", "globfiles", "find", "searchfilesbyname"),
}
_PROPERTIES: Mapping[Role, tuple[str, ...]] = {
    "path": (
        *("filepath", "absolutepath", "path", "filename", "file", "targetfile", "abspath", "relativepath"),
        *("relativeworkspacepath", "dirpath", "directory", "directorypath", "targetdirectory", "dir", "folder"),
        *("paths", "filepaths", "files", "filenames", "target", "uri", "name"),
    ),
    "command": ("command", "cmd", "commandline", "shellcommand", "script", "commands", "code", "input"),
    "content": ("content", "contents", "filetext", "text", "filecontent", "newtext", "codecontent", "data", "body"),
    "pattern": (
        *("pattern", "query", "regex", "regexp", "globpattern", "searchterm", "searchpattern", "search", "term"),
        *("keyword", "q", "queries", "patterns", "text"),
    ),
    "old": ("oldstring", "oldstr", "oldtext", "old", "search", "find", "searchtext", "target"),
    "new": ("newstring", "newstr", "newtext", "new", "replace", "replacement", "replacetext", "content"),
}
# What an editor with several commands calls them.
_COMMANDS: Mapping[Kind, tuple[str, ...]] = {
    "read": ("view", "read", "open"),
    "write": ("create", "write"),
    "edit": ("str_replace", "replace", "edit"),
}


class Fitted(Value):
    """A call that does what was wished, and a few words for it."""

    call: Call
    phrase: str


def fit(wish: Wish, tools: Sequence[Tool], directory: str = "") -> list[Fitted]:
    """The calls that do what is wished; none when no tool fits."""
    phrase = phrase_of(wish)
    if wish.kind == "tool":
        name = tool_named(wish.tool, [tool.name for tool in tools])
        named = next((tool for tool in tools if tool.name == name), None)
        calls = call_with(named, wish.words, directory) if named else []
        return [Fitted(call=call, phrase=phrase) for call in calls]
    for capability, roles in _routes(wish):
        for tool in _capable(capability, tools):
            arguments = _Arguments(tool, phrase, directory, capability).of(roles)
            if arguments is not None:
                return [Fitted(call=Call(name=tool.name, arguments=_json(arguments)), phrase=phrase)]
    return []


def phrase_of(wish: Wish) -> str:
    """A few words for what is wished."""
    match wish.kind:
        case "shell":
            return f"Run {shortened(wish.command)}"
        case "list":
            return f"List {wish.path or 'the files'}"
        case "grep" | "glob":
            verb = "Search for" if wish.kind == "grep" else "Find"
            return f"{verb} {shortened(wish.pattern)}" + (f" in {wish.path}" if wish.path else "")
        case "tool":
            return f"Call {wish.tool}"
        case _:
            return f"{wish.kind.capitalize()} {wish.path}"


def _routes(wish: Wish) -> Iterator[tuple[Kind, dict[Role, str]]]:
    """The ways to do it, the best first: a tool made for it, else the shell."""
    path, where = shlex.quote(wish.path), shlex.quote(wish.path or ".")
    match wish.kind:
        case "shell":
            yield "shell", {"command": wish.command}
        case "read":
            yield "read", {"path": wish.path}
            yield "shell", {"command": f"cat {path}"}
        case "write":
            yield "write", {"path": wish.path, "content": wish.content}
            yield "shell", {"command": _write_command(path, wish.content)}
        case "edit":
            yield "edit", {"path": wish.path, "old": wish.pattern, "new": wish.new}
            yield "shell", {"command": f"sed -i {shlex.quote(_substitution(wish))} {path}"}
        case "list":
            yield "list", {"path": wish.path or "."}
            yield "shell", {"command": f"ls {path}" if wish.path else "ls"}
            yield "glob", {"pattern": "*", "path": wish.path}
        case "grep":
            yield "grep", {"pattern": wish.pattern, "path": wish.path}
            yield "shell", {"command": f"grep -rn -e {shlex.quote(wish.pattern)} {where}"}
        case "glob":
            yield "glob", {"pattern": wish.pattern, "path": wish.path}
            yield "shell", {"command": f"find {where} -name {shlex.quote(wish.pattern)}"}
        case _:
            return


def _write_command(path: str, content: str) -> str:
    """Writes exactly the content: a heredoc always ends its last line, so it serves only where that is wanted."""
    if not content.endswith("\n"):
        return f"printf %s {shlex.quote(content)} > {path}"
    mark = "EOF"
    while mark in content.splitlines():
        mark += "_"
    return f"cat > {path} <<'{mark}'\n{content}{mark}"


def _substitution(wish: Wish) -> str:
    old = re.sub(r"([][\\/.*^$])", r"\\\1", wish.pattern)
    new = re.sub(r"([\\/&])", r"\\\1", wish.new)
    return f"s/{old}/{new}/g"


def _capable(capability: Kind, tools: Sequence[Tool]) -> Iterator[Tool]:
    """The tools that can do it by their name: the known names in order, then names that contain a long one."""
    known = CAPABILITIES[capability]
    by_name = {_plain(re.split(r"__|[.:/]", tool.name)[-1]): tool for tool in reversed(tools) if not tool.freeform}
    yield from (by_name[name] for name in known if name in by_name)
    telling = [name for name in known if len(name) >= 7]
    yield from (tool for name, tool in by_name.items() if name not in known and any(part in name for part in telling))


class _Arguments:
    """Builds the arguments of one tool from what each property is for."""

    def __init__(self, tool: Tool, phrase: str, directory: str, capability: Kind) -> None:
        self._tool = tool
        self._phrase = phrase
        self._directory = directory
        self._capability = capability

    def of(self, roles: Mapping[Role, str]) -> dict[str, Any] | None:
        """The arguments, or None when the schema has no place for something essential."""
        return self._object(self._tool.schema, roles)

    def _object(self, schema: Schema, roles: Mapping[Role, str]) -> dict[str, Any] | None:
        properties = properties_of(schema)
        arguments: dict[str, Any] = {}
        for role, text in roles.items():
            name = self._property(role, properties, arguments)
            is_optional = role == "path" and self._capability in ("list", "grep", "glob")
            if name is None:
                if not is_optional:
                    return None
            elif not is_optional or text not in ("", ".") or name in required_of(schema):
                arguments[name] = self._shaped(properties[name], name, role, text)
        self._fill_rest(schema, arguments)
        return arguments

    def _property(self, role: Role, properties: Mapping[str, Any], taken: Mapping[str, Any]) -> str | None:
        by_name = {_plain(name): name for name in properties if name not in taken}
        for name in _PROPERTIES[role]:
            if name in by_name and self._can_hold(properties[by_name[name]]):
                return by_name[name]
        return None

    def _can_hold(self, schema: object) -> bool:
        """Whether text can go there, by itself or in a list."""
        options = branches(resolve(schema, self._tool.schema), self._tool.schema)
        kinds = [types_of(option) or ["string"] for option in options if "enum" not in option]
        return any("string" in kind or "array" in kind for kind in kinds)

    def _shaped(self, schema: object, name: str, role: Role, text: str) -> Any:
        root = self._tool.schema
        options = branches(resolve(schema, root), root)
        if any("string" in types_of(option) or not types_of(option) for option in options):
            return self._absolute(text, options) if role == "path" else text
        listing = next(option for option in options if "array" in types_of(option))
        item = resolve(listing.get("items", {}), root)
        if properties_of(item):
            inner = self._object(item, {role: text})
            return [inner if inner is not None else {}]
        if role == "command" and not _plain(name).endswith("s"):
            return ["bash", "-lc", text]
        return [self._absolute(text, [item, *options]) if role == "path" else text]

    def _absolute(self, path: str, schemas: Sequence[Schema]) -> str:
        """A tool that wants absolute paths gets one, if the client told where it works."""
        said = " ".join([self._tool.description, *(str(schema.get("description", "")) for schema in schemas)]).lower()
        said += " absolute" if "absolute" in str(properties_of(self._tool.schema).keys()).lower() else ""
        wants = "absolute" in said and not re.search(r"(?:relative or absolute|absolute or relative)", said)
        if not wants or not self._directory or re.match(r"[/~]|[A-Za-z]:[\\/]", path):
            return path
        path = re.sub(r"^(?:\./)+", "", path)
        return self._directory if path in ("", ".") else f"{self._directory.rstrip('/')}/{path}"

    def _fill_rest(self, schema: Schema, arguments: dict[str, Any]) -> None:
        properties = properties_of(schema)
        hints = Hints("", phrase=self._phrase, directory=self._directory)
        filler = Filler(self._tool.schema, hints, sparing=True)
        for name in required_of(schema):
            if name in arguments:
                continue
            options = resolve(properties.get(name), self._tool.schema).get("enum")
            verb = next((verb for verb in _COMMANDS.get(self._capability, ()) if verb in (options or ())), None)
            arguments[name] = verb or filler.value(properties.get(name, True), name, 1)


def _json(arguments: Mapping[str, Any]) -> str:
    return msgspec.json.encode(arguments).decode()


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
