"""Descriptions and schemas of the tools that Anthropic defines and the client runs.

A request refers to such a tool by its type and contains neither a description nor a schema. Upstreams that use
other protocols need both. They call the tool by the name that the client uses, so their calls need no translation.
"""

import re
from typing import Any

from tieline.wire.shared.json import encode

_TYPE = re.compile(r"(bash|text_editor|memory|computer)_(\d{8})\Z")

_PATH = {"type": "string", "description": "The absolute path of the file or directory."}
_EDITING: dict[str, Any] = {
    "path": _PATH,
    "file_text": {"type": "string", "description": "`create`: the whole text of the new file."},
    "old_str": {"type": "string", "description": "`str_replace`: the text to replace; it must occur exactly once."},
    "new_str": {"type": "string", "description": "`str_replace`: the text to put in its place."},
    "insert_line": {"type": "integer", "description": "`insert`: the line after which to insert, 0 for the beginning."},
    "insert_text": {"type": "string", "description": "`insert`: the text to insert."},
    "view_range": {
        "type": "array",
        "items": {"type": "integer"},
        "description": "`view`: first and last line to show; -1 as the last means the end of the file.",
    },
}
_ACTIONS = (
    *("key", "type", "mouse_move", "left_click", "left_click_drag", "right_click", "middle_click", "double_click"),
    *("screenshot", "cursor_position"),
)
_LATER_ACTIONS = ("left_mouse_down", "left_mouse_up", "scroll", "hold_key", "wait", "triple_click")


def described(kind: str, tool: dict[str, Any]) -> tuple[str, bytes] | None:
    """Return the description and schema for a tool of the type `kind`; None if clients do not run tools of this type.

    `tool` is the tool's object in the request; some of its members, such as the screen size, change the result.
    """
    match = _TYPE.match(kind)
    if match is None:
        return None
    family, version = match.groups()
    match family:
        case "bash":
            text, schema = _bash()
        case "text_editor":
            text, schema = _text_editor(version)
        case "memory":
            text, schema = _memory()
        case _:
            text, schema = _computer(version, tool)
    return text, encode(schema)


def _bash() -> tuple[str, Any]:
    text = "Run commands in a bash shell that keeps its state between calls."
    command = {"type": "string", "description": "The command to run; needed unless the shell is restarted."}
    restart = {"type": "boolean", "description": "Restart the shell instead of running a command."}
    return text, _object({"command": command, "restart": restart})


def _text_editor(version: str) -> tuple[str, Any]:
    commands = ["view", "create", "str_replace", "insert"]
    if version < "20250429":
        commands.append("undo_edit")
    editing = dict(_EDITING)
    if version < "20250728":  # these versions also use `new_str` for the text to insert
        del editing["insert_text"]
        editing["new_str"] = {"type": "string", "description": "The new text of `str_replace` or `insert`."}
    text = "View, create and edit text files. `view` shows a file with line numbers, or lists a directory."
    return text, _object({"command": _one_of(commands), **editing}, "command", "path")


def _memory() -> tuple[str, Any]:
    commands = ["view", "create", "str_replace", "insert", "delete", "rename"]
    text = (
        "Keep notes in files below /memories that last longer than this conversation. View the directory before you "
        "begin, and save there what should be known later."
    )
    moved = {
        "old_path": {"type": "string", "description": "`rename`: the present path."},
        "new_path": {"type": "string", "description": "`rename`: the new path."},
    }
    return text, _object({"command": _one_of(commands), **_EDITING, **moved}, "command")


def _computer(version: str, tool: dict[str, Any]) -> tuple[str, Any]:
    actions = [*_ACTIONS, *(_LATER_ACTIONS if version >= "20250124" else ())]
    if tool.get("enable_zoom"):
        actions.append("zoom")
    size = f"{tool.get('display_width_px', '?')} x {tool.get('display_height_px', '?')} pixels"
    text = f"Use the mouse, keyboard and screen of a computer. The screen has {size}; `screenshot` shows it."
    point = {"type": "array", "items": {"type": "integer"}}
    return text, _object(
        {
            "action": _one_of(actions),
            "coordinate": {**point, "description": "x and y of the point where the mouse is to act."},
            "start_coordinate": {**point, "description": "`left_click_drag`: where the drag begins."},
            "text": {"type": "string", "description": "`type`: what to type; `key`, `hold_key`: the keys (ctrl+s)."},
            "scroll_direction": _one_of(["up", "down", "left", "right"]),
            "scroll_amount": {"type": "integer", "description": "`scroll`: how many steps."},
            "duration": {"type": "number", "description": "`hold_key` and `wait`: seconds."},
            "region": {**point, "description": "`zoom`: x0, y0, x1 and y1 of what to enlarge."},
        },
        "action",
    )


def _one_of(words: list[str]) -> dict[str, Any]:
    return {"type": "string", "enum": words}


def _object(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **({"required": [*required]} if required else {})}
