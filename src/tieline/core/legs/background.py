"""Recognise background requests: requests that clients make for their own purposes, outside the conversation.

Many clients ask the model for a title, the topic, a summary or follow-up questions, or check a quota. They do so in
separate requests without tools. Such a request must not receive the gateway's tools: the user does not know about it
and could not judge the approvals it would ask for.

No protocol marks such requests, so they are recognised by the prompts that real clients send: OpenCode, Kilo, Crush and
Goose ("You are a title generator", "generate a short title", "session title"), Claude Code (topic detection, titles,
summaries, the one-token quota check), Codex (titles, compaction), Gemini CLI and Qwen Code (the next-speaker
check, history compression), Open WebUI ("### Task: Generate a concise title …", tags, follow-ups, search queries),
LibreChat, Zed, Copilot. In case of doubt, a request is treated as a background request, and the model answers without
tools.
"""

import re
from collections.abc import Iterator

from tieline.model.content import Text
from tieline.model.request import Request

MAX_BACKGROUND_TOKENS = 64
"""A request with this token limit, or a lower one, is treated as a background request."""
OPENING = 600
"""Number of characters that are searched at the beginning of a text, and again at its end."""

_THREAD = r"(?:conversation|chat|thread|session|discussion|dialogue|messages?|history|transcript|exchange)"
_MAKE = r"(?:generat|creat|writ|craft|provid|giv|extract|suggest|summari[sz]|produc|nam)\w*"
_LABEL = r"(?:titles?|names?|topics?|headline|summar(?:y|ies)|tags|labels?|follow[- ]?ups?|search quer(?:y|ies)|emoji)"
_INSTRUCTIONS = re.compile(
    rf"title generator|\b{_MAKE}\b[^.\n]{{0,80}}\btitles?\b|\bpithy titles\b|new {_THREAD} topic"
    rf"|\bsummari[sz]\w*\b[^.\n]{{0,60}}\b{_THREAD}\b|\bnext speaker\b|\bcommit messages?\b",
    re.IGNORECASE,
)
"""Matches the system prompt of a background request."""
_REQUEST = re.compile(
    rf"\A\W*task:?\s+{_MAKE}\b[^\n]{{0,80}}\b(?:{_LABEL}|questions)\b"
    rf"|\b{_MAKE}\b[^.\n]{{0,80}}\b{_LABEL} (?:for|of|summari[sz]ing|about) (?:this|the|our|that) {_THREAD}"
    r"(?: history| so far| above| below)?(?:\W*\Z|[.,:;!?\n])"
    rf"|\b(?:this|the|our) {_THREAD}\b[^.\n]{{0,60}}\b{_MAKE}\b[^.\n]{{0,40}}\btitle\b"
    rf"|\bgenerat\w*[^.\n]{{0,30}}\b{_THREAD} (?:title|name|summary)\b"
    r"|\bimmediately preceding response\b|\bcontext checkpoint compaction\b"
    rf"|\bsummari[sz]e this {_THREAD} so that it can be continued\b",
    re.IGNORECASE,
)
"""Matches a background request in the user's last message. Such a request refers to the conversation itself."""


def is_background(request: Request) -> bool:
    """Return whether a request without tools looks like a background request."""
    limit = request.sampling.max_tokens
    if (limit is not None and limit <= MAX_BACKGROUND_TOKENS) or request.output is not None:
        return True
    if request.tool_choice.mode == "none":
        return True
    if any(_INSTRUCTIONS.search(text[:OPENING]) for text in _texts(request, "system")):
        return True
    asked = list(_texts(request, "user", is_last=True))
    return any(_REQUEST.search(text[:OPENING]) or _REQUEST.search(text[-OPENING:]) for text in asked)


def _texts(request: Request, role: str, *, is_last: bool = False) -> Iterator[str]:
    """Yield the texts of all messages with this role or, if `is_last` is true, of the last such message only."""
    for message in reversed(request.messages):
        if message.role != role:
            continue
        yield from (part.text for part in message.parts if isinstance(part, Text))
        if is_last:
            return
