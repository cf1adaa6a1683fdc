"""A chat at the terminal: reads messages and commands, shows answers, and asks the user about inbox items."""

import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from rich.console import RenderableType
from rich.text import Text

from tieline.cli.chat import lists, slash
from tieline.cli.chat.api import ChatApi, GatewayState, StateNews
from tieline.cli.chat.conversation import Change, Changed, Conversation, Deleted, Ended, Grown, Outdated, Said
from tieline.cli.chat.happenings import Happening, Happenings
from tieline.cli.chat.keys import QUIT, Key
from tieline.cli.chat.line_editor import CompletionChoices, EndOfInput, Interrupted, LineEditor, Submitted
from tieline.cli.chat.link import Back, LinkEvent, Lost, ReceivedEvent
from tieline.cli.chat.models import NO_MODE, arguments, describe, find_mode, find_model, modes_of
from tieline.cli.chat.prompts import ItemPrompt
from tieline.cli.chat.safe_text import one_line
from tieline.cli.chat.terminal import Terminal
from tieline.cli.chat.view import PROMPT, AnswerView
from tieline.core.inbox.inbox import PendingItem
from tieline.model.errors import BadRequest, GatewayError
from tieline.model.inbox import Answer
from tieline.model.session import Summary

T = TypeVar("T")

FRAME = 0.1
"""Seconds between two updates of the screen while an answer is in progress."""
CATCH_UP = 0.1
"""Seconds to wait for events that happened before an inbox item. They may arrive after it, because they are batched."""
RELOADED = 20
"""How many messages are loaded again after the connection was lost."""
RECAP = 2
"""How many messages are shown when a conversation is continued."""
MAX_LISTED = 15


