"""Assemble the tool calls of one answer from their deltas.

According to the spec, every delta has the index of its call, and the first delta of a call also has the call's id and
name. In practice, some upstreams leave out the index, the id or both, use one index for all calls, repeat the name in
every delta, or send the arguments before the name.

This module decides which call a delta belongs to. A call is emitted once its name is known and its arguments have
begun, or when another part or the end of the answer follows. A call that is cut off before its arguments is not
emitted.
"""

from collections.abc import Callable
from hashlib import sha256
from itertools import takewhile

from msgspec import Raw

from tieline.model.assemble import PartsWriter
from tieline.model.content import NO_META, STATE, ToolCall
from tieline.model.events import Note
from tieline.wire.openai_chat.provider_state import state_in
from tieline.wire.openai_chat.schema import CallDelta, FunctionShape
from tieline.wire.shared.json import decode_any, encode, is_object
from tieline.wire.shared.spelling import ToolNames

UNNAMED = "unknown_tool"


class OpenCall:
    """The state of one call while it is assembled. This object is also the key of the call's part in PartsWriter."""

    __slots__ = ("ended", "freeform", "held", "id", "name", "started", "state", "text", "wrapped")

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.started = False
        self.ended = False
        self.freeform = False
        self.wrapped = False
        """Whether the upstream sends the text of a freeform call wrapped in JSON arguments."""
        self.held: list[str] | None = []
        """Arguments that cannot be emitted yet. None means that arguments are now emitted as they arrive."""
        self.text = ""
        """The complete arguments, once the call has ended."""
        self.state: dict[str, str] = {}
        """Provider state, which must be sent back with the call in the history."""


