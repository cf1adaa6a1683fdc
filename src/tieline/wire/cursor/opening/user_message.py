"""Build the user's message for a run from text and images."""

from base64 import b64decode
from collections.abc import Iterable
from hashlib import sha256
from uuid import UUID

from tieline.model.content import File, Foreign, Image, Message, Part, Text, Thinking, ToolCall, ToolResult
from tieline.model.events import Note, left_out
from tieline.wire.cursor._pb.shared_pb2 import SelectedImage

_NO_TEXT = ("image/", "audio/", "video/", "application/pdf")
"""Media types that are not text, even if their bytes can be decoded."""


class UserMessageBuilder:
    """Collects text, images and tool results from messages. Files become text; a note reports content left out."""

    def __init__(self, notes: list[Note]) -> None:
        self._notes = notes
        self._texts: list[str] = []
        self.images: list[SelectedImage] = []
        self.results: list[ToolResult] = []
        """The tool results in the messages. The caller sends them as history."""

    def __bool__(self) -> bool:
        return bool(self._texts or self.images)

    @property
    def text(self) -> str:
        return "\n\n".join(self._texts)

    def add(self, message: Message) -> None:
        """Add the content of a user or system message."""
        if message.role == "system":
            self.say(reminder(message.parts))
            return
        for part in message.parts:
            self._part(part)

    def say(self, text: str) -> None:
        """Add text, unless it is blank."""
        if text.strip():
            self._texts.append(text)

    def _part(self, part: Part) -> None:
        match part:
            case Text():
                self.say(part.text)
            case Image():
                self._image(part)
            case File():
                self.say(as_text(part, self._notes))
            case ToolResult():
                self._result(part)
            case Foreign() | Thinking() | ToolCall():
                leave_out(part, self._notes)

    def _result(self, result: ToolResult) -> None:
        """Add a tool result. Its images become images of the user's message, after a line that names the call."""
        self.results.append(result)
        pictures = [part for part in result.content if isinstance(part, Image)]
        if pictures:
            self.say(from_result(result))
        for picture in pictures:
            self._image(picture)

    def _image(self, part: Image) -> None:
        data = _decoded(part.data)
        if data:
            image_id = sha256(b"%d:" % len(self.images) + data).digest()
            self.images.append(
                SelectedImage(
                    uuid=str(UUID(bytes=image_id[:16], version=4)),
                    mime_type=part.media_type or "image/png",
                    data=data,
                )
            )
        else:
            self.say(as_text(part, self._notes))


def as_text(part: Image | File, notes: list[Note]) -> str:
    """Return a part as text: the text of a file, or a line that says which image or file is left out.

    If the content is left out, add a note to `notes`.
    """
    kind = "image" if isinstance(part, Image) else "file"
    name = part.name if isinstance(part, File) and part.name else part.media_type or kind
    if part.url is not None:
        notes.append(left_out(f"{kind} by URL", f"the upstream cannot fetch {part.url[:200]!r}"))
        return f"[{kind}: {part.url}]"
    text = _text_of(part) if isinstance(part, File) else None
    if text is None:
        notes.append(left_out(f"{kind} {name}", "the upstream does not support it"))
        return f"[{kind} left out: {name}]"
    return f'<file name="{name}">\n{text}\n</file>'


def reminder(parts: Iterable[Part]) -> str:
    """Return the text of a system message as a reminder in `<system-reminder>` tags, which models recognize."""
    texts = [part.text for part in parts if isinstance(part, Text) and part.text.strip()]
    text = "\n\n".join(texts)
    if not text or text.lstrip().startswith("<system-reminder>"):
        return text
    return f"<system-reminder>\n{text}\n</system-reminder>"


def from_result(result: ToolResult) -> str:
    """Return the line that introduces the images of a tool result."""
    return f"From the result of tool call {result.call_id}:"


def leave_out(part: Part, notes: list[Note]) -> None:
    """Add a note that a part cannot be sent and is left out."""
    what = part.kind if isinstance(part, Foreign) else type(part).__name__
    notes.append(left_out(what, "the upstream has no such part here"))


def _text_of(part: File) -> str | None:
    data = None if part.media_type.startswith(_NO_TEXT) else _decoded(part.data)
    if data is None or b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _decoded(data: str | None) -> bytes | None:
    """Decode base64. Return None if it is invalid, so that a damaged image or file does not end the run."""
    if data is None:
        return None
    try:
        decoded = b64decode(data)
    except ValueError:
        return None
    return decoded if decoded or not data else None
