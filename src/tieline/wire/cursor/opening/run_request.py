"""Build the message that opens a run from a neutral request.

The user's last message becomes the action of the run; all earlier messages become its history. A request may also end
with tool results and no user message, because the run that waited for the results is gone. The action is then to resume
or, if the history is sent as text, a user message that asks the model to continue.
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
from tieline.wire.cursor.models import CursorModel
from tieline.wire.cursor.opening.history import HistoryEncoder, SplitMessages, split_messages
from tieline.wire.cursor.opening.model_choice import MODES, ModelChoice, choose
from tieline.wire.cursor.opening.offered_tools import OfferedTools, SchemaCache
from tieline.wire.cursor.opening.request_context import MachineInfo, RunSettings, request_context, rules, system_prompt
from tieline.wire.cursor.opening.user_message import UserMessageBuilder
from tieline.wire.cursor.stored_state import blob_id

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
"""The text that is sent as the user's message if a request contains neither a new user message nor new tool results."""
GO_ON = "Go on from the results above."
SO_FAR = "The conversation so far, as a record. Do not use these tags to call tools."


class Opening(NamedTuple):
    """The first message of a run, and the data that the rest of the run needs."""

    message: bytes
    """The first message of the run, serialized."""
    blobs: dict[bytes, bytes]
    """The blobs of the history that the message refers to, by blob id."""
    context: RequestContext
    """The request context. It is part of the first message, and is sent again if the service requests it."""
    offer: OfferedTools
    notes: tuple[Note, ...]
    run_id: str

    @property
    def workspace(self) -> str:
        """The workspace directory in the request context; empty if there is none."""
        return next(iter(self.context.env.workspace_paths), "")


def open_run(
    request: Request,
    *,
    settings: RunSettings,
    machine_info: MachineInfo,
    conversation_id: str,
    run_id: str,
    message_id: str,
    checkpoint: bytes | None = None,
    model: CursorModel | None = None,
    schemas: SchemaCache | None = None,
) -> Opening:
    """Return the opening of a run that answers this request.

    `checkpoint` is the last state of an earlier run of the same conversation. With a checkpoint, the history is not
    sent again, and the caller must still have the blobs that the checkpoint refers to. `model` describes the requested
    model; None if it is unknown. `schemas` is a cache that all requests to a backend share.
    """
    notes: list[Note] = []
    reasoning = request.reasoning if settings.reasoning else Reasoning()
    choice = choose(request.model, reasoning, model, notes)
    offer = OfferedTools.of_request(request, schemas)
    split = split_messages(request.messages)
    system = system_prompt(split.system)
    custom = settings.system_prompt == "custom"
    rule = "\n\n".join(filter(None, ["" if custom else system, rules(request, offer, notes)]))
    context = request_context(machine_info, settings, offer, rule)

    encoded = _encode(split, offer, settings, notes) if checkpoint is None else _encode_last(split, notes)
    state = ConversationStateStructure(root_prompt_messages_json=encoded.ids, mode=MODES[choice.mode])
    run = AgentRunRequest(
        conversation_state=state if checkpoint is None else _restored(checkpoint),
        action=_action(encoded, choice, context, message_id),
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
        run.pre_fetched_blobs.extend(PreFetchedBlob(id=key, value=data) for key, data in encoded.blobs.items())
    noted = tuple(dict.fromkeys([*offer.notes, *notes]))
    return Opening(_serialized(run), encoded.blobs, context, offer, noted, run_id)


def plain_user_text(request: Request) -> str:
    """Return the text of the user's new message; empty if the request adds anything but text, such as tool results."""
    parts = [part for message in split_messages(request.messages).last for part in message.parts]
    if not continues(request) or not all(isinstance(part, Text) for part in parts):
        return ""
    return "\n\n".join(part.text for part in parts if isinstance(part, Text) and part.text.strip())


def continues(request: Request) -> bool:
    """Return whether the request adds only user messages to the conversation, and no tool results."""
    last = split_messages(request.messages).last
    parts = [part for message in last for part in message.parts]
    is_said = bool(parts) and all(message.role == "user" for message in last)
    return is_said and not any(isinstance(part, ToolResult) for part in parts)


def resume_run(opening: Opening, checkpoint: bytes) -> bytes:
    """Return the message that continues a run from `checkpoint` after its stream was lost."""
    run = AgentClientMessage.FromString(opening.message).run_request
    run.conversation_state.CopyFrom(_restored(checkpoint))
    run.action.CopyFrom(ConversationAction(resume_action=ResumeAction()))
    run.ClearField("pre_fetched_blobs")
    return _serialized(run)


# ── The conversation ─────────────────────────────────────────────────────────────────────────────


class _EncodedMessages(NamedTuple):
    """The messages of a request, encoded for the service: history as blobs, and the user's message."""

    ids: list[bytes]
    blobs: dict[bytes, bytes]
    text: str
    """The text of the user message, including a history that is sent as text.

    If there are neither text nor images, no user message is sent, and the run resumes.
    """
    images: Sequence[SelectedImage]


def _encode(split: SplitMessages, offer: OfferedTools, settings: RunSettings, notes: list[Note]) -> _EncodedMessages:
    user = _user_message(split, notes)
    history = HistoryEncoder(offer, notes)
    if settings.history == "text":
        past = history.text(split.past, user.results)
        text = user.text if user or not user.results else GO_ON
        if past:
            text = f"{SO_FAR}\n<history>\n{past}\n</history>\n\n{text}"
        return _EncodedMessages([], {}, text, user.images)
    messages = [*history.messages(split.past, user.results)]
    ids = [blob_id(message) for message in messages]
    return _EncodedMessages(ids, dict(zip(ids, messages, strict=True)), user.text, user.images)


def _encode_last(split: SplitMessages, notes: list[Note]) -> _EncodedMessages:
    user = _user_message(split, notes)
    return _EncodedMessages([], {}, user.text, user.images)


def _user_message(split: SplitMessages, notes: list[Note]) -> UserMessageBuilder:
    user = UserMessageBuilder(notes)
    for message in split.last:
        user.add(message)
    if not user and not user.results:
        notes.append(Note(kind="added", message=f"there is no user message: sent {CONTINUE!r} instead"))
        user.say(CONTINUE)
    return user


def _action(
    encoded: _EncodedMessages, choice: ModelChoice, context: RequestContext, message_id: str
) -> ConversationAction:
    if not encoded.text and not encoded.images:
        return ConversationAction(resume_action=ResumeAction(request_context=context))
    message = UserMessage(text=encoded.text, message_id=message_id, mode=MODES[choice.mode])
    message.selected_context.CopyFrom(SelectedContext(selected_images=encoded.images))
    return ConversationAction(user_message_action=UserMessageAction(user_message=message, request_context=context))


# ── Bytes ────────────────────────────────────────────────────────────────────────────────────────


def _restored(checkpoint: bytes) -> ConversationStateStructure:
    try:
        return ConversationStateStructure.FromString(checkpoint)
    except DecodeError as error:
        raise GatewayError("upstream", "the checkpoint of the run is unreadable") from error


def _serialized(run: AgentRunRequest) -> bytes:
    """Serialize the run request in its envelope. The output is deterministic: the entries of maps are sorted."""
    return AgentClientMessage(run_request=run).SerializeToString(deterministic=True)
