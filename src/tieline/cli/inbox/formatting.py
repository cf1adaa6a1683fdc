"""Formats inbox items for a terminal: the exact command or change, who asks for it, and the commands to answer with.

Text from models and clients is escaped and indented, so that it cannot look like a message from Tieline.
"""

from collections.abc import Iterator, Sequence

from tieline.cli.inbox.remote import SavedRules
from tieline.core.inbox.inbox import PendingItem
from tieline.model.inbox import Approval, Field, InboxItem, Option, PlanReview, Question
from tieline.tools.invisible_text import visible

LONGEST_LINE = 100
MOST_LINES = 20
"""Maximum number of lines per item in a list. An item shown alone has no limit."""
MARKS = {"pending": "○", "in_progress": "▸", "completed": "✓", "failed": "✗"}
KINDS = {
    "yes_no": "yes or no",
    "choice": "one of these",
    "text": "text",
    "number": "a number",
    "file": "the path of a file",
}


def format_items(items: Sequence[PendingItem], now: float) -> str:
    """Format all waiting items."""
    if not items:
        return "The inbox is empty."
    blocks = [format_item(item, now, most=MOST_LINES) for item in items]
    count = "1 request waits" if len(items) == 1 else f"{len(items)} requests wait"
    return "\n\n".join([f"{count} for your answer.", *blocks])


def format_item(item: PendingItem, now: float, *, most: int | None = None) -> str:
    """Format one item: id and title, who asks, details, and the commands to answer with.

    `most` limits the number of lines with details.
    """
    lines = [f"    {text_line}" for text_line in details(item.content)]
    if most is None:
        lines += [f"    {text_line}" for text_line in arguments(item.content)]
    if most is not None and len(lines) > most:
        rest = f"    … {len(lines) - most} more lines: tieline inbox list {item.id}"
        lines = [*lines[:most], rest]
    risk = [f"    ! {_escaped(item.content.risk)}"] if isinstance(item.content, Approval) and item.content.risk else []
    about = f"    {_requester(item)}; {time_left(item, now)}"
    return "\n".join([headline(item), about, *risk, *lines, *_answer_commands(item)])


def headline(item: PendingItem) -> str:
    """Return the id and the title of an item on one line."""
    return f"{item.id}  {short_line(title_of(item.content))}"


def time_left(item: PendingItem, now: float) -> str:
    """Return words that say how much time is left to answer an item."""
    if item.until is None:
        return "waits up to 24 hours while the inbox is watched"
    seconds = max(0, round(item.until - now))
    return f"{seconds} s left" if seconds < 120 else f"{seconds // 60} min left"


def key_hint(content: InboxItem) -> str:
    """Return a hint that says what to type to answer an item.

    The hint is empty for a question without exactly one field, because one line cannot answer it.
    """
    match content:
        case Approval():
            has_always = any(option.kind == "allow_always" for option in content.options)
            return "y allow · " + ("a always · " if has_always else "") + "n deny (or: n REASON)"
        case PlanReview():
            others = f" · y {'|'.join(short_line(option.id) for option in content.options)}" if content.options else ""
            return f"y approve{others} · n WHAT TO CHANGE"
        case Question(fields=(field,)):
            return "y or n" if field.kind == "yes_no" else "type the answer"
        case Question():
            return ""


def format_rules(rules: SavedRules) -> str:
    """Format the saved permissions."""
    where = short_line(rules.workspace)
    if not rules.rules:
        return f"There are no saved permissions for {where}."
    lines = [f"  {rule.id}  {_escaped(rule.text)}" for rule in rules.rules]
    return "\n".join([f"Always allowed in {where}:", *lines, "", "To revoke one: tieline inbox revoke ID"])


def short_line(text: str) -> str:
    """Return the text on one line, truncated to LONGEST_LINE characters."""
    shown = " ".join(visible(text).split())
    return shown if len(shown) <= LONGEST_LINE else f"{shown[:LONGEST_LINE]}…"


def title_of(content: InboxItem) -> str:
    """Return the title of an item, unchanged."""
    match content:
        case Approval():
            return content.title
        case PlanReview():
            return f"Plan: {content.title}"
        case Question():
            return f"Question: {content.message}"


