"""What waits, in words for a tired person: what exactly will run or change, who wants it, and how to answer.

What models and clients say is shown with everything written out that would not show, and line by line behind a margin:
nothing they say can look like something we say.
"""

from collections.abc import Iterator, Sequence

from tieline.cli.inbox.remote import Rules
from tieline.core.inbox.inbox import PendingItem
from tieline.model.inbox import Approval, Field, InboxItem, Option, PlanReview, Question
from tieline.tools.invisible_text import visible

LONGEST_LINE = 100
MOST_LINES = 20
"""Of what is listed; alone, all of it is shown."""
MARKS = {"pending": "○", "in_progress": "▸", "completed": "✓", "failed": "✗"}
KINDS = {
    "yes_no": "yes or no",
    "choice": "one of these",
    "text": "text",
    "number": "a number",
    "file": "the path of a file",
}


def listed(items: Sequence[PendingItem], now: float) -> str:
    """All that waits."""
    if not items:
        return "Nothing waits for an answer."
    blocks = [described(item, now, most=MOST_LINES) for item in items]
    count = "1 thing waits" if len(items) == 1 else f"{len(items)} things wait"
    return "\n\n".join([f"{count} for your answer.", *blocks])


def described(item: PendingItem, now: float, *, most: int | None = None) -> str:
    """One thing that waits: its id and what it is, who wants it, all that matters, how to answer."""
    lines = [f"    {line}" for line in _matter(item.content)]
    if most is None:
        lines += [f"    {line}" for line in _input(item.content)]
    if most is not None and len(lines) > most:
        rest = f"    … {len(lines) - most} more lines: tieline inbox list {item.id}"
        lines = [*lines[:most], rest]
    risk = [f"    ! {_unbroken(item.content.risk)}"] if isinstance(item.content, Approval) and item.content.risk else []
    about = f"    {_wanted_by(item)}; {left(item, now)}"
    return "\n".join([headline(item), about, *risk, *lines, *_ways(item)])


def headline(item: PendingItem) -> str:
    """Its id and what it is, in one line."""
    return f"{item.id}  {line(_title(item.content))}"


def left(item: PendingItem, now: float) -> str:
    """How much longer it waits."""
    if item.until is None:
        return "no time limit while the inbox is watched"
    seconds = max(0, round(item.until - now))
    return f"{seconds} s left" if seconds < 120 else f"{seconds // 60} min left"


def keys(ask: InboxItem) -> str:
    """What can be typed to answer it right away; nothing if it takes more than a line."""
    match ask:
        case Approval():
            has_always = any(option.kind == "allow_always" for option in ask.options)
            return "y allow · " + ("a always · " if has_always else "") + "n deny (or: n REASON)"
        case PlanReview():
            others = f" · y {'|'.join(line(option.id) for option in ask.options)}" if ask.options else ""
            return f"y approve{others} · n WHAT TO CHANGE"
        case Question(fields=(field,)):
            return "y or n" if field.kind == "yes_no" else "type the answer"
        case Question():
            return ""


def allowed(rules: Rules) -> str:
    """What was allowed for good."""
    where = line(rules.workspace)
    if not rules.rules:
        return f"Nothing is allowed for good in {where}."
    lines = [f"  {rule.id}  {line(rule.text)}" for rule in rules.rules]
    return "\n".join([f"Always allowed in {where}:", *lines, "", "Take one back: tieline inbox revoke ID"])


def line(text: str) -> str:
    """The text in one line that is not too long."""
    shown = " ".join(visible(text).split())
    return shown if len(shown) <= LONGEST_LINE else f"{shown[:LONGEST_LINE]}…"


def _title(ask: InboxItem) -> str:
    match ask:
        case Approval():
            return ask.title
        case PlanReview():
            return f"A plan: {ask.title}"
        case Question():
            return f"A question: {ask.message}"


def _wanted_by(item: PendingItem) -> str:
    origin = item.origin
    who = f"for {line(origin.model)}" if origin.model else "for somebody"
    client = f", asked by {line(origin.client)}" if origin.client else ""
    return f"{who}{client}" + (f": “{line(origin.title)}”" if origin.title else "")


def _matter(ask: InboxItem) -> Iterator[str]:
    match ask:
        case Approval():
            yield from _permission(ask)
        case PlanReview():
            yield from _lines(ask.plan)
            yield from (f"{MARKS[step.status]} {line(step.content)}" for step in ask.steps)
            yield from _lines(ask.detail)
            yield from _hidden(ask.hidden)
        case Question():
            yield from _lines(ask.message)
            if ask.url:
                yield f"open {_unbroken(ask.url)}"
            for field in ask.fields:
                yield from _field(field)


def _permission(ask: Approval) -> Iterator[str]:
    if ask.command is not None:
        first, *others = _lines(ask.command) or [""]
        yield f"$ {first}"
        yield from (f"> {more}" for more in others)
    elif ask.path is not None:
        yield f"at {_unbroken(ask.path)}"
    yield from _lines(ask.detail)
    yield from _lines(ask.diff)
    yield from _hidden(ask.hidden)


def _hidden(count: int) -> Iterator[str]:
    if count:
        yield f"! {count:,} characters of this are hidden: it is too long to be shown whole"


def _input(ask: InboxItem) -> Iterator[str]:
    """The arguments of the call, as they came."""
    text = "" if isinstance(ask, Question) else ask.input
    if text.strip() not in ("", "{}"):
        yield "the arguments of the call, as they came:"
        yield from (f"| {line}" for line in _lines(text))


def _field(field: Field) -> Iterator[str]:
    kind = "any of these" if field.many else KINDS[field.kind]
    about = line(field.title) if field.title else ""
    yield f"{line(field.name)} ({kind}{'' if field.required else ', may be left out'}){': ' + about if about else ''}"
    yield from _lines(field.description)
    for option in field.options:
        yield f"  {_option(option)}"


def _option(option: Option) -> str:
    label = f" – {_unbroken(option.label)}" if option.label and option.label != option.id else ""
    return f"{line(option.id)}{label}" + (f": {_unbroken(option.description)}" if option.description else "")


def _ways(item: PendingItem) -> list[str]:
    """The commands that answer it."""
    command = "  tieline inbox"
    match item.content:
        case Approval():
            return [f"{command} {way}" for way in _permission_ways(item.id, item.content)]
        case PlanReview():
            options = [f"{command} answer {item.id} {_named_option(option)}" for option in item.content.options]
            return [f"{command} approve {item.id}", *options, f"{command} reject {item.id} WHAT TO CHANGE"]
        case Question():
            values = " ".join(f"{line(field.name)}=…" for field in item.content.fields)
            return [f"{command} answer {item.id} {values}".rstrip(), f"{command} decline {item.id}"]


def _permission_ways(item_id: str, ask: Approval) -> Iterator[str]:
    usual = {"allow_once": "allow", "allow_always": "always", "reject_once": "deny"}
    for option in ask.options:
        verb = usual.pop(option.kind, None)
        about = _about(option)
        yield f"{verb} {item_id}".ljust(24) + about if verb else f"answer {item_id} {_named_option(option)}"


def _named_option(option: Option) -> str:
    return f"option={line(option.id)}  {_about(option)}"


def _about(option: Option) -> str:
    """What an option means, whole: it is what the person agrees to."""
    return _unbroken(option.description or option.label)


def _unbroken(text: str) -> str:
    return visible(text).replace("\n", "\\n")


def _lines(text: str) -> list[str]:
    return visible(text).splitlines()
