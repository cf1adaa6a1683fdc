"""The usual turn of the simulated service: opening, the model's legs with their tool calls, closing.

    opening   heartbeat · request context · history from its blobs · the user's message as a blob
    answer    for each leg: thinking, text, calls · exec requests · checkpoint · the results as blobs
    closing   checkpoint · turn ended, with usage · end frame

The client stores the blobs (pieces of the conversation). The server waits until the client has acknowledged every blob.
Until then it sends only heartbeats, as the real service does. If it has to wait too long, the run fails.
"""

from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from tieline.model.content import Image, Message, Part, Text, ToolCall
from tieline.model.events import Usage
from tieline.sim.cursor import history
from tieline.sim.cursor.demo_model import DemoLeg, DemoModel
from tieline.sim.cursor.mcp_tools import McpToolset, collect_tools
from tieline.sim.cursor.parallel import Parallel
from tieline.sim.cursor.refusals import NAMED, RunRefused
from tieline.sim.cursor.server_run import ServerRun, to_client, update
from tieline.sim.cursor.settings import SimModel
from tieline.sim.cursor.steps import End, Routine, Send, Step, Steps, Wait
from tieline.wire.cursor._pb import agent_pb2 as agent
from tieline.wire.cursor._pb import context_pb2 as context
from tieline.wire.cursor._pb import conversation_pb2 as conversation
from tieline.wire.cursor._pb import exec_pb2
from tieline.wire.cursor._pb import shared_pb2 as shared
from tieline.wire.cursor._pb import updates_pb2 as updates

HEARTBEAT = update(heartbeat=updates.HeartbeatUpdate())

_SYSTEM = b'{"role":"system","content":"You are the demo model of a simulated service."}'


