"""Parse one clause of the user's text into an action. Only the names of the tools are needed, not their schemas."""

import re
from collections.abc import Sequence
from typing import Literal

from msgspec.structs import replace

from tieline.demo.phrases import unquoted
from tieline.model.content import Value

ActionKind = Literal["read", "write", "edit", "list", "grep", "glob", "shell", "plan", "tool"]


class Action(Value):
    """One action that the user requests.

    `pattern` is the text to search for, or to replace with `new`. `content` is the text to write; the text of the file
    to edit, if it is known; or the steps of a plan. `tool` is the tool that the user names, if any, and `words`
    the text from which its arguments are taken.
    """

    kind: ActionKind
    path: str = ""
    command: str = ""
    content: str = ""
    pattern: str = ""
    new: str = ""
    tool: str = ""
    words: str = ""


_BULLET = re.compile(r"^(?:\d{1,2}[.)]|[-*•]|\[[\w-]{1,40}\])\s{1,3}")
_POLITE = re.compile(
    r"(?:(?:please|kindly|now|first(?:ly)?|next|finally|also|ok(?:ay)?|hey|hi|hello|so|just|try to|go ahead and"
    r"|(?:can|could|would|will) you|you (?:must|should|have to|need to)"
    r"|i(?:'d like| would like| want| need) you to|let'?s|your task is to"
    r"|us(?:e|ing) (?:the |your )?\S{1,60}(?: tool)? to|using (?:the |your )?\S{1,60} tool)[,:]?\s{1,3})+",
    re.IGNORECASE,
)
_AFTERTHOUGHT = re.compile(
    r"(?:\s{1,3}(?:please|for me|now|thanks|first|(?:in|from|of) (?:the|this|my|your) (?:current |working |present )*"
    r"(?:directory|folder|repo|repository|project|workspace|codebase)))+$",
    re.IGNORECASE,
)
_FILE_NAMES = {"readme", "license", "makefile", "dockerfile", "changelog", "gemfile", "procfile", "todo", "notes"}
_NO_NAMES = {"it", "this", "that", "them", "me", "the", "all", "more", "everything", "about", "on", "something"}

# These patterns limit the number of consecutive spaces, to avoid catastrophic backtracking.
# The group `path` must look like a path, unless it is quoted or the group `file` or `sure` matched too.
_PATH = r"(?P<path>`[^`\n]+`|\"[^\"\n]+\"|'[^'\n]+'|(?:[^\s,;:\"'`]|:(?=\S))+)"
_IN = rf"(?: (?:in|inside|within|under|at|of|from)(?: the)?(?: director(?:y|ies)| folder| files?)? {_PATH})"
_FILE = r"(?P<file> file(?: at| named| called)?)?"
_CONTENTS = r"(?: me)?(?: the)?(?: contents?(?: of)?)?(?: the| my)?"
_NEW = r"(?: me)?(?: an?| the)?(?: new| empty| text)*"
_REPLACE = r"(?:replac|chang|substitut)(?:e|ing) (?P<pattern>.+?) (?:with|by|to) (?P<new>.+?)"
_WITH = (
    r",? (?:with|containing|that (?:says|contains)|saying)(?: the)?(?: following)?"
    r"(?: text| contents?| words?| line)?(?::\s{0,3}|\s{1,3})(?P<content>.+)"
)
_A_COMMAND = r"(?: (?:the |this |a )?(?:shell |bash |terminal )?command)?"
_FILES = r"(?: files| folders?| directory| directories| contents?| everything| entries)"
_GLOB = r"(?P<pattern>`[^`]+`|\"[^\"]+\"|\S*[*?]\S*)"

