"""A turn as the service plays it: it opens, the model speaks and has tools run in as many legs as it takes, it closes.

    opening   heartbeat · request context · history by its blobs · the user's words stored with the client
    mind      for each leg: thinking, words, calls · execs · checkpoint · the results, stored with the client
    closing   checkpoint · turn ended, with usage · end frame

Every blob is waited for until the client has acknowledged it: a client that does not gets heartbeats for ever, as it
does from the service.
"""

from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from tieline.model.content import Image, Message, Part, Text, ToolCall
from tieline.model.events import Usage
from tieline.sim.cursor import history
from tieline.sim.cursor.model import Leg, Mind
from tieline.sim.cursor.offer import McpOffer, offered
from tieline.sim.cursor.refusals import NAMED, RunRefused
from tieline.sim.cursor.run import Run, say, update
from tieline.sim.cursor.settings import Model
from tieline.sim.cursor.steps import Doing, End, Send, Step, Steps, Wait
from tieline.sim.cursor.together import Together
from tieline.wire.cursor._pb import agent_pb2 as agent
from tieline.wire.cursor._pb import context_pb2 as context
from tieline.wire.cursor._pb import conversation_pb2 as conversation
from tieline.wire.cursor._pb import exec_pb2
from tieline.wire.cursor._pb import shared_pb2 as shared
from tieline.wire.cursor._pb import updates_pb2 as updates

HEARTBEAT = update(heartbeat=updates.HeartbeatUpdate())

_SYSTEM = b'{"role":"system","content":"You are the demo model of a simulated service."}'


