"""A short cut for streams whose chunks differ only in their text.

Most upstreams repeat everything around the text of a delta byte for byte. Once that frame is known, a chunk that has it
is read by decoding one string in place of the whole object. A frame is taken up only after it was tried: with another
string in the place of the text, the same chunk with that other string has to come out.
"""

import msgspec

from tieline.wire.openai_chat.schema import Choice, Chunk, Delta

_decode = msgspec.json.Decoder(Chunk).decode
_decode_text = msgspec.json.Decoder(str).decode
_encode_text = msgspec.json.Encoder().encode

_FIELDS = {"text": ("content",), "thinking": ("reasoning_content", "reasoning")}
_TRIAL = "\x00"
_ATTEMPTS = 6


class Template:
    """The frame around the text of one kind of delta; `kind` is empty while none is known."""

    __slots__ = ("_after", "_attempts", "_before", "_length", "kind")

    def __init__(self) -> None:
        self.kind = ""
        self._before = self._after = b""
        self._length = 0
        self._attempts = _ATTEMPTS

    def text(self, data: bytes) -> str | None:
        """The text in a chunk of this frame; None if it has another."""
        if not (data.startswith(self._before) and data.endswith(self._after)):
            return None
        try:
            return _decode_text(data[len(self._before) : len(data) - self._length])
        except ValueError:
            return None

    def learn(self, data: bytes, chunk: Chunk, kind: str) -> None:
        """Take up the frame of a chunk, if it says nothing beside its text; after a few attempts, no more."""
        if self._attempts == 0 or not chunk.choices:
            return
        self._attempts -= 1
        for field in _FIELDS.get(kind, ()):
            text = getattr(chunk.choices[0].delta, field, None)
            if isinstance(text, str) and text and chunk == _only(field, text, chunk):
                self._try(data, field, text, chunk, kind)
                return

    def _try(self, data: bytes, field: str, text: str, chunk: Chunk, kind: str) -> None:
        try:
            spelled = _encode_text(text)
            space = b" " if b'": ' in data else b""
            before, found, after = data.partition(b'"%b":%b%b' % (field.encode(), space, spelled))
            before += found.removesuffix(spelled)
            same = _decode(before + _encode_text(_TRIAL) + after) == _only(field, _TRIAL, chunk)
        except ValueError:  # half an emoji in the chunk, or a frame that is none
            return
        if same:
            self.kind = kind
            self._before, self._after, self._length = before, after, len(after)


def _only(field: str, text: str, chunk: Chunk) -> Chunk:
    """The chunk if this text were all it said."""
    choices = chunk.choices or []
    choice = Choice(index=choices[0].index, delta=msgspec.convert({field: text}, Delta))
    return Chunk(id=chunk.id, model=chunk.model, object=chunk.object, choices=[choice])