def _requester(item: PendingItem) -> str:
    origin = item.origin
    who = f"requested by {short_line(origin.model)}" if origin.model else "requested by an unknown model"
    client = f" through {short_line(origin.client)}" if origin.client else ""
    place = f" in {short_line(origin.workspace)}" if origin.workspace else ""
    return f"{who}{client}{place}" + (f": “{short_line(origin.title)}”" if origin.title else "")


def details(content: InboxItem) -> Iterator[str]:
    """Yield the details of an item, escaped and line by line: all except title, risk and arguments."""
    match content:
        case Approval():
            yield from _permission(content)
        case PlanReview():
            yield from _lines(content.plan)
            yield from (f"{MARKS[step.status]} {short_line(step.content)}" for step in content.steps)
            yield from review_notes(content)
        case Question():
            yield from _lines(content.message)
            if content.url:
                yield f"open {_escaped(content.url)}"
            for field in content.fields:
                yield from field_lines(field)


def review_notes(content: PlanReview) -> Iterator[str]:
    """Yield the remaining details of a plan review, after the plan and its steps, escaped and line by line."""
    yield from _lines(content.detail)
    yield from _hidden(content.hidden)


def _permission(content: Approval) -> Iterator[str]:
    if content.command is not None:
        first, *others = _lines(content.command) or [""]
        yield f"$ {first}"
        yield from (f"> {more}" for more in others)
    elif content.path is not None:
        yield f"at {_escaped(content.path)}"
    yield from _lines(content.detail)
    yield from _lines(content.diff)
    yield from _hidden(content.hidden)


def _hidden(count: int) -> Iterator[str]:
    if count:
        yield f"! {count:,} characters are not shown, because the text is too long"


def arguments(content: InboxItem) -> Iterator[str]:
    """Yield lines that show the arguments of the tool call, escaped but otherwise unchanged."""
    text = "" if isinstance(content, Question) else content.input
    if text.strip() not in ("", "{}"):
        yield "the unchanged arguments of the call:"
        yield from (f"| {text_line}" for text_line in _lines(text))


def field_lines(field: Field) -> Iterator[str]:
    """Yield lines that describe a field of a question, escaped."""
    kind = "any of these" if field.many else KINDS[field.kind]
    about = short_line(field.title) if field.title else ""
    yield f"{short_line(field.name)} ({kind}{'' if field.required else ', optional'}){': ' + about if about else ''}"
    yield from _lines(field.description)
    for option in field.options:
        yield f"  {_option(option)}"


def _option(option: Option) -> str:
    label = f" – {_escaped(option.label)}" if option.label and option.label != option.id else ""
    return f"{short_line(option.id)}{label}" + (f": {_escaped(option.description)}" if option.description else "")


def _answer_commands(item: PendingItem) -> list[str]:
    """Return the shell commands with which the user can answer an item."""
    command = "  tieline inbox"
    match item.content:
        case Approval():
            return [f"{command} {way}" for way in _permission_commands(item.id, item.content)]
        case PlanReview():
            options = [f"{command} answer {item.id} {_named_option(option)}" for option in item.content.options]
            return [f"{command} approve {item.id}", *options, f"{command} reject {item.id} WHAT TO CHANGE"]
        case Question():
            values = " ".join(f"{short_line(field.name)}=…" for field in item.content.fields)
            return [f"{command} answer {item.id} {values}".rstrip(), f"{command} decline {item.id}"]


def _permission_commands(item_id: str, content: Approval) -> Iterator[str]:
    usual = {"allow_once": "allow", "allow_always": "always", "reject_once": "deny"}
    for option in content.options:
        verb = usual.pop(option.kind, None)
        yield f"{verb} {item_id}".ljust(24) + about(option) if verb else f"answer {item_id} {_named_option(option)}"


def _named_option(option: Option) -> str:
    return f"option={short_line(option.id)}  {about(option)}"


def about(option: Option) -> str:
    """Return the description of an option. It is not shortened: users must be able to read everything they agree to."""
    return _escaped(option.description or option.label)


def _escaped(text: str) -> str:
    return visible(text).replace("\n", "\\n")


def _lines(text: str) -> list[str]:
    return visible(text).splitlines()
