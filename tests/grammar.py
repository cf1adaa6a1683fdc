"""The grammar of a leg, as a check: what model/events.py says in words."""

from collections.abc import Iterable

from tieline.model.content import Foreign, Part, Text, Thinking, ToolCall
from tieline.model.events import (
    Activity,
    Event,
    Failed,
    Finished,
    Note,
    PartDelta,
    PartEnd,
    PartStart,
    Plan,
    Started,
    Usage,
)


def check(events: Iterable[Event]) -> None:
    """Assert that these are the events of exactly one whole leg."""
    leg = list(events)
    assert leg, "a leg has at least an ending"
    *before, ending = leg
    assert isinstance(ending, Finished | Failed), f"the last event is no ending: {ending}"
    if not before:
        assert isinstance(ending, Failed), "only Failed may stand alone"
        return
    first, *middle = before
    assert isinstance(first, Started), f"the first event is not Started: {first}"
    still_open = _check_parts(middle)
    if isinstance(ending, Finished):
        assert still_open is None, f"Finished leaves a part open: {still_open}"


def _check_parts(events: Iterable[Event]) -> PartStart | None:
    """Check what stands between Started and the ending; the part that is open at the end."""
    index = 0
    start: PartStart | None = None
    text: list[str] = []
    for event in events:
        match event:
            case PartStart():
                assert start is None, f"part {event.index} begins while another is open"
                assert event.index == index, f"part {event.index} begins where {index} is next"
                assert not _text(event.part), f"a part begins with text in it: {event}"
                start = event
                text.clear()
            case PartDelta():
                assert start is not None, f"a delta outside of any part: {event}"
                assert event.index == index, f"a delta of part {event.index} while {index} is open"
                assert event.text, "an empty delta"
                text.append(event.text)
            case PartEnd():
                assert start is not None, f"an end outside of any part: {event}"
                assert event.index == index, f"the end of part {event.index} while {index} is open"
                _check_whole(start.part, event.part, "".join(text))
                start = None
                index += 1
            case Usage() | Note() | Activity() | Plan():
                pass
            case Started() | Finished() | Failed():
                raise AssertionError(f"{type(event).__name__} in the middle of a leg")
    return start


def _check_whole(begun: Part, whole: Part, text: str) -> None:
    assert type(begun) is type(whole), f"began as {begun}, ended as {whole}"
    match begun, whole:
        case Thinking(), Thinking():
            assert begun.redacted == whole.redacted
        case ToolCall(), ToolCall():
            assert (begun.id, begun.name, begun.freeform) == (whole.id, whole.name, whole.freeform)
        case Foreign(), Foreign():
            assert (begun.protocol, begun.kind) == (whole.protocol, whole.kind)
        case _:
            pass
    if isinstance(whole, Text | Thinking | ToolCall):
        assert text == _text(whole), f"the deltas {text!r} are not the text of {whole}"
    else:
        assert not text, f"a part of this kind has no deltas: {whole}"


def _text(part: Part) -> str:
    match part:
        case Text() | Thinking():
            return part.text
        case ToolCall():
            return part.arguments
        case _:
            return ""
