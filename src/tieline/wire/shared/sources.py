"""Pass on the original JSON if client and upstream use the same protocol. Only changed members are replaced."""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import asdict

from tieline.model.content import Message
from tieline.model.request import Request, RequestSource
from tieline.model.source import AnswerSource
from tieline.wire.shared.json import encode

_ANY: msgspec.json.Decoder[Any] = msgspec.json.Decoder()
_MEMBERS = msgspec.json.Decoder(dict[str, Raw])
_LIST = msgspec.json.Decoder(list[dict[str, Raw]])
_ABSENT = (None, Raw(), Raw(b"null"))

_EXACT = frozenset(["parameters", "input_schema", "schema"])
"""Members that hold a schema. Each must equal its translation, because extra members would change the schema."""
_UNCHANGED = ("tool_choice", "sampling", "reasoning", "output", "stream", "user", "cache_key", "extra")
"""Fields of a request that must not have changed since it was parsed; otherwise its source is not used."""


def usable_source(request: Request, protocol: str) -> RequestSource | None:
    """Return the source of a request if it can be reused for an upstream of this protocol, otherwise None."""
    source = request.source
    if source is None or source.protocol != protocol:
        return None
    parsed = source.parsed
    is_unchanged = all(getattr(request, name) is getattr(parsed, name) for name in _UNCHANGED)
    return source if is_unchanged else None


def members_of(shape: Struct) -> dict[str, Any]:
    """Return the members that a client sent, from the fields of its decoded request."""
    return {name: value for name, value in asdict(shape).items() if value not in _ABSENT}


def settings_of(sent: Mapping[str, Any], translated: Mapping[str, Any], own: Set[str]) -> dict[str, Any]:
    """Return the members of a request: those in `sent`, with some replaced by their translation.

    A member is replaced if it does not contain all of its translation. A member whose name is in `own` is always
    replaced, or removed if it has no translation.
    """
    members = {name: value for name, value in sent.items() if name not in own}
    for name, value in translated.items():
        if name not in members or not covers(members[name], value):
            members[name] = value
    return members


def covers(sent: Any, translated: Any) -> bool:
    """Return whether `sent` contains all of `translated`. Additional members are allowed if they can be passed on."""
    return _covers(_plain(sent), _plain(translated))


def _covers(sent: Any, translated: Any) -> bool:
    if isinstance(translated, dict):
        if not isinstance(sent, dict) or any(_is_removed(name, sent[name]) for name in sent.keys() - translated.keys()):
            return False
        return all(
            name in sent and (sent[name] == value if name in _EXACT else _covers(sent[name], value))
            for name, value in translated.items()
        )
    if isinstance(translated, list):
        return isinstance(sent, list) and len(sent) == len(translated) and all(map(_covers, sent, translated))
    return bool(sent == translated) and type(sent) is type(translated)


def _is_removed(name: str, value: Any) -> bool:
    """Return whether a member must not be passed on. Some upstreams reject null, empty strings or cache marks."""
    return value is None or value == "" or name == "cache_control"


def _plain(value: Any) -> Any:
    """Return the value with any Raw inside it decoded."""
    return _ANY.decode(encode(value)) if isinstance(value, dict | list | Raw) else value


def message_texts(messages: Iterable[Message], source: RequestSource, build: Callable[[Message], bytes]) -> list[bytes]:
    """Return the JSON text of each message: unchanged messages as the client sent them, others encoded by `build`."""
    texts = dict(zip(map(id, source.parsed.messages), source.messages, strict=True))
    written = [texts.get(id(message)) or build(message) for message in messages]
    return [text for text in written if text]


def with_messages(members: Mapping[str, Any], texts: Sequence[bytes]) -> bytes:
    """Return the JSON of a request with these members, followed by an array of messages with these JSON texts.

    The texts are copied only once, because they can be large.
    """
    first, *others = texts or (b"",)
    parts = [encode(members)[:-1], b'"messages":[' + first, *others]
    parts[-1] += b"]}"
    return b",".join(parts)


def with_model(source: AnswerSource, model: str) -> bytes:
    """Return the frames of a batch, with the upstream's model name replaced by the name that the client requested.

    The JSON member is replaced as text. The text of an answer cannot match, because its quotes would be escaped.
    """
    if not source.model:
        return source.text
    name = source.model[: source.model.index(b":") + 1]
    return source.text.replace(source.model, name + encode(model))


def first_frame(source: AnswerSource, without: Set[str]) -> dict[str, Raw]:
    """Return the members of the first frame that contains a JSON object, except those named in `without`."""
    for line in source.text.split(b"\n"):
        if line.startswith(b"data:") and line[5:].lstrip().startswith(b"{"):
            try:
                members = _MEMBERS.decode(line[5:])
            except (ValueError, RecursionError):
                return {}
            return {name: value for name, value in members.items() if name not in without}
    return {}


def merged(written: Mapping[str, Any], source: AnswerSource) -> bytes:
    """Return the JSON of a complete answer: the upstream's object, with the members in `written` replaced or added."""
    return encode({**_MEMBERS.decode(source.text), **written})


def completed(written: Mapping[str, Any], source: AnswerSource, translated: Set[str]) -> bytes:
    """Return the JSON of the answer `written`, completed with members that only the upstream's object has.

    Members named in `translated` are never added: if they are not in `written`, they were left out deliberately.
    """
    return encode(_completed(written, _MEMBERS.decode(source.text), translated))


def _completed(written: Mapping[str, Any], original: dict[str, Raw], translated: Set[str]) -> dict[str, Any]:
    result: dict[str, Any] = {name: value for name, value in original.items() if name not in translated}
    for name, value in written.items():
        raw = bytes(original.get(name, b""))
        if isinstance(value, dict) and raw.startswith(b"{"):
            result[name] = _completed(value, _MEMBERS.decode(raw), translated)
        elif name == "choices" and raw.startswith(b"["):
            others = _LIST.decode(raw)
            is_one = len(others) == len(value) == 1
            result[name] = [_completed(value[0], others[0], translated)] if is_one else value
        elif value is not None or name not in result:
            result[name] = value
    return result