_FORMS: tuple[tuple[ActionKind, str], ...] = (
    ("shell", rf"(?:run|exec(?:ute)?){_A_COMMAND} `(?P<command>[^`]+)`.*"),
    ("shell", rf"(?:run|execute){_A_COMMAND} (?P<command>.+)"),
    ("shell", r"(?P<command>(?:grep|ls|find|cat) -.+|pwd|whoami|git \w.*)"),
    (
        "write",
        r"(?:write|save|put|store)(?: the)?(?: text| words?| content)?:? (?P<content>.+?)"
        rf" (?:to|into|in|as){_NEW}{_FILE} {_PATH}",
    ),
    ("write", rf"(?:create|write|make|save|add){_NEW}{_FILE} {_PATH}{_WITH}"),
    ("write", rf"(?:write|save)(?: to)?{_FILE} {_PATH}:\s*(?P<content>.+)"),
    ("write", rf"(?:create|touch|make){_NEW}{_FILE} {_PATH}"),
    ("edit", rf"(?:edit|in|update|modify|change|fix)(?: the)?{_FILE} {_PATH}[,:]?\s+(?:and |by )?{_REPLACE}"),
    ("edit", rf"{_REPLACE} in(?: the)?{_FILE} {_PATH}"),
    ("read", rf"(?P<sure>read|cat){_CONTENTS}{_FILE} {_PATH}(?: file)?"),
    ("read", rf"(?:show|open|view|display|print|look at|check){_CONTENTS}{_FILE} {_PATH}(?: file)?"),
    ("read", rf"what(?:'s| is| does)(?: in| inside)?(?: the)?{_FILE} {_PATH}(?: contain| say)?"),
    ("read", rf"(?:summari[sz]e|explain|describe|review){_CONTENTS}{_FILE} {_PATH}(?: file)?"),
    (
        "list",
        rf"(?P<sure>list|show|display|what)(?: me)?(?: all)?(?: the| my)?{_FILES}(?: are)?(?: there| here)?"
        rf"{_IN}?(?: director(?:y|ies)| folder)?",
    ),
    # Matches "what's in this folder" after `_AFTERTHOUGHT` has removed the last words.
    ("list", r"(?P<sure>what(?:'s| is)(?: here| there)?)"),
    ("list", rf"(?P<sure>ls|dir)(?: {_PATH})?"),
    ("list", rf"list(?: the)?(?P<file> directory| folder)? {_PATH}"),
    (
        "glob",
        r"(?P<sure>find|glob)(?: all)?(?: the)?(?: files?)?(?: named| called| matching| like)?"
        rf" {_GLOB}(?: files)?{_IN}?",
    ),
    ("glob", rf"(?P<sure>find|glob)(?: all)?(?: the)? files? (?:named|called|matching|like) (?P<pattern>\S+){_IN}?"),
    (
        "grep",
        r"(?P<sure>search(?! the (?:web|internet))(?: the code(?:base)?| files)?(?: for)?|look for|grep(?: for)?|rg)"
        rf" (?P<pattern>.+?){_IN}?",
    ),
    ("grep", rf"(?P<sure>find) (?P<pattern>.+?){_IN}"),
    ("glob", rf"find(?: the)?{_FILE} {_PATH}"),
)
_PATTERNS = [(kind, re.compile(form, re.IGNORECASE | re.DOTALL)) for kind, form in _FORMS]
_COMMAND = re.compile(
    rf"(?:(?:run|exec(?:ute)?|shell|bash|command|terminal){_A_COMMAND}\s{{0,3}}:|\$)\s*(?P<command>.+)",
    re.IGNORECASE | re.DOTALL,
)
_PLAN = re.compile(
    r"(?:(?:make|create|update|set)(?: an?| the| your)? )?plan:\s*(?P<steps>.+)", re.IGNORECASE | re.DOTALL
)
_TOOL = re.compile(
    r"(?:(?P<verb>call|use|invoke|run|execute|try)(?: the)?(?: tool| function)? )?`?(?P<tool>[\w.:-]*\w)`?"
    r"(?P<said> tool| function)?"
    r"(?:\s{0,3}\((?P<inner>.*)\)|\s{1,3}to [a-z].*"
    r"|\s{1,3}(?:with|for|on|using|in)?\s{0,3}(?:the )?(?:arguments?|input)?:?\s{0,3}(?P<words>.+))?",
    re.IGNORECASE | re.DOTALL,
)
_READ_BACK = re.compile(
    r"(?:read|cat|show|print|open|display|check)(?: me)? (?:it|(?:that|the|this) file|its contents?)"
    r"(?: back| again| out| to me)*[.!?]?",
    re.IGNORECASE,
)
_GETTER = re.compile(r"^(?:get|fetch|lookup|look_up|query|current)_(?:(?:the|current|latest)_)*")
_VAGUE = {"info", "data", "forecast"}
_ABOUT = re.compile(r"\b(?:in|for|of|at|about)\s{1,3}(?P<words>.+)$", re.IGNORECASE | re.DOTALL)
_NOWADAYS = re.compile(r"(?:\s{1,3}(?:right now|today|now|currently|like))+$", re.IGNORECASE)


def parse_action(clause: str, tools: Sequence[str]) -> Action | None:
    """Parse a clause of the user's text. Return None if it requests no action.

    `tools` are the names of the tools that the client offers.
    """
    text = _without_preamble(clause)
    if command := _COMMAND.fullmatch(text):
        return Action(kind="shell", command=unquoted(command["command"]))
    if plan := _PLAN.fullmatch(text):
        return Action(kind="plan", content=unquoted(plan["steps"]))
    text = re.sub(r"(?<=[\w`\"')*/])[.?,;:]{1,4}$", "", text)
    if called := _parse_tool_call(text, tools):
        return called
    text = _AFTERTHOUGHT.sub("", text)
    for kind, pattern in _PATTERNS:
        found = pattern.fullmatch(text)
        if found and (action := _action_from_match(kind, found)):
            return action
    return _parse_topic(text, tools)