class Chat:
    """The main loop of a chat. Keys and news from the gateway are processed in the order in which they arrive."""

    def __init__(self, api: ChatApi, state: GatewayState, view: AnswerView, *, model: str, mode: str | None) -> None:
        self._api = api
        self._state = state
        self._view = view
        self._model = model
        self._mode = mode
        self.happenings = Happenings()
        self._editor = LineEditor(complete=self._complete)
        self._conversation: Conversation | None = None
        self._shown = ""
        """The id of the answer that is shown."""
        self._drawn_at = 0.0
        self._is_lost = False
        self._is_stopping = False
        self._is_over = False
        self._listed: Sequence[Summary] = ()
        self.terminal: Terminal | None = None

    @property
    def history(self) -> Sequence[str]:
        """The messages that the user has typed, oldest first."""
        return self._editor.history

    @history.setter
    def history(self, texts: Sequence[str]) -> None:
        for text in texts:
            self._editor.remember(text)

    @property
    def session(self) -> str | None:
        """The id of the conversation, if there is one."""
        return None if self._conversation is None else self._conversation.summary.id

    async def run(self, first: str, session: str | None) -> None:
        """Chat until the user quits. `first` is the first message, `session` a conversation to continue."""
        if session is not None:
            await self._open(session)
        if first:
            self._view.quote(first)
            await self._say(first)
        while not self._is_over:
            await self._settle()
            if self._is_over:
                break
            line = await self._read_message()
            if line is not None and line.strip():
                await self._obey(line)
        self._view.pause()
        if self._conversation is not None and self._conversation.is_running:
            await self._attempt(self._api.stop(self._conversation.summary.id))

    # ── Waiting ──────────────────────────────────────────────────────────────────────────────────

    async def _settle(self) -> None:
        """Show the answer in progress until it is complete, and ask the user about its inbox items."""
        while not self._is_over and (conversation := self._conversation) is not None and conversation.is_busy:
            if conversation.items:
                await self._ask(conversation.items[0])
            else:
                await self._advance()

    async def _advance(self) -> None:
        """Process the next happening while an answer is in progress, and update the screen."""
        happening = await self._next(FRAME)
        if isinstance(happening, Key):
            await self._type_ahead(happening)
        elif happening is not None:
            await self._heed(happening)
        self._refresh()

    async def _next(self, within: float | None = None) -> Happening | None:
        """Return the next happening, or None if there is none within `within` seconds. On QUIT, end the chat."""
        happening = await self.happenings.next(within)
        if happening != QUIT:
            return happening
        self._is_over = True
        return None

    async def _type_ahead(self, key: Key) -> None:
        """Apply a key that is pressed during an answer. Text is kept for the next message."""
        if key.name == "interrupt":
            await self._interrupt()
        elif key.name == "enter" and self._editor.text.strip() == "/stop":
            self._editor.set("")
            await self._interrupt()
        elif key.name in ("text", "backspace"):
            self._editor.press(key)

    def _refresh(self) -> None:
        conversation = self._conversation
        if conversation is None or conversation.draft is None or time.monotonic() - self._drawn_at < FRAME:
            return
        self._view.show(conversation.draft.turn(), self._status(conversation.summary.model))
        self._drawn_at = time.monotonic()

    def _status(self, model: str) -> str:
        if self._is_lost:
            return "The gateway does not answer; trying again. Ctrl-C stops waiting."
        return "Stopping…" if self._is_stopping else f"{one_line(model, 60)} · Ctrl-C stops"

    # ── News from the gateway ────────────────────────────────────────────────────────────────────

    async def _heed(self, event: LinkEvent) -> None:
        match event:
            case Lost(reason=reason, is_final=is_final):
                self._is_lost, self._is_over = True, is_final
                self._note(reason if is_final else "The gateway does not answer. Waiting for it to come back.")
            case Back(state=state):
                if self._is_lost:
                    self._note("The gateway is back.")
                self._is_lost = False
                self._state = state
                await self._reload()
            case ReceivedEvent(news=StateNews()):
                self._state = await self._attempt(self._api.state()) or self._state
            case ReceivedEvent(seq=seq, news=news) if self._conversation is not None:
                for change in list(self._conversation.take(seq, news)):
                    await self._apply(change)
            case _:
                pass

    async def _apply(self, change: Change) -> None:
        self._clear()
        match change:
            case Said(turn=turn):
                self._view.said(turn)
            case Grown():
                self._begin_answer()
            case Ended(turn=turn):
                if turn.id != self._shown:
                    self._view.begin()
                self._shown = turn.id
                self._view.end(turn)
                self._is_stopping = False
            case Changed():
                self._note(f"{self._facts()} (changed elsewhere)")
            case Deleted():
                self._conversation = None
                self._note("This conversation was deleted elsewhere. The next message begins a new one.")
            case Outdated():
                await self._reload()

    def _begin_answer(self) -> None:
        conversation = self._conversation
        if conversation is not None and conversation.draft is not None and conversation.draft.id != self._shown:
            self._shown = conversation.draft.id
            self._view.begin()

    async def _reload(self) -> None:
        """Load the conversation again, because stream messages may have been lost."""
        conversation = self._conversation
        if conversation is None:
            return
        try:
            view = await self._api.session(conversation.summary.id, RELOADED)
        except GatewayError as error:
            if error.kind == "not_found":
                await self._apply(Deleted())
            return
        conversation.adopt(self._state.inbox.items)
        for change in list(conversation.load(view)):
            await self._apply(change)

    # ── Inbox items ──────────────────────────────────────────────────────────────────────────────

    async def _ask(self, item: PendingItem) -> None:
        """Ask the user about an item, and send the answer."""
        conversation = self._conversation
        if conversation is None or not await self._catch_up(conversation, item.id):
            return
        self._view.pause()
        self.happenings.drop_keys()
        asked_at = time.monotonic()

        def is_waiting() -> bool:
            return any(one.id == item.id for one in conversation.items)

        async def read(prompt: str) -> Submitted | None:
            return await self._read_answer(prompt, is_waiting)

        answer = await ItemPrompt(read, self._show, time.monotonic).ask(item.content)
        self._view.exclude(time.monotonic() - asked_at)
        if answer is not None:
            if await self._decide(item.id, answer):
                conversation.decided(item.id)
        elif not is_waiting() and not self._is_stopping:
            self._note("This was answered elsewhere, or it is no longer needed.")

    async def _catch_up(self, conversation: Conversation, item_id: str) -> bool:
        """Show what happened before an item but may be reported after it. Return whether the item is still waiting."""
        until = time.monotonic() + CATCH_UP
        while (left := until - time.monotonic()) > 0:
            happening = await self._next(left)
            if isinstance(happening, Key):
                if happening.name == "interrupt":
                    await self._interrupt()
            elif happening is not None:
                await self._heed(happening)
        if conversation.draft is not None:
            self._view.flush(conversation.draft.turn())
        return self._conversation is conversation and any(one.id == item_id for one in conversation.items)

    async def _decide(self, item_id: str, answer: Answer) -> bool:
        """Send an answer. Return whether the item is settled; if not, the user must be asked again."""
        try:
            await self._api.decide(item_id, answer)
        except GatewayError as error:
            self._note(one_line(error.message, 2000), "yellow")
            return error.kind == "not_found"
        return True

    async def _read_answer(self, prompt: str, is_waiting: Callable[[], bool]) -> Submitted | None:
        """Read a line, or return None when `is_waiting` returns false or the chat ends."""
        editor = LineEditor()
        while is_waiting() and not self._is_over:
            outcome = await self._read(prompt, editor, lambda: not is_waiting())
            match outcome:
                case Submitted():
                    return outcome
                case Interrupted():
                    await self._interrupt()
                case EndOfInput():
                    await self._interrupt()
                    self._is_over = True
                case _:
                    pass
        return None

    # ── Typing ───────────────────────────────────────────────────────────────────────────────────

    async def _read_message(self) -> str | None:
        """Read a message or command. Return None if an answer has begun meanwhile, or if the user quits."""
        is_leaving = False
        while not self._is_over:
            match await self._read(PROMPT, self._editor, self._is_busy):
                case Submitted(text=text):
                    return text
                case EndOfInput():
                    self._is_over = True
                case Interrupted(text="") if is_leaving:
                    self._is_over = True
                case Interrupted(text=""):
                    is_leaving = True
                    self._note("Press Ctrl-C again, or Ctrl-D, to quit.")
                case Interrupted():
                    is_leaving = False
                case None:
                    return None
        return None

    async def _read(
        self, prompt: str, editor: LineEditor, is_cancelled: Callable[[], bool]
    ) -> Submitted | Interrupted | EndOfInput | None:
        """Read a line, or return None once `is_cancelled` returns true. Process news from the gateway meanwhile."""
        terminal = self.terminal
        assert terminal is not None  # noqa: S101 - set before the chat runs
        self._view.pause()
        while not is_cancelled() and not self._is_over:
            terminal.draw(prompt, editor)
            happening = await self._next()
            if not isinstance(happening, Key):
                if happening is not None:
                    await self._heed(happening)
                continue
            if happening.name == "suspend":
                terminal.suspend()
            elif happening.name == "clear":
                self._clear()
                terminal.console.clear()
            outcome = editor.press(happening)
            if isinstance(outcome, CompletionChoices):
                self._show(Text("  ".join(outcome.texts[:60]), style="dim"))
            elif outcome is not None:
                text = "" if isinstance(outcome, EndOfInput) else outcome.text
                terminal.leave_line(editor, text, is_entered=isinstance(outcome, Submitted))
                return outcome
        self._clear()
        return None

    def _clear(self) -> None:
        if self.terminal is not None:
            self.terminal.erase()

    def _show(self, body: RenderableType) -> None:
        self._clear()
        self._view.print(body)

    def _note(self, text: str, style: str = "dim") -> None:
        self._clear()
        self._view.note(text, style)

    # ── Messages and commands ────────────────────────────────────────────────────────────────────

    async def _obey(self, line: str) -> None:
        command = slash.parse_slash(line)
        if command is None:
            await self._say(line)
            return
        actions: dict[str, Callable[[str], Coroutine[Any, Any, None]]] = {
            "model": self._change_model,
            "mode": self._change_mode,
            "new": self._begin,
            "sessions": self._list,
            "continue": self._continue,
            "retry": self._retry,
            "stop": self._stop,
            "help": self._help,
            "quit": self._quit,
        }
        action = actions.get(command.name)
        self._view.space()
        if action is None:
            self._note(f"There is no command /{one_line(command.name, 40)}; /help lists the commands.")
        else:
            await self._attempt(action(command.argument))
        self._close_command()

    def _close_command(self) -> None:
        if not self._is_busy():
            self._view.space()

    def _is_busy(self) -> bool:
        return self._conversation is not None and self._conversation.is_busy

    async def _attempt(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Await `work`. If it fails, show the error and return None."""
        try:
            return await work
        except GatewayError as error:
            self._note(one_line(error.message, 2000), "red")
            return None

    async def _say(self, text: str) -> None:
        self._view.space()
        await self._attempt(self._send(text))
        self._close_command()

    async def _send(self, text: str) -> None:
        if self._conversation is None:
            summary = await self._api.create(self._model, self._mode)
            self._conversation = Conversation(summary, 0, time.time)
        sent = await self._api.send(self._conversation.summary.id, text)
        self._conversation.sent(sent)
        self._begin_answer()

    async def _retry(self, _: str) -> None:
        if self._conversation is None:
            self._note("There is no message to answer again.")
            return
        sent = await self._api.retry(self._conversation.summary.id)
        self._conversation.sent(sent)
        self._begin_answer()

    async def _stop(self, _: str) -> None:
        self._note("No answer is in progress.")

    async def _interrupt(self) -> None:
        """Stop the answer; the second time, quit. If the gateway is lost, only stop waiting for the answer."""
        conversation = self._conversation
        if conversation is None or not conversation.is_running:
            return
        if self._is_lost:
            conversation.draft, conversation.items = None, ()
            self._note("No longer waiting for this answer.")
        elif self._is_stopping:
            self._is_over = True
        else:
            self._is_stopping = True
            await self._attempt(self._api.stop(conversation.summary.id))

    async def _change_model(self, wanted: str) -> None:
        if not wanted:
            self._show(lists.choices((model.id for model in self._state.models), self._current_model()))
            return
        model = find_model(self._state, wanted)
        mode = self._current_mode()
        if mode is not None and mode not in modes_of(self._state.models, model):
            mode = None
        await self._change(model=model, mode=mode)

    async def _change_mode(self, wanted: str) -> None:
        model = self._current_model()
        if wanted:
            await self._change(mode=find_mode(self._state, model, wanted))
            return
        modes = modes_of(self._state.models, model)
        self._show(lists.choices((NO_MODE, *modes), self._current_mode() or NO_MODE))

    async def _change(self, **fields: str | None) -> None:
        if self._conversation is not None:
            self._conversation.summary = await self._api.change(self._conversation.summary.id, **fields)
        self._model = fields.get("model") or self._model
        self._mode = fields["mode"]
        self._note(self._facts())

    async def _begin(self, _: str) -> None:
        self._model, self._mode = self._current_model(), self._current_mode()
        self._conversation = None
        self._note("The next message begins a new conversation.")

    async def _list(self, _: str) -> None:
        self._state = await self._api.state()
        self._listed = self._state.sessions[:MAX_LISTED]
        if not self._listed:
            self._note("There are no conversations yet.")
            return
        self._show(lists.conversations(self._listed, self.session, time.time()))

    async def _continue(self, wanted: str) -> None:
        if not self._listed or not wanted:
            self._state = await self._api.state()
        sessions = self._listed or self._state.sessions
        if wanted.isdecimal() and 0 < int(wanted) <= len(sessions):
            await self._open(sessions[int(wanted) - 1].id)
            return
        others = [one.id for one in self._state.sessions if one.id != self.session]
        found = [one for one in others if one.startswith(wanted)]
        if not found or (wanted and len(found) > 1):
            raise BadRequest("There is no such conversation; /sessions lists them.")
        await self._open(found[0])

    async def _open(self, session: str) -> None:
        """Continue a conversation, and show its last messages."""
        view = await self._api.session(session, RECAP)
        conversation = Conversation(view.summary, view.seq, time.time)
        conversation.adopt(self._state.inbox.items)
        self._conversation = conversation
        self._note(f"{one_line(view.summary.title, 80)} · {self._facts()}")
        self._view.space()
        for turn in view.messages:
            if turn.role == "user":
                self._view.said(turn)
            elif turn.ending is not None:
                self._view.begin()
                self._view.end(turn, is_timed=False)
        conversation.open(view)
        self._begin_answer()

    async def _help(self, _: str) -> None:
        self._show(lists.commands())

    async def _quit(self, _: str) -> None:
        self._is_over = True

    # ── Model and mode ───────────────────────────────────────────────────────────────────────────

    def _current_model(self) -> str:
        return self._model if self._conversation is None else self._conversation.summary.model

    def _current_mode(self) -> str | None:
        return self._mode if self._conversation is None else self._conversation.summary.mode

    def _facts(self) -> str:
        return describe(self._current_model(), self._current_mode())

    def _complete(self, before: str) -> Sequence[str]:
        return slash.completions(before, lambda name: arguments(self._state, name, self._current_model()))
