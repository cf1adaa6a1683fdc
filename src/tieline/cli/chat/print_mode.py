"""Prints one answer and exits, for pipes and scripts (`tieline chat --print`). It never waits for a person."""

import asyncio
import time
from typing import Any, NamedTuple, TextIO

import msgspec

from tieline.cli.chat.api import ChatApi, GatewayState
from tieline.cli.chat.call_title import parse_title
from tieline.cli.chat.conversation import Change, Conversation, Deleted, Ended, Grown, Outdated
from tieline.cli.chat.link import Back, LinkEvent, Lost, ReceivedEvent, follow
from tieline.cli.chat.safe_text import one_line, prose
from tieline.cli.inbox import formatting
from tieline.cli.inbox.formatting import MARKS
from tieline.cli.terminal import watch_signals
from tieline.core.inbox.inbox import default_answer
from tieline.model.content import Text
from tieline.model.errors import GatewayError
from tieline.model.events import Failed, Finished, StopReason, Usage
from tieline.model.session import Summary, Turn
from tieline.tasks import Tasks

ANSWERED, FAILED, DENIED, INTERRUPTED = 0, 1, 3, 130
LOST_LIMIT = 30.0
"""Seconds to wait for a gateway that no longer answers."""
NOBODY = "No one can be asked: `tieline chat --print` runs without a person."
COMPLETE = frozenset((StopReason.END_TURN, StopReason.STOP_SEQUENCE))


class Output(NamedTuple):
    """Where to print: the answer to `out`, everything else to `err`. With `is_json`, the answer is one JSON object."""

    out: TextIO
    err: TextIO
    is_json: bool