class CallAssembler:
    """Assembles the calls of one answer and adds them to `parts`.

    `end_prose` is called before a call starts; it must end the open text or thinking part.
    """

    def __init__(self, parts: PartsWriter, tool_names: ToolNames, end_prose: Callable[[], None]) -> None:
        self.seed = ""
        """A text that makes the generated call ids unique to this answer."""
        self.notes: list[Note] = []
        self._end_prose = end_prose
        self._parts = parts
        self._tool_names = tool_names
        self._all: list[OpenCall] = []
        self._keyed: dict[object, OpenCall] = {}
        self._last: OpenCall | None = None
        self._ids: set[str] = set()
        self.is_changed = False
        """Whether an emitted call differs from the call that the upstream sent."""

    @property
    def open(self) -> bool:
        """Whether any call has started but not ended."""
        return any(call.started and not call.ended for call in self._all)

    def is_regular(self, delta: CallDelta, position: int) -> bool:
        """Return whether a delta can be passed on unchanged, because it follows the spec and its tool is not renamed.

        `position` is the position of the delta in `tool_calls`. It replaces a missing index.
        """
        function, index = delta.function, position if delta.index is None else delta.index
        if function is None or isinstance(function.arguments, dict | list):
            return False
        if index == len(self._all):
            is_same = self._tool_names.to_client(function.name or "") == function.name
            return is_same and bool(delta.id) and not self._tool_names.freeform
        return index == len(self._all) - 1 and not delta.id and not function.name

    def add(self, delta: CallDelta, place: tuple[int, int]) -> None:
        """Add a delta to the call that it belongs to.

        `place` consists of the index of the choice and the position of the delta in `tool_calls`. It identifies the
        call if the deltas have neither an index nor an id.
        """
        name, text = _name_and_arguments(delta)
        if not (delta.id or name or text):
            return
        key: object = (place[0], delta.index) if delta.index is not None else delta.id or ("place", place)
        call = self._find(key, delta, name, text)
        if self._is_repeated(call or self._keyed.get(delta.id), name, text):
            return
        if call is None:
            call = self._last = OpenCall()
            self._all.append(call)
            self._keyed[key] = call
        if delta.id:
            self._keyed[delta.id] = call
        self._learn(call, delta, name)
        if text:
            if call.name and not call.started:
                self._start(call, self._tool_names.to_client(call.name))
            self._add_text(call, text)

    def close_complete(self, starting: OpenCall | None = None) -> None:
        """End the calls whose arguments are complete, so that the parts after them need not wait.

        To keep the order of the calls, first start the calls that have a name but no arguments yet. `starting` is the
        call that starts next, if any; only the calls before it are started.
        """
        waiting = takewhile(lambda call: call is not starting, self._all)
        for call in [call for call in waiting if call.name and not call.started]:
            self._begin(call, self._tool_names.to_client(call.name))
        for call in self._all:
            if call.started and not call.ended and not call.freeform and is_object(self._sent(call)):
                self._end(call)

    def close(self, cut: bool) -> None:
        """End all calls. `cut` says whether the answer was cut off, in which case the last call may be incomplete."""
        for call in list(self._all):
            if call.started or not (call.name or call.held):
                pass
            elif not call.name:
                self._note("unnamed_call", f"a tool call without a name was named {UNNAMED}")
                self._start(call, UNNAMED)
            elif cut:
                self._note("cut_call", f"a call to {call.name} was cut off before its arguments and is left out")
                self._all.remove(call)  # otherwise `close_complete` would start it before the next call
            else:
                self._start(call, self._tool_names.to_client(call.name))
            if call.started and not call.ended:
                self._end(call, cut)

    @property
    def incomplete(self) -> bool:
        """Whether any open call has only part of its arguments."""
        return any(text.startswith("{") and not is_object(text) for text in self._open_texts())

    @property
    def lacks_arguments(self) -> bool:
        """Whether any open call has no arguments yet."""
        return not all(self._open_texts())

    def _open_texts(self) -> list[str]:
        begun = [call for call in self._all if call.name or call.held]
        return [self._sent(call).strip() for call in begun if not call.ended and not call.freeform]

    # ── Find the call of a delta ─────────────────────────────────────────────────────────────────

    def _find(self, key: object, delta: CallDelta, name: str, text: str) -> OpenCall | None:
        call = self._keyed.get(key)
        if delta.index is None and not delta.id:
            return None if name else call or self._last
        if call is None or not name:
            return call
        if delta.id and call.id:
            return call if delta.id == call.id else None
        if call.name and name != call.name:
            return None
        again = text.lstrip().startswith("{") and not delta.id and is_object(self._sent(call))
        return None if again else call

    def _is_repeated(self, call: OpenCall | None, name: str, text: str) -> bool:
        """Return whether a delta with this name and text only repeats `call`, whose arguments are already complete."""
        if call is None or name not in ("", call.name) or not text.lstrip().startswith("{"):
            return False
        return text == self._sent(call) and is_object(text)

    def _learn(self, call: OpenCall, delta: CallDelta, name: str) -> None:
        if delta.id and not call.id:
            call.id = delta.id
        if _is_custom(delta):
            call.freeform = True
        state = state_in(delta) if delta.extra_content else None
        if state:
            call.state = state
            if call.started and not call.ended:
                self._parts.revise(call, self._part(call, self._tool_names.to_client(call.name)))
        if name and not call.name:
            call.name = name
            self._end_prose()
            if call.held:
                self._start(call, self._tool_names.to_client(name))

    # ── Start, continue and end a call ───────────────────────────────────────────────────────────

    def _start(self, call: OpenCall, name: str) -> None:
        self._end_prose()
        self.close_complete(starting=call)
        self._begin(call, name)

    def _begin(self, call: OpenCall, name: str) -> None:
        self._choose_id(call)
        if name in self._tool_names.freeform and not call.freeform:
            call.freeform = call.wrapped = True
        call.started = True
        self._parts.start(call, self._part(call, name))
        if call.held:
            text = "".join(call.held)
            call.held = []
            self._add_text(call, text)

    def _part(self, call: OpenCall, name: str) -> ToolCall:
        meta = {STATE: call.state} if call.state else NO_META
        return ToolCall(id=call.id, name=name, freeform=call.freeform, meta=meta)

    def _choose_id(self, call: OpenCall) -> None:
        if call.id in self._ids:
            self._note("repeated_id", f"two tool calls with the id {call.id}: the second got a new id")
            call.id = ""
        if not call.id:
            number = self._all.index(call)
            call.id = "call_" + sha256(f"{self.seed}:{number}".encode("utf-8", "replace")).hexdigest()[:24]
        self._ids.add(call.id)

    def _add_text(self, call: OpenCall, text: str) -> None:
        """Emit arguments of a call, or hold them if the call has not started or if they may need a repair.

        Arguments of a call that has ended are ignored.
        """
        if call.ended:
            if text.strip():
                self._note("late_arguments", f"arguments after the end of a call to {call.name} were ignored")
        elif call.held is None:
            self._parts.add(call, text)
        elif call.started and not call.wrapped and (call.freeform or _begins_object(call.held, text)):
            call.held = None
            self._parts.add(call, text)
        else:
            call.held.append(text)

    def _end(self, call: OpenCall, cut: bool = False) -> None:
        if call.held is not None:
            text = "".join(call.held)
            repaired = self._repaired(call, text, cut)
            self.is_changed = self.is_changed or repaired != text
            self._parts.add(call, repaired)
        call.text = self._parts.text_of(call)
        call.ended = True
        self._parts.end(call)

    def _sent(self, call: OpenCall) -> str:
        """Return all arguments of the call that have been received, whether they were emitted or held."""
        if call.ended:
            return call.text
        return self._parts.text_of(call) if call.held is None else "".join(call.held)

    def _repaired(self, call: OpenCall, text: str, cut: bool) -> str:
        """Return `text`, the held arguments of an ending call, repaired if necessary.

        `cut` says whether the answer was cut off.
        """
        if call.wrapped:
            return self._unwrapped(call, text)
        if call.freeform or (cut and not text):
            return text
        if text.strip() in ("", "null"):
            return "{}"
        try:
            inner = decode_any(text)
        except (ValueError, RecursionError):
            return text
        if isinstance(inner, str) and is_object(inner):
            self._note("arguments_in_string", f"the arguments of {call.name} were an object in a JSON string")
            return inner
        return text

    def _unwrapped(self, call: OpenCall, text: str) -> str:
        try:
            arguments = decode_any(text)
        except (ValueError, RecursionError):
            arguments = None
        if isinstance(arguments, dict) and isinstance(arguments.get("input"), str):
            return str(arguments["input"])
        self._note("freeform_arguments", f"the arguments of {call.name} have no text `input`; they are unchanged")
        return text

    def _note(self, kind: str, message: str) -> None:
        self.is_changed = True
        self.notes.append(Note(kind=kind, message=message))


