"""A request in neutral words, as the message that opens a run.

The last words of the user are the action, what was said before is history. Where a request ends with tool results only
(the run that waited for them is gone), the action is to go on.
"""

from collections.abc import Sequence
from typing import NamedTuple

from google.protobuf.message import DecodeError

from tieline.model.content import Text, ToolResult
from tieline.model.errors import GatewayError
from tieline.model.events import Note
from tieline.model.request import Reasoning, Request
from tieline.wire.cursor._pb.agent_pb2 import AgentClientMessage, AgentRunRequest, PreFetchedBlob
from tieline.wire.cursor._pb.context_pb2 import RequestContext
from tieline.wire.cursor._pb.conversation_pb2 import (
    ConversationAction,
    ConversationStateStructure,
    ResumeAction,
    UserMessage,
    UserMessageAction,
)
from tieline.wire.cursor._pb.shared_pb2 import McpTools, SelectedContext, SelectedImage
from tieline.wire.cursor.blobs import blob_id
from tieline.wire.cursor.models import CursorModel
from tieline.wire.cursor.opening.history import HistoryEncoder, SplitMessages, split_messages
from tieline.wire.cursor.opening.model_choice import MODES, ModelChoice, choose
from tieline.wire.cursor.opening.offered_tools import OfferedTools, SchemaCache
from tieline.wire.cursor.opening.request_context import MachineInfo, RunSettings, request_context, rules, system_prompt
from tieline.wire.cursor.opening.user_message import UserMessageBuilder

__all__ = [
    "MachineInfo",
    "ModelChoice",
    "Opening",
    "RunSettings",
    "continues",
    "open_run",
    "plain_user_text",
    "resume_run",
]

CONTINUE = "Continue."
"""What is said for a user who said nothing: the model had the last word, or there is a system prompt only."""
GO_ON = "Go on from the results above."
SO_FAR = "The conversation so far, as a record; tools are called by other means than those tags."


class Opening(NamedTuple):
    """A run about to begin."""

    message: bytes
    """The first message of the run, serialized."""
    blobs: dict[bytes, bytes]
    """The history it refers to, by blob id."""
    context: RequestContext
    """What to answer when the service asks for the context."""
    offer: OfferedTools
    notes: tuple[Note, ...]
    run_id: str


def open_run(
    request: Request,
    *,
    settings: RunSettings,
    surroundings: MachineInfo,
    conversation_id: str,
    run_id: str,
    message_id: str,
    checkpoint: bytes | None = None,
    model: CursorModel | None = None,
    schemas: SchemaCache | None = None,
) -> Opening:
    """The opening of a run that answers this request.

    With `checkpoint`, the state that an earlier run of the conversation left, the history is not told again: whoever
    gives it keeps the blobs it refers to. `model` is what is known of the model, if anything is.
    """
    notes: list[Note] = []
    reasoning = request.reasoning if settings.reasoning else Reasoning()
    choice = choose(request.model, reasoning, model, notes)
    offer = OfferedTools.of_request(request, schemas)
    talk = split_messages(request.messages)
    system = system_prompt(talk.system)
    custom = settings.system_prompt == "custom"
    rule = "\n\n".join(filter(None, ["" if custom else system, rules(request, offer, notes)]))
    context = request_context(surroundings, settings, offer, rule)

    told = _tell(talk, offer, settings, notes) if checkpoint is None else _tell_the_last(talk, notes)
    state = ConversationStateStructure(root_prompt_messages_json=told.ids, mode=MODES[choice.mode])
    run = AgentRunRequest(
        conversation_state=state if checkpoint is None else _restored(checkpoint),
        action=_action(told, choice, context, message_id),
        model_details=choice.details(),
        mcp_tools=McpTools(mcp_tools=context.tools),
        conversation_id=conversation_id,
        requested_model=choice.requested(),
        exclude_workspace_context=False,
        conversation_group_id=conversation_id,
        run_id=run_id,
    )
    if custom and system:
        run.custom_system_prompt = system
    if settings.send_blobs:
        run.pre_fetched_blobs.extend(PreFetchedBlob(id=key, value=data) for key, data in told.blobs.items())
    noted = tuple(dict.fromkeys([*offer.notes, *notes]))
    return Opening(_serialized(run), told.blobs, context, offer, noted, run_id)


