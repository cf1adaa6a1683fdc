"""Match tool results to their calls, and mark failed results in their text."""

from collections.abc import Sequence

from msgspec.structs import replace

from tieline.model.content import File, Image, Part, Text, ToolCall, ToolResult

_FAILURES = ("error", "<tool_use_error>")


def match_results(
    results: list[ToolResult], tools: Sequence[str | None], calls: Sequence[Part], earlier: Sequence[ToolResult]
) -> tuple[list[ToolResult], list[ToolCall]]:
    """Set missing call ids in `results` where they can be inferred. Return the results, and the calls without a result.

    A result is matched to a call by the name of the tool, or by order if there are as many results without an id as
    unanswered calls. `tools` contains the tool name of each result, or None if it is unknown. `calls` contains the
    calls that the results belong to. `earlier` contains all results of these calls so far, including `results`.
    """
    answered = {result.call_id for result in earlier}
    unanswered = [part for part in calls if isinstance(part, ToolCall) and part.id not in answered]
    lacking = {at: tools[at] for at, result in enumerate(results) if not result.call_id}
    by_order = len(lacking) == len(unanswered)
    for at, name in lacking.items():
        close = [call for call in unanswered if call.name == name] or (unanswered if by_order else [])
        if close:
            call = close[0]
            unanswered.remove(call)
            results[at] = replace(results[at], call_id=call.id)
    return results, unanswered


def with_failure(parts: Sequence[Text | Image | File]) -> list[Text | Image | File]:
    """Return the content of a failed result, marked as an error in its text. Some protocols have no error field."""
    first = parts[0] if parts else Text(text="the tool failed")
    rest = list(parts[1:])
    if not isinstance(first, Text):
        return [Text(text="Error:"), first, *rest]
    if first.text.lstrip().casefold().startswith(_FAILURES):
        return [first, *rest]
    return [Text(text=f"Error: {first.text}", meta=first.meta), *rest]