class ServerTurn:
    """The server's side of one turn. Scripts can play all of its stages, some of them, or none."""

    def __init__(self, run: ServerRun) -> None:
        self.run = run
        self.ids: list[bytes] = []
        """The ids of the conversation's blobs, in order."""
        self.messages: list[Message] = []
        self.usage = Usage()
        self.tools = McpToolset(())
        self._latest = Usage()
        self._is_history_loaded = False
        self._is_opened = False
        self._is_complete = False

    @property
    def request(self) -> agent.AgentRunRequest:
        """The client's run request; an empty message if it has not arrived yet."""
        return self.run.request or agent.AgentRunRequest()

    @property
    def request_text(self) -> str:
        """The user's text in the run request; empty for a resumed run."""
        action = self.request.action
        for message in (action.user_message_action.user_message, action.start_plan_action.user_message):
            if message.text:
                return message.text
        return ""

    @property
    def user_text(self) -> str:
        """The text of the user's last message, from the run request or, if that has none, from the history."""
        texts = (_text(message) for message in reversed(self.messages) if message.role == "user")
        return self.request_text or next((text for text in texts if text), "")

    # The stages

    def play(self) -> Steps:
        """Yield the steps of the whole turn."""
        yield from self.opening()
        yield from self.answer()
        yield from self.closing()

    def opening(self) -> Steps:
        """Yield the steps that prepare the model's input. A second call yields no steps.

        Raise RunRefused if the client's request is invalid.
        """
        if self._is_opened:
            return
        self._is_opened = True
        yield HEARTBEAT
        if not self.request.HasField("conversation_state"):
            raise RunRefused(NAMED["no_state"])
        self.model()
        yield from self._request_context()
        self._read_tools()
        yield from self.load_history()
        yield from self._add_user_messages()
        yield from self.run.acknowledged()

    def answer(self) -> Steps:
        """Yield the steps of the demo model's legs. Raise RunRefused if the opening or the model fails."""
        yield from self.opening()
        model = DemoModel(self.run, self.model(), self.tools, self._system())
        while not self._is_complete:
            yield from self._deliver_injections()
            leg = yield from self._leg(model)
            yield from self.add_message(Message(role="assistant", parts=leg.parts))
            if leg.calls:
                yield from self._run_calls(model, leg.calls)
            yield update(step_completed=updates.StepCompletedUpdate(step_id=self.run.legs, step_duration_ms=1))
            self._is_complete = not leg.calls and not self.run.injections

    def closing(self) -> Steps:
        """Yield the steps that end a successful turn."""
        yield from self.run.acknowledged()
        yield self.checkpoint()
        yield turn_ended(self.usage)
        yield End()

    # The conversation

    def model(self) -> SimModel:
        """Return the requested model. Raise RunRefused if it is unknown."""
        request = self.request
        name = (request.requested_model.model_id or request.model_details.model_id).partition("[")[0]
        models = self.run.settings.models
        found = next((model for model in models if name in (model.id, *model.aliases)), None)
        if found is None and name:
            raise RunRefused(NAMED["bad_model"])
        return found or models[0]

    def load_history(self) -> Steps:
        """Load the history from blobs that the client stores. Raise RunRefused if a blob is missing."""
        if self._is_history_loaded:
            return
        self._is_history_loaded = True
        self.ids = list(self.request.conversation_state.root_prompt_messages_json)
        blobs = yield from self.run.fetch(self.ids)
        loaded = [(key, history.read(data)) for key, data in zip(self.ids, blobs, strict=True)]
        if self.request.action.HasField("resume_action") and loaded:
            loaded = self._resumed(loaded)
        self.ids = [key for key, _ in loaded]
        self.messages = [message for _, message in loaded if message is not None]

    def add_message(self, message: Message) -> Steps:
        """Add a message to the conversation, and make the client store it."""
        self.messages.append(message)
        yield from self.store(*history.write(message))

    def store(self, *blobs: bytes) -> Steps:
        """Add blobs to the conversation, and make the client store them."""
        for data in blobs:
            key, send = self.run.store(data)
            self.ids.append(key)
            yield send

    def checkpoint(self, pending: Iterable[str] = ()) -> Send:
        """Return the step that sends the state of the conversation. The client sends it back with its next turn.

        `pending` contains the ids of the tool calls that have no result yet.
        """
        state = conversation.ConversationStateStructure(
            root_prompt_messages_json=self.ids,
            pending_tool_calls=pending,
            token_details=conversation.ConversationTokenDetails(
                used_tokens=self._latest.prompt + self._latest.output, max_tokens=self.model().context
            ),
            mode=self.request.conversation_state.mode or shared.AGENT_MODE_AGENT,
        )
        return to_client(agent.AgentServerMessage(conversation_checkpoint_update=state))

    # The opening

    def _request_context(self) -> Steps:
        """Take the request context from the run request, or ask the client. If none arrives, continue without it."""
        run, action = self.run, self.request.action
        for given in (action.user_message_action, action.resume_action, action.start_plan_action):
            if given.HasField("request_context"):
                run.context = given.request_context
                return
        message = exec_pb2.ExecServerMessage(request_context_args=context.RequestContextArgs())
        yield run.ask_exec(message)
        yield Wait(until=lambda: run.is_answered(message.id), seconds=run.settings.context_patience)
        for result in run.results.get(message.id, ()):
            run.context = result.request_context_result.success.request_context

    def _read_tools(self) -> None:
        tools = self.run.context.tools if self.run.context else ()
        self.tools = collect_tools(self.request.mcp_tools.mcp_tools, tools)
        refusal = self.tools.refusal() if self.run.settings.strict_tools else None
        if refusal is not None:
            raise RunRefused(refusal)

    def _resumed(self, loaded: list[tuple[bytes, Message | None]]) -> list[tuple[bytes, Message | None]]:
        """Return the history `loaded`, prepared for resuming an interrupted turn.

        If the history ends with tool calls, they are removed, so that the model repeats them. If it ends with a
        complete answer, the turn needs no more legs.
        """
        last = loaded[-1][1]
        if last is None or last.role != "assistant":
            return loaded
        if any(isinstance(part, ToolCall) for part in last.parts):
            return loaded[:-1]
        self._is_complete = True
        return loaded

    def _add_user_messages(self) -> Steps:
        if not self.ids:
            yield from self.store(_SYSTEM)
        action = self.request.action
        given = (action.user_message_action, action.start_plan_action)
        user_messages = [one.user_message for one in given if one.HasField("user_message")]
        for message in (*action.user_message_action.prepend_user_messages, *user_messages):
            parts = yield from self._parts(message)
            yield from self._add_user_message(parts)

    def _add_user_message(self, parts: tuple[Part, ...]) -> Steps:
        """Add a user message. If its text is a whole conversation, add the messages of the conversation instead."""
        yield from self.store(*history.write(Message(role="user", parts=parts)))
        match parts:
            case (Text() as only,) if messages := history.transcript(only.text):
                self.messages += messages
            case _:
                self.messages.append(Message(role="user", parts=parts))

    def _parts(self, message: conversation.UserMessage) -> Routine[tuple[Part, ...]]:
        text = message.text
        if message.HasField("text_blob_id"):
            (data,) = yield from self.run.fetch([message.text_blob_id])
            text = data.decode(errors="replace")
        if self.run.override_text is not None and message.text == self.request_text:
            text = self.run.override_text
        images: list[Part] = []
        for image in message.selected_context.selected_images:
            data = image.data or image.blob_id_with_data.data
            if image.blob_id:
                (data,) = yield from self.run.fetch([image.blob_id], NAMED["image"])
            images.append(Image(media_type=image.mime_type, data=b64encode(data).decode()))
        return (Text(text=text), *images)

    def _system(self) -> str:
        """Return the system prompt of the model: the client's own prompt, its rules and its working directory."""
        given = self.run.context or context.RequestContext()
        rules = [rule.content for rule in (*given.rules, *given.non_file_rules)]
        where = [f"Working directory: {path}" for path in given.env.workspace_paths[:1]]
        return "\n\n".join(
            text for text in (self.request.custom_system_prompt, given.cloud_rule, *rules, *where) if text
        )

    # The model's legs

    def _leg(self, model: DemoModel) -> Routine[DemoLeg]:
        yield update(step_started=updates.StepStartedUpdate(step_id=self.run.begin_leg()))
        leg = yield from model.leg(self.messages)
        self._latest = leg.usage
        self.usage = add_usage(self.usage, leg.usage)
        return leg

    def _run_calls(self, model: DemoModel, calls: Sequence[ToolCall]) -> Steps:
        """Let the client run tool calls in parallel: send all exec requests and a checkpoint, then wait for results."""
        parallel = Parallel([model.perform(call) for call in calls])
        yield from parallel.begin()
        yield self.checkpoint(pending=[call.id for call in calls])
        results = yield from parallel.finish()
        for call, result in zip(calls, results, strict=True):
            yield model.completed(call, result)
        yield from self.add_message(Message(role="user", parts=tuple(results)))
        yield from self.run.acknowledged()

    def _deliver_injections(self) -> Steps:
        """Add the messages that the user has injected during the turn, and tell the client that they are delivered."""
        while self.run.injections:
            injection = self.run.injections.popleft()
            for state in (
                updates.ContextInjectionState(queued=shared.Opaque()),
                updates.ContextInjectionState(delivered=updates.ContextInjectionDelivered()),
            ):
                state_update = updates.ContextInjectionStateUpdate(injection_id=injection.injection_id, state=state)
                yield update(context_injection_state=state_update)
            parts = yield from self._parts(injection.user_context.user_message)
            yield from self._add_user_message(parts)
            yield from self.run.acknowledged()


Program: TypeAlias = Callable[[ServerTurn], Iterable[Step]]
"""A function that yields the server's steps in one run."""


def turn_ended(usage: Usage | None = None) -> Send:
    """Return the update that ends the turn. Older versions of the service send it without usage."""
    if usage is None:
        return update(turn_ended=updates.TurnEndedUpdate())
    return update(
        turn_ended=updates.TurnEndedUpdate(
            input_tokens=usage.prompt,
            output_tokens=usage.output,
            cache_read_tokens=usage.cache_read,
            cache_write_tokens=usage.cache_write,
            reasoning_tokens=usage.reasoning,
        )
    )


def add_usage(one: Usage, other: Usage) -> Usage:
    """Return the total usage of two legs."""
    return Usage(
        input=one.input + other.input,
        output=one.output + other.output,
        cache_read=one.cache_read + other.cache_read,
        cache_write=one.cache_write + other.cache_write,
        reasoning=one.reasoning + other.reasoning,
    )


def _text(message: Message) -> str:
    return "\n".join(part.text for part in message.parts if isinstance(part, Text))
