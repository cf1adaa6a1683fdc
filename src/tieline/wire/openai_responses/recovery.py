"""Change a request that the upstream rejected, so that it can be sent again.

Encrypted reasoning is valid only for the account and the model that wrote it, and some models do not support it at all.
Item ids cause an error if the upstream looks for items that it did not store. The gateway cannot detect these problems
before the upstream rejects the request.
"""

import re
from collections.abc import Callable

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from tieline.model.events import Failed, Note
from tieline.wire.openai_responses.parse import ENCRYPTED
from tieline.wire.shared.json import encode
from tieline.wire.shared.spelling import BuiltRequest

_NO_ITEM = re.compile(r"\bitem with id .{1,200} not found", re.IGNORECASE)
_NOT_DECRYPTED = re.compile(r"could not be (verified|decrypted)", re.IGNORECASE)
_NOT_ENCRYPTED = re.compile(r"encrypted content is not supported", re.IGNORECASE)
_REJECTED = frozenset((400, 404, 422))
_WITHOUT_ID = frozenset(
    [
        *("message", "reasoning", "function_call", "function_call_output"),
        *("custom_tool_call", "custom_tool_call_output"),
    ]
)
"""The types of items that are valid without an id."""

_BODY = msgspec.json.Decoder(dict[str, Raw])
_INPUT = msgspec.json.Decoder(list[dict[str, Raw]])
_TEXT = msgspec.json.Decoder(str)
_WORDS = msgspec.json.Decoder(list[str])
_REASONING = b'"reasoning"'

Members = dict[str, Raw]
Change = Callable[[Members], bool]
"""A function that changes the members of a request in place and returns whether it changed anything."""


def recovered(built: BuiltRequest, failed: Failed) -> BuiltRequest | None:
    """Return the request without the content that the upstream rejected.

    Return None if the error has another cause, or if the request no longer contains such content, so that repeated
    attempts come to an end.
    """
    if failed.code == "invalid_encrypted_content" or _NOT_DECRYPTED.search(failed.message):
        return _changed(built, _without_reasoning, "the upstream cannot read its earlier reasoning, which was left out")
    if _NO_ITEM.search(failed.message):
        return _changed(built, _without_ids, "the upstream does not know the ids of earlier items, which were left out")
    if lacks_encryption(failed):
        return _changed(built, _without_encryption, "the model supports no encrypted reasoning; none was requested")
    return None


def rejects_checkpoint(failed: Failed) -> bool:
    """Return whether a request that continues a stored response may succeed with the whole history instead.

    Servers report in many ways that they do not know a response, or one of its calls. So every rejection counts: if it
    has another cause, the request with the whole history fails for the same reason.
    """
    return failed.code == "previous_response_not_found" or failed.status in _REJECTED


def lacks_encryption(failed: Failed) -> bool:
    """Return whether a request failed because the model does not support encrypted reasoning."""
    return _NOT_ENCRYPTED.search(failed.message) is not None


def _changed(built: BuiltRequest, change: Change, message: str) -> BuiltRequest | None:
    body = _BODY.decode(built.body)
    if not change(body):
        return None
    return replace(built, body=encode(body), notes=(*built.notes, Note(kind="retry", message=message)))


def _without_reasoning(body: Members) -> bool:
    """Remove all reasoning items from `body`. Return whether there were any."""
    items = _items(body)
    kept = [item for item in items if bytes(item.get("type", Raw())) != _REASONING]
    if len(kept) == len(items):
        return False
    body["input"] = Raw(encode(kept))
    return True


def _without_ids(body: Members) -> bool:
    """Remove optional item ids, and reasoning items without encrypted content, from `body`.

    Return whether there were any.
    """
    items = _items(body)
    kept = [_without_id(item) for item in items if not _is_only_id(item)]
    if kept == items:
        return False
    body["input"] = Raw(encode(kept))
    return True


def _without_encryption(body: Members) -> bool:
    words = _WORDS.decode(body["include"]) if "include" in body else []
    if ENCRYPTED not in words:
        return False
    body["include"] = Raw(encode([word for word in words if word != ENCRYPTED]))
    return True


def _items(body: Members) -> list[Members]:
    given = body["input"]
    return [] if bytes(given).startswith(b'"') else _INPUT.decode(given)


def _without_id(item: Members) -> Members:
    kind = _TEXT.decode(item["type"]) if "type" in item else "message"
    return {name: value for name, value in item.items() if name != "id" or kind not in _WITHOUT_ID}


def _is_only_id(item: Members) -> bool:
    is_reasoning = bytes(item.get("type", Raw())) == _REASONING
    return is_reasoning and bytes(item.get("encrypted_content", Raw(b"null"))) in (b"null", b'""')