def _begins_object(held: list[str], text: str) -> bool:
    """Return whether `text` begins an object, and `held` is blank or contains only an empty object.

    `{}` itself does not count: it may be the complete arguments, or precede the real ones.
    """
    beginning = text.strip()
    return beginning.startswith("{") and beginning != "{}" and "".join(held).strip() in ("", "{}")


def _name_and_arguments(delta: CallDelta) -> tuple[str, str]:
    """Return the name and the arguments in a delta; each is empty if missing."""
    if delta.custom is not None and _is_custom(delta):
        return delta.custom.name or "", delta.custom.input or ""
    if delta.function is None:
        return "", ""
    return delta.function.name or "", _argument_text(delta.function)


def _is_custom(delta: CallDelta) -> bool:
    """Return whether a delta belongs to a freeform call.

    An empty `custom` next to a `function` does not count, because some upstreams send it with every call.
    """
    function, custom = delta.function, delta.custom
    if function is not None and (function.name or function.arguments):
        return False
    if custom is not None and (custom.name or custom.input or function is None):
        return True
    return delta.type == "custom"


def _argument_text(function: FunctionShape) -> str:
    arguments: str | dict[str, Raw] | list[Raw] | None = function.arguments
    if arguments is None or isinstance(arguments, str):
        return arguments or ""
    return encode(arguments).decode()
