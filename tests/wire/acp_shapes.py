"""The shapes of the Agent Client Protocol that a client sends: which fields there are, of what type, and which must be.

A shape is a dict of field to type; a field with `?` may be missing. In an object of the protocol `_meta` may always be.
"""

from types import UnionType
from typing import Any

Shape = dict[str, Any]

EMPTY: Shape = {}
NAMED = {"name": str, "value": str}
CLIENT = {
    "fs?": {"readTextFile?": bool, "writeTextFile?": bool},
    "terminal?": bool,
    "session?": {"configOptions?": {"boolean?": EMPTY}, "notices?": EMPTY, "compaction?": EMPTY},
    "auth?": {"terminal?": bool},
    "elicitation?": {"form?": EMPTY, "url?": EMPTY},
}
BLOCKS: dict[str, Shape] = {
    "text": {"type": str, "text": str},
    "image": {"type": str, "data": str, "mimeType": str, "uri?": str},
    "audio": {"type": str, "data": str, "mimeType": str},
    "resource_link": {"type": str, "uri": str, "name": str, "mimeType?": str, "title?": str, "description?": str},
    "resource": {"type": str, "resource": {"uri": str, "mimeType?": str, "text?": str, "blob?": str}},
}
KNOWN_SESSION: Shape = {"sessionId": str, "cwd": str, "mcpServers": list, "additionalDirectories?": [str]}

REQUESTS: dict[str, Shape] = {
    "initialize": {
        "protocolVersion": int,
        "clientCapabilities": CLIENT,
        "clientInfo": {"name": str, "version": str, "title?": str},
    },
    "authenticate": {"methodId": str},
    "logout": EMPTY,
    "session/new": {"cwd": str, "mcpServers": list, "additionalDirectories?": [str]},
    "session/load": KNOWN_SESSION,
    "session/resume": KNOWN_SESSION,
    "session/fork": KNOWN_SESSION,
    "session/list": {"cwd?": str, "cursor?": str},
    "session/close": {"sessionId": str},
    "session/delete": {"sessionId": str},
    "session/set_mode": {"sessionId": str, "modeId": str},
    "session/set_model": {"sessionId": str, "modelId": str},
    "session/set_config_option": {"sessionId": str, "configId": str, "value": str | bool, "type?": str},
    "session/prompt": {"sessionId": str, "prompt": [BLOCKS]},
}
NOTIFICATIONS: dict[str, Shape] = {
    "session/cancel": {"sessionId": str},
    "$/cancel_request": {"requestId": int},
}
CHOSEN: Shape = {"outcome": {"outcome": str, "optionId?": str}, "answers?": dict}
ENDED: Shape = {"exitCode?": int, "signal?": str}
RESULTS: dict[str, Shape] = {
    "session/request_permission": CHOSEN,
    "elicitation/create": {"action": str, "content?": dict},
    "fs/read_text_file": {"content": str},
    "fs/write_text_file": EMPTY,
    "terminal/create": {"terminalId": str},
    "terminal/output": {"output": str, "truncated": bool, "exitStatus?": ENDED},
    "terminal/wait_for_exit": ENDED,
    "terminal/kill": EMPTY,
    "terminal/release": EMPTY,
    "cursor/ask_question": {"outcome": {"outcome": str, "answers?": list, "reason?": str}},
    "cursor/create_plan": {"outcome": {"outcome": str, "reason?": str}},
}


def check_sent(message: dict[str, Any], answers: str) -> None:
    """Assert that a message is one that a client may send; `answers` is the method it answers, if it is an answer."""
    assert message["jsonrpc"] == "2.0"
    method = message.get("method")
    if method is not None:
        shapes = REQUESTS if "id" in message else NOTIFICATIONS
        if "/" not in method or not method.startswith(("_", "cursor/")):
            fits(message["params"], shapes[method], method)
    elif "error" in message:
        fits(message["error"], {"code": int, "message": str, "data?": object}, "error")
    else:
        fits(message["result"], RESULTS.get(answers, EMPTY), f"the answer to {answers}")


def fits(value: Any, shape: Any, where: str) -> None:
    """Assert that a value has a shape."""
    match shape:
        case [one]:
            assert isinstance(value, list), where
            for item in value:
                fits(item, one, where)
        case dict() if shape is BLOCKS:
            fits(value, BLOCKS[value["type"]], where)
        case dict():
            fits_object(value, shape, where)
        case _:
            assert isinstance(shape, type | UnionType)
            assert isinstance(value, shape), f"{where}: {value!r}"
            assert shape is not int or not isinstance(value, bool), where


def fits_object(value: Any, shape: Shape, where: str) -> None:
    assert isinstance(value, dict), where
    fields = {name.removesuffix("?"): kind for name, kind in shape.items()}
    assert value.keys() <= fields.keys() | {"_meta"}, f"{where}: unknown {value.keys() - fields.keys()}"
    missing = {name for name in shape if not name.endswith("?")} - value.keys()
    assert not missing, f"{where}: missing {missing}"
    for name, item in value.items():
        if name in fields:
            fits(item, fields[name], f"{where}.{name}")