class AnswerPrinter:
    """Sends one message, and prints the answer as it arrives."""

    def __init__(self, api: ChatApi, state: GatewayState, output: Output) -> None:
        self._api = api
        self._state = state
        self._output = output
        self._is_terminal = output.out.isatty()
        self._conversation: Conversation | None = None
        self._printed = ""
        """The text that has been printed."""
        self._reported: set[str] = set()
        """The ids of the tool calls that have been reported."""
        self._denied: list[str] = []
        self._turn: Turn | None = None
        """The complete answer."""
        self._events: asyncio.Queue[LinkEvent | None] = asyncio.Queue(1000)
        """News from the gateway; None for an interrupt."""

    async def run(self, text: str, summary: Summary) -> int:
        """Send `text` in a session, print the answer, and return the exit status."""
        tasks = Tasks()
        stop_watching = watch_signals({"SIGINT": self._interrupt})
        tasks.start(follow(self._api, self._state, self._events.put), "stream")
        try:
            self._conversation = conversation = Conversation(summary, 0, time.time)
            conversation.sent(await self._api.send(summary.id, text))
            return await self._wait(conversation)
        finally:
            stop_watching()
            await tasks.aclose()

    def _interrupt(self) -> None:
        if not self._events.full():
            self._events.put_nowait(None)

    async def _wait(self, conversation: Conversation) -> int:
        limit: float | None = None
        while self._turn is None:
            try:
                async with asyncio.timeout(limit):
                    event = await self._events.get()
            except TimeoutError as error:
                raise GatewayError("upstream", "The gateway stopped answering.") from error
            if event is None:
                await self._api.stop(conversation.summary.id)
                self._end_line()
                return INTERRUPTED
            if not isinstance(event, Lost):
                limit = None
            elif event.is_final:
                raise GatewayError("unauthorized", event.reason)
            else:
                limit = LOST_LIMIT
                self._say("The gateway does not answer. Waiting for it to come back.")
            await self._heed(conversation, event)
        return self._status(self._turn)

    async def _heed(self, conversation: Conversation, event: LinkEvent) -> None:
        match event:
            case ReceivedEvent(seq=seq, news=news):
                changes = list(conversation.take(seq, news))
            case Back(state=state):
                conversation.adopt(state.inbox.items)
                changes = [Outdated()]
            case _:
                changes = []
        for change in changes:
            await self._apply(conversation, change)
        for item in conversation.items:
            await self._deny(conversation, item.id)

    async def _apply(self, conversation: Conversation, change: Change) -> None:
        match change:
            case Grown() if conversation.draft is not None:
                self._print(conversation.draft.turn())
            case Ended(turn=turn):
                self._print(turn)
                self._turn = turn
            case Outdated():
                for later in list(conversation.load(await self._api.session(conversation.summary.id, 2))):
                    await self._apply(conversation, later)
            case Deleted():
                raise GatewayError("not_found", "The conversation was deleted.")
            case _:
                pass

    async def _deny(self, conversation: Conversation, item_id: str) -> None:
        """Deny what an item asks for: silence never means consent."""
        item = next(one for one in conversation.items if one.id == item_id)
        title = formatting.short_line(formatting.title_of(item.content))
        self._denied.append(title)
        self._say(f"✗ Denied, because no one can be asked: {title}")
        conversation.decided(item.id)
        try:
            await self._api.decide(item.id, default_answer(item.content, NOBODY))
        except GatewayError as error:
            self._say(one_line(error.message, 500))

    # ── Output ───────────────────────────────────────────────────────────────────────────────────

    def _print(self, turn: Turn) -> None:
        for timed in turn.activities:
            activity = timed.activity
            if activity.status in ("completed", "failed") and activity.id not in self._reported:
                self._reported.add(activity.id)
                title = parse_title(activity.title)
                self._say(f"{MARKS[activity.status]} {one_line(f'{title.verb} {title.subject}', 200)}")
        text = text_of(turn)
        if self._output.is_json or not text.startswith(self._printed):
            return
        more = text[len(self._printed) :]
        self._output.out.write(prose(more) if self._is_terminal else more)
        self._output.out.flush()
        self._printed += more

    def _end_line(self) -> None:
        if self._printed and not self._printed.endswith("\n") and not self._output.is_json:
            self._output.out.write("\n")
            self._output.out.flush()

    def _say(self, text: str) -> None:
        self._output.err.write(f"{text}\n")
        self._output.err.flush()

    def _status(self, turn: Turn) -> int:
        """Finish the output, and return the exit status."""
        self._end_line()
        if self._output.is_json and self._conversation is not None:
            report = answer_report(turn, self._conversation.summary, self._denied)
            self._output.out.write(msgspec.json.encode(report).decode() + "\n")
            self._output.out.flush()
        if isinstance(turn.ending, Failed):
            self._say(f"tieline: {one_line(turn.ending.message, 2000)}")
            return FAILED
        if isinstance(turn.ending, Finished) and turn.ending.reason not in COMPLETE:
            detail = f": {one_line(turn.ending.detail, 500)}" if turn.ending.detail else ""
            self._say(f"tieline: the answer is not complete ({turn.ending.reason}){detail}")
            return FAILED
        return DENIED if self._denied else ANSWERED


def text_of(turn: Turn) -> str:
    """Return the text of an answer, without thinking and tool calls, and without newlines at its end."""
    return "\n\n".join(part.text.strip("\n") for part in turn.parts if isinstance(part, Text) and part.text.strip())


def answer_report(turn: Turn, summary: Summary, denied: list[str]) -> dict[str, Any]:
    """Return an answer as a JSON object."""
    usage = turn.usage or Usage()
    ending: dict[str, Any] = {"reason": "failed"}
    if isinstance(turn.ending, Failed):
        ending = {"reason": "failed", "error": turn.ending.kind, "message": turn.ending.message}
    elif turn.ending is not None:
        ending = {"reason": turn.ending.reason, "detail": turn.ending.detail}
    fields = ("input", "output", "cache_read", "cache_write", "reasoning")
    return {
        "text": text_of(turn),
        "calls": [
            {
                "title": timed.activity.title,
                "kind": timed.activity.kind,
                "status": timed.activity.status,
                "exit_code": timed.activity.exit_code,
                "output": timed.activity.output,
            }
            for timed in turn.activities
        ],
        "denied": denied,
        "usage": {name: getattr(usage, name) for name in fields},
        "ending": ending,
        "model": turn.model or summary.model,
        "session": summary.id,
    }
