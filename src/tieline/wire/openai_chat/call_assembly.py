"""The tool calls of one answer, put together from whatever pieces an upstream sends.

The spec gives every piece the index of its call and the id and name once, in the first. Upstreams leave out the index,
the id or both, use one index for all calls, repeat the name in every piece, or send the arguments before it. Here is
decided which call a piece belongs to. A call begins when its name is known and its arguments have begun, or when
something else follows it: one that is cut off before that is never given out.
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


class _Call:
    """One call under way; itself the key of its part."""

    __slots__ = ("ended", "freeform", "held", "id", "name", "started", "state", "text", "wrapped")

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.started = False
        self.ended = False
        self.freeform = False
        self.wrapped = False
        """Whether raw text stands in a field of JSON arguments."""
        self.held: list[str] | None = []
        """Arguments that may not be given out yet; None once they flow."""
        self.text = ""
        """The arguments of a call that has ended."""
        self.state: dict[str, str] = {}
        """What the provider wants back with the call."""


class Calls:
    """Gives pieces of calls to the parts of an answer."""

    def __init__(self, parts: PartsWriter, tool_names: ToolNames, before: Callable[[], None]) -> None:
        self.seed = ""
        """What makes ids of our own differ from those of any other answer."""
        self.notes: list[Note] = []
        self._before = before
        self._parts = parts
        self._tool_names = tool_names
        self._all: list[_Call] = []
        self._keyed: dict[object, _Call] = {}
        self._last: _Call | None = None
        self._ids: set[str] = set()
        self.is_changed = False
        """Whether a call is not what the upstream sent."""

    @property
    def open(self) -> bool:
        """Whether a call has begun and not ended."""
        return any(call.started and not call.ended for call in self._all)

    def is_regular(self, piece: CallDelta, position: int) -> bool:
        """Return whether a piece is as the spec has it, so that a client may get it unchanged."""
        function, index = piece.function, position if piece.index is None else piece.index
        if function is None or isinstance(function.arguments, dict | list):
            return False
        if index == len(self._all):
            is_same = self._tool_names.to_client(function.name or "") == function.name
            return is_same and bool(piece.id) and not self._tool_names.freeform
        return index == len(self._all) - 1 and not piece.id and not function.name

    def add(self, piece: CallDelta, place: tuple[int, int]) -> None:
        """One piece of a call; `place` is its choice and its position there, for upstreams that give no index."""
        name, text = _said(piece)
        if not (piece.id or name or text):
            return
        key: object = (place[0], piece.index) if piece.index is not None else piece.id or ("place", place)
        call = self._find(key, piece, name, text)
        if self._repeats(call or self._keyed.get(piece.id), name, text):
            return
        if call is None:
            call = self._last = _Call()
            self._all.append(call)
            self._keyed[key] = call
        if piece.id:
            self._keyed[piece.id] = call
        self._learn(call, piece, name)
        if text:
            if call.name and not call.started:
                self._start(call, self._tool_names.to_client(call.name))
            self._add_text(call, text)

    def close_complete(self, starting: _Call | None = None) -> None:
        """End the calls whose arguments are whole, so that what comes next need not wait for them.

        A call that waits for its arguments begins before what comes next, which may be the call that is `starting`.
        """
        waiting = takewhile(lambda call: call is not starting, self._all)
        for call in [call for call in waiting if call.name and not call.started]:
            self._begin(call, self._tool_names.to_client(call.name))
        for call in self._all:
            if call.started and not call.ended and not call.freeform and is_object(self._sent(call)):
                self._end(call)

    def close(self, cut: bool) -> None:
        """No more pieces will come; `cut` says that the last call may lack some of its arguments."""
        for call in list(self._all):
            if call.started or not (call.name or call.held):
                pass
            elif not call.name:
                self._note("unnamed_call", f"a tool call came without a name and was called {UNNAMED}")
                self._start(call, UNNAMED)
            elif cut:
                self._note("cut_call", f"{call.name} was cut off before its arguments and is left out")
                self._all.remove(call)  # or the next call that starts would begin it first
            else:
                self._start(call, self._tool_names.to_client(call.name))
            if call.started and not call.ended:
                self._end(call, cut)

    @property
    def incomplete(self) -> bool:
        """Whether a call has begun its arguments and not finished them."""
        return any(text.startswith("{") and not is_object(text) for text in self._open_texts())

    @property
    def bare(self) -> bool:
        """Whether a call waits for the first of its arguments."""
        return not all(self._open_texts())

    def _open_texts(self) -> list[str]:
        begun = [call for call in self._all if call.name or call.held]
        return [self._sent(call).strip() for call in begun if not call.ended and not call.freeform]

    # ── Which call ───────────────────────────────────────────────────────────────────────────────

    def _find(self, key: object, piece: CallDelta, name: str, text: str) -> _Call | None:
        call = self._keyed.get(key)
        if piece.index is None and not piece.id:
            return None if name else call or self._last
        if call is None or not name:
            return call
        if piece.id and call.id:
            return call if piece.id == call.id else None
        if call.name and name != call.name:
            return None
        again = text.lstrip().startswith("{") and not piece.id and is_object(self._sent(call))
        return None if again else call

    def _repeats(self, call: _Call | None, name: str, text: str) -> bool:
        """Whether this is a whole call a second time, or all of its arguments."""
        if call is None or name not in ("", call.name) or not text.lstrip().startswith("{"):
            return False
        return text == self._sent(call) and is_object(text)

    def _learn(self, call: _Call, piece: CallDelta, name: str) -> None:
        if piece.id and not call.id:
            call.id = piece.id
        if _is_custom(piece):
            call.freeform = True
        state = state_in(piece) if piece.extra_content else None
        if state:
            call.state = state
            if call.started and not call.ended:
                self._parts.revise(call, self._part(call, self._tool_names.to_client(call.name)))
        if name and not call.name:
            call.name = name
            self._before()
            if call.held:
                self._start(call, self._tool_names.to_client(name))

    # ── Beginning, middle, end ───────────────────────────────────────────────────────────────────

    def _start(self, call: _Call, name: str) -> None:
        self._before()
        self.close_complete(starting=call)
        self._begin(call, name)

    def _begin(self, call: _Call, name: str) -> None:
        self._choose_id(call)
        if name in self._tool_names.freeform and not call.freeform:
            call.freeform = call.wrapped = True
        call.started = True
        self._parts.start(call, self._part(call, name))
        if call.held:
            text = "".join(call.held)
            call.held = []
            self._add_text(call, text)

    def _part(self, call: _Call, name: str) -> ToolCall:
        meta = {STATE: call.state} if call.state else NO_META
        return ToolCall(id=call.id, name=name, freeform=call.freeform, meta=meta)

    def _choose_id(self, call: _Call) -> None:
        if call.id in self._ids:
            self._note("repeated_id", f"two tool calls came with the id {call.id}: the second got another")
            call.id = ""
        if not call.id:
            number = self._all.index(call)
            call.id = "call_" + sha256(f"{self.seed}:{number}".encode("utf-8", "replace")).hexdigest()[:24]
        self._ids.add(call.id)

    def _add_text(self, call: _Call, text: str) -> None:
        """Arguments flow as soon as they can only be those of an object: anything else may have to be mended whole."""
        if call.ended:
            if text.strip():
                self._note("late_arguments", f"arguments after the end of {call.name} were left out")
        elif call.held is None:
            self._parts.add(call, text)
        elif call.started and not call.wrapped and (call.freeform or _begins_object(call.held, text)):
            call.held = None
            self._parts.add(call, text)
        else:
            call.held.append(text)

    def _end(self, call: _Call, cut: bool = False) -> None:
        if call.held is not None:
            text = "".join(call.held)
            mended = self._mended(call, text, cut)
            self.is_changed = self.is_changed or mended != text
            self._parts.add(call, mended)
        call.text = self._parts.text_of(call)
        call.ended = True
        self._parts.end(call)

    def _sent(self, call: _Call) -> str:
        """All arguments so far."""
        if call.ended:
            return call.text
        return self._parts.text_of(call) if call.held is None else "".join(call.held)

    def _mended(self, call: _Call, text: str, cut: bool) -> str:
        """The arguments of a call that were held back, in the form they should have had."""
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
            self._note("arguments_in_string", f"the arguments of {call.name} came as a JSON string of an object")
            return inner
        return text

    def _unwrapped(self, call: _Call, text: str) -> str:
        try:
            arguments = decode_any(text)
        except (ValueError, RecursionError):
            arguments = None
        if isinstance(arguments, dict) and isinstance(arguments.get("input"), str):
            return str(arguments["input"])
        self._note(
            "freeform_arguments", f"{call.name} was not called with one text: its arguments are given as they are"
        )
        return text

    def _note(self, kind: str, message: str) -> None:
        self.is_changed = True
        self.notes.append(Note(kind=kind, message=message))


def _begins_object(held: list[str], text: str) -> bool:
    """Whether arguments begin here; an empty object may be all of them, or stand there before the real ones."""
    beginning = text.strip()
    return beginning.startswith("{") and beginning != "{}" and "".join(held).strip() in ("", "{}")


def _said(piece: CallDelta) -> tuple[str, str]:
    """The name and the arguments in a piece."""
    if piece.custom is not None and _is_custom(piece):
        return piece.custom.name or "", piece.custom.input or ""
    if piece.function is None:
        return "", ""
    return piece.function.name or "", _argument_text(piece.function)


def _is_custom(piece: CallDelta) -> bool:
    """Whether a piece is of a freeform call. Some upstreams send an empty `custom` beside every `function`."""
    function, custom = piece.function, piece.custom
    if function is not None and (function.name or function.arguments):
        return False
    if custom is not None and (custom.name or custom.input or function is None):
        return True
    return piece.type == "custom"


def _argument_text(function: FunctionShape) -> str:
    arguments: str | dict[str, Raw] | list[Raw] | None = function.arguments
    if arguments is None or isinstance(arguments, str):
        return arguments or ""
    return encode(arguments).decode()