class Turn:
    """One turn of a run; scripts play it whole, in parts, or not at all."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.ids: list[bytes] = []
        """The blobs of the conversation, in order."""
        self.messages: list[Message] = []
        self.usage = Usage()
        self.offer = McpOffer(())
        self._latest = Usage()
        self._is_listened = False
        self._is_opened = False
        self._is_complete = False

    @property
    def request(self) -> agent.AgentRunRequest:
        """What the client asked for."""
        return self.run.request or agent.AgentRunRequest()

    @property
    def asked(self) -> str:
        """The words that came with the request; a run that is resumed has none."""
        action = self.request.action
        for message in (action.user_message_action.user_message, action.start_plan_action.user_message):
            if message.text:
                return message.text
        return ""

    @property
    def words(self) -> str:
        """The user's last words, wherever they stand."""
        texts = (_text(message) for message in reversed(self.messages) if message.role == "user")
        return self.asked or next((text for text in texts if text), "")

    # The whole

    def play(self) -> Steps:
        """The turn from its first to its last step."""
        yield from self.opening()
        yield from self.mind()
        yield from self.closing()

    def opening(self) -> Steps:
        """Up to the moment when the model may speak; raises RunRefused. Nothing is opened twice."""
        if self._is_opened:
            return
        self._is_opened = True
        yield HEARTBEAT
        if not self.request.HasField("conversation_state"):
            raise RunRefused(NAMED["no_state"])
        self.model()
        yield from self._ask_context()
        self._look_at_tools()
        yield from self.listen()
        yield from self._hear_words()
        yield from self.run.acknowledged()

    def mind(self) -> Steps:
        """The demo model's legs, up to its last word; raises RunRefused."""
        yield from self.opening()
        mind = Mind(self.run, self.model(), self.offer, self._system())
        while not self._is_complete:
            yield from self._deliver()
            leg = yield from self._leg(mind)
            yield from self.keep(Message(role="assistant", parts=leg.parts))
            if leg.calls:
                yield from self._run_tools(mind, leg.calls)
            yield update(step_completed=updates.StepCompletedUpdate(step_id=self.run.legs, step_duration_ms=1))
            self._is_complete = not leg.calls and not self.run.injections

    def closing(self) -> Steps:
        """The end of a turn that went well."""
        yield from self.run.acknowledged()
        yield self.checkpoint()
        yield turn_ended(self.usage)
        yield End()

    # What the parts are made of

    def model(self) -> Model:
        """The model that was asked for; raises RunRefused when there is none of that name."""
        request = self.request
        name = (request.requested_model.model_id or request.model_details.model_id).partition("[")[0]
        models = self.run.settings.models
        found = next((model for model in models if name in (model.id, *model.aliases)), None)
        if found is None and name:
            raise RunRefused(NAMED["bad_model"])
        return found or models[0]

    def listen(self) -> Steps:
        """Read the conversation so far out of the client's blobs; raises RunRefused when one is missing."""
        if self._is_listened:
            return
        self._is_listened = True
        self.ids = list(self.request.conversation_state.root_prompt_messages_json)
        blobs = yield from self.run.fetch(self.ids)
        heard = [(key, history.read(data)) for key, data in zip(self.ids, blobs, strict=True)]
        if self.request.action.HasField("resume_action") and heard:
            heard = self._resumed(heard)
        self.ids = [key for key, _ in heard]
        self.messages = [message for _, message in heard if message is not None]

    def keep(self, message: Message) -> Steps:
        """Add a message to the conversation and have the client store it."""
        self.messages.append(message)
        yield from self.store(*history.write(message))

    def store(self, *blobs: bytes) -> Steps:
        """Have the client store blobs that belong to the conversation."""
        for data in blobs:
            key, send = self.run.store(data)
            self.ids.append(key)
            yield send

    def checkpoint(self, pending: Iterable[str] = ()) -> Send:
        """The state of the conversation, for the client to hand back with its next turn."""
        state = conversation.ConversationStateStructure(
            root_prompt_messages_json=self.ids,
            pending_tool_calls=pending,
            token_details=conversation.ConversationTokenDetails(
                used_tokens=self._latest.prompt + self._latest.output, max_tokens=self.model().context
            ),
            mode=self.request.conversation_state.mode or shared.AGENT_MODE_AGENT,
        )
        return say(agent.AgentServerMessage(conversation_checkpoint_update=state))

    # How it opens

    def _ask_context(self) -> Steps:
        """The surroundings, from the request or else by asking; a client that does not answer is not waited for."""
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

    def _look_at_tools(self) -> None:
        tools = self.run.context.tools if self.run.context else ()
        self.offer = offered(self.request.mcp_tools.mcp_tools, tools)
        refusal = self.offer.refusal() if self.run.settings.strict_tools else None
        if refusal is not None:
            raise RunRefused(refusal)

    def _resumed(self, heard: list[tuple[bytes, Message | None]]) -> list[tuple[bytes, Message | None]]:
        """A turn that broke off: calls without results are made again, and an answer that is whole needs no more."""
        last = heard[-1][1]
        if last is None or last.role != "assistant":
            return heard
        if any(isinstance(part, ToolCall) for part in last.parts):
            return heard[:-1]
        self._is_complete = True
        return heard

    def _hear_words(self) -> Steps:
        if not self.ids:
            yield from self.store(_SYSTEM)
        action = self.request.action
        given = (action.user_message_action, action.start_plan_action)
        said = [one.user_message for one in given if one.HasField("user_message")]
        for message in (*action.user_message_action.prepend_user_messages, *said):
            parts = yield from self._parts(message)
            yield from self._hear(parts)

    def _hear(self, parts: tuple[Part, ...]) -> Steps:
        """Words of the user. A whole conversation that a client has written into them is heard as one."""
        yield from self.store(*history.write(Message(role="user", parts=parts)))
        match parts:
            case (Text() as only,) if spoken := history.transcript(only.text):
                self.messages += spoken
            case _:
                self.messages.append(Message(role="user", parts=parts))

    def _parts(self, message: conversation.UserMessage) -> Doing[tuple[Part, ...]]:
        text = message.text
        if message.HasField("text_blob_id"):
            (data,) = yield from self.run.fetch([message.text_blob_id])
            text = data.decode(errors="replace")
        if self.run.words is not None and message.text == self.asked:
            text = self.run.words
        images: list[Part] = []
        for image in message.selected_context.selected_images:
            data = image.data or image.blob_id_with_data.data
            if image.blob_id:
                (data,) = yield from self.run.fetch([image.blob_id], NAMED["image"])
            images.append(Image(media_type=image.mime_type, data=b64encode(data).decode()))
        return (Text(text=text), *images)

    def _system(self) -> str:
        """What the model hears beside the conversation: rules, and where it is."""
        given = self.run.context or context.RequestContext()
        rules = [rule.content for rule in (*given.rules, *given.non_file_rules)]
        where = [f"Working directory: {path}" for path in given.env.workspace_paths[:1]]
        return "\n\n".join(
            text for text in (self.request.custom_system_prompt, given.cloud_rule, *rules, *where) if text
        )

    # How the model speaks

    def _leg(self, mind: Mind) -> Doing[Leg]:
        yield update(step_started=updates.StepStartedUpdate(step_id=self.run.begin_leg()))
        leg = yield from mind.leg(self.messages)
        self._latest = leg.usage
        self.usage = added(self.usage, leg.usage)
        return leg

    def _run_tools(self, mind: Mind, calls: Sequence[ToolCall]) -> Steps:
        """All execs go out before any result is waited for, and a checkpoint with them."""
        together = Together([mind.perform(call) for call in calls])
        yield from together.begin()
        yield self.checkpoint(pending=[call.id for call in calls])
        results = yield from together.finish()
        for call, result in zip(calls, results, strict=True):
            yield mind.completed(call, result)
        yield from self.keep(Message(role="user", parts=tuple(results)))
        yield from self.run.acknowledged()

    def _deliver(self) -> Steps:
        """Words that the user put in while the turn was under way."""
        while self.run.injections:
            injection = self.run.injections.popleft()
            for state in (
                updates.ContextInjectionState(queued=shared.Opaque()),
                updates.ContextInjectionState(delivered=updates.ContextInjectionDelivered()),
            ):
                told = updates.ContextInjectionStateUpdate(injection_id=injection.injection_id, state=state)
                yield update(context_injection_state=told)
            parts = yield from self._parts(injection.user_context.user_message)
            yield from self._hear(parts)
            yield from self.run.acknowledged()


Program: TypeAlias = Callable[[Turn], Iterable[Step]]
"""What the server does in a run."""


def turn_ended(usage: Usage | None = None) -> Send:
    """The model is done; without usage as older services said it."""
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


def added(one: Usage, other: Usage) -> Usage:
    """What two legs cost together."""
    return Usage(
        input=one.input + other.input,
        output=one.output + other.output,
        cache_read=one.cache_read + other.cache_read,
        cache_write=one.cache_write + other.cache_write,
        reasoning=one.reasoning + other.reasoning,
    )


def _text(message: Message) -> str:
    return "\n".join(part.text for part in message.parts if isinstance(part, Text))