def plain_user_text(request: Request) -> str:
    """Return what the user says, if the request ends with nothing but words of the user; else nothing."""
    parts = [part for message in split_messages(request.messages).last for part in message.parts]
    if not continues(request) or not all(isinstance(part, Text) for part in parts):
        return ""
    return "\n\n".join(part.text for part in parts if isinstance(part, Text) and part.text.strip())


def continues(request: Request) -> bool:
    """Tell whether the request just adds something the user says to what the service knows of the conversation."""
    last = split_messages(request.messages).last
    parts = [part for message in last for part in message.parts]
    is_said = bool(parts) and all(message.role == "user" for message in last)
    return is_said and not any(isinstance(part, ToolResult) for part in parts)


def resume_run(opening: Opening, checkpoint: bytes) -> bytes:
    """The message that goes on with a run whose stream was lost: the same run from the last checkpoint it sent."""
    run = AgentClientMessage.FromString(opening.message).run_request
    run.conversation_state.CopyFrom(_restored(checkpoint))
    run.action.CopyFrom(ConversationAction(resume_action=ResumeAction()))
    run.ClearField("pre_fetched_blobs")
    return _serialized(run)


# ── The conversation ─────────────────────────────────────────────────────────────────────────────


class _EncodedMessages(NamedTuple):
    """How a conversation is told."""

    ids: list[bytes]
    blobs: dict[bytes, bytes]
    words: str
    """What the user says; nothing if the model has to go on from results."""
    images: Sequence[SelectedImage]


def _tell(talk: SplitMessages, offer: OfferedTools, settings: RunSettings, notes: list[Note]) -> _EncodedMessages:
    words = _last_words(talk, notes)
    history = HistoryEncoder(offer, notes)
    if settings.history == "text":
        past = history.text(talk.past, words.results)
        said = words.text if words or not words.results else GO_ON
        return _EncodedMessages(
            [], {}, f"{SO_FAR}\n<history>\n{past}\n</history>\n\n{said}" if past else said, words.images
        )
    messages = [*history.messages(talk.past, words.results)]
    ids = [blob_id(message) for message in messages]
    return _EncodedMessages(ids, dict(zip(ids, messages, strict=True)), words.text, words.images)


def _tell_the_last(talk: SplitMessages, notes: list[Note]) -> _EncodedMessages:
    words = _last_words(talk, notes)
    return _EncodedMessages([], {}, words.text, words.images)


def _last_words(talk: SplitMessages, notes: list[Note]) -> UserMessageBuilder:
    words = UserMessageBuilder(notes)
    for message in talk.last:
        words.add(message)
    if not words and not words.results:
        notes.append(Note(kind="added", message=f"the user says nothing: the upstream is told {CONTINUE!r}"))
        words.say(CONTINUE)
    return words


def _action(
    told: _EncodedMessages, choice: ModelChoice, context: RequestContext, message_id: str
) -> ConversationAction:
    if not told.words and not told.images:
        return ConversationAction(resume_action=ResumeAction(request_context=context))
    message = UserMessage(text=told.words, message_id=message_id, mode=MODES[choice.mode])
    message.selected_context.CopyFrom(SelectedContext(selected_images=told.images))
    return ConversationAction(user_message_action=UserMessageAction(user_message=message, request_context=context))


# ── Bytes ────────────────────────────────────────────────────────────────────────────────────────


def _restored(checkpoint: bytes) -> ConversationStateStructure:
    try:
        return ConversationStateStructure.FromString(checkpoint)
    except DecodeError as error:
        raise GatewayError("upstream", "the checkpoint of the run is unreadable") from error


def _serialized(run: AgentRunRequest) -> bytes:
    """The run request in its envelope. Schemas are maps: only their sorted form is the same every time."""
    return AgentClientMessage(run_request=run).SerializeToString(deterministic=True)