def is_open_ended(clause: str) -> bool:
    """Return whether a clause has the form `run: …` or `plan: …`. Such a clause extends to the end of the line."""
    text = _without_preamble(clause)
    return _COMMAND.match(text) is not None or _PLAN.match(text) is not None


def repeat_action(before: Action, clause: str) -> Action | None:
    """Parse a clause that makes sense only after the action `before`. Return None for any other clause.

    Examples are `b.txt` in `read a.txt and b.txt`, and `read it back` in `write a.txt, then read it back`.
    """
    found = re.fullmatch(rf"(?:the )?(?:file )?{_PATH}(?: file)?[.!?]?", clause.strip(), re.IGNORECASE)
    if before.path and _READ_BACK.fullmatch(_without_preamble(clause)):
        return Action(kind="read", path=before.path)
    if before.kind not in ("read", "list") or not found:
        return None
    path = found["path"].rstrip(".!?")
    return replace(before, path=unquoted(path)) if _is_path(path) or unquoted(path) != path else None


def find_tool(name: str, tools: Sequence[str]) -> str | None:
    """Return the tool with this name. If there is none, compare again, ignoring case and server prefixes.

    Return None if no name matches.
    """
    wanted = name.lower()
    exact = (tool for tool in tools if tool == name)
    similar = (tool for tool in tools if wanted in (tool.lower(), _without_server(tool).lower()))
    return next(exact, None) or next(similar, None)


def _without_preamble(clause: str) -> str:
    """Return the clause without a bullet and without polite words at its beginning."""
    text = _BULLET.sub("", clause.strip())
    polite = _POLITE.match(text)
    return text[polite.end() :] if polite else text


def _action_from_match(kind: ActionKind, found: re.Match[str]) -> Action | None:
    groups = found.groupdict()
    path = groups.get("path") or ""
    is_quoted = path[:1] in ("`", '"', "'")
    action = Action(
        kind=kind,
        path=unquoted(path) if is_quoted else path.rstrip("!"),
        command=unquoted(groups.get("command") or ""),
        content=unquoted(groups.get("content") or ""),
        pattern=unquoted(groups.get("pattern") or ""),
        new=unquoted(groups.get("new") or ""),
    )
    if kind == "shell":
        return (
            None if re.match(r"(?:the|an?|some|my|all|it|this|that|your)\b", action.command, re.IGNORECASE) else action
        )
    is_sure = is_quoted or bool(groups.get("file")) or (bool(groups.get("sure")) and path.lower() not in _NO_NAMES)
    if not is_sure and not _is_path(path):
        return None
    if kind == "read" and action.path.lower() == "readme":
        return replace(action, path="README.md")
    if kind == "read" and (action.path in (".", "..") or action.path.endswith("/")):
        return replace(action, kind="list")
    return replace(action, path="", pattern=action.path) if kind == "glob" and not action.pattern else action


def _is_path(token: str) -> bool:
    is_spelled = bool(re.search(r"[\w*]\.\w|[/\\~]|^\.{1,2}\w*$", token))
    return is_spelled or token.lower() in _FILE_NAMES


def _parse_tool_call(text: str, tools: Sequence[str]) -> Action | None:
    """Parse a request such as `call get_weather with Tokyo`.

    A name that is not among `tools` is accepted only if the text makes clear that it is the name of a tool.
    """
    found = _TOOL.fullmatch(text)
    if not found:
        return None
    tool = find_tool(found["tool"], tools)
    words = (found["inner"] or found["words"] or "").strip()
    is_spelled = "_" in found["tool"] or words.startswith("{") or bool(found["said"])
    if not tool and found["tool"].lower() in _NO_NAMES:
        return None
    is_call = found["inner"] is not None or words.startswith("{")
    verb = (found["verb"] or "").lower()
    if not (tool and (verb or is_call)) and not (verb in ("call", "invoke", "use") and is_spelled):
        return None
    return Action(kind="tool", tool=tool or found["tool"], words=words)


def _parse_topic(text: str, tools: Sequence[str]) -> Action | None:
    """Parse a question such as `what's the weather in Tokyo`, if there is a tool with a name like `get_weather`."""
    said = set(re.findall(r"[a-z]+", text.lower()))
    for tool in tools:
        name = re.sub(r"(?<=[a-z])(?=[A-Z])|[^A-Za-z]+", "_", _without_server(tool)).lower().strip("_")
        subject = _GETTER.sub("", name)
        topic = set(subject.split("_")) - _VAGUE
        if (subject != name or "weather" in name) and topic and topic <= said:
            about = _ABOUT.search(_NOWADAYS.sub("", text))
            words = about["words"] if about else ""
            return Action(kind="tool", tool=tool, words="" if topic <= set(words.lower().split()) else words)
    return None


def _without_server(tool: str) -> str:
    """Return the tool's name without its server prefix: `mcp__files__read` becomes `read`."""
    return re.split(r"__|[.:/]", tool)[-1]
