"""Replies to queries from the service on which no person decides.

Every query needs a reply, or the run waits forever. Questions, plans and mode changes are refused, because only a
person is allowed to decide on them. The settings determine the replies to requests for web access and image generation.
For every other kind of query, the reply is always the same.

A reply uses the field number of its query. Nearly all replies have the same structure: field 1 is an approval, field 2
is a refusal with its reason. Therefore, even queries of unknown kinds can be refused.
"""

from typing import NamedTuple

from google.protobuf.unknown_fields import UnknownFieldSet

from tieline.model.content import Value
from tieline.wire.cursor._pb import agent_pb2 as agent
from tieline.wire.cursor._pb import queries_pb2 as queries

NO_WEB = "The user does not allow Cursor's own web access. Use a tool of the client, or continue without."
NO_SWITCH = "Switching the mode needs the consent of the user, who did not give it. Continue in this mode."
NO_APPROVAL = "The user did not approve the plan. Do not carry it out."
NO_IMAGES = "The user does not allow image generation. Continue without."
NO_CLOUD = "This is only available in cloud agents. Continue without."
NO_LOGIN = "Logging in to an MCP server is not possible here. Continue without it."
NO_CHANGE = "The environment cannot be replaced here. Continue with it as it is."
NO_CODE_HOST = "Connecting a code host is not possible here. Continue without it."
NO_QUESTIONS = "Questions in this form cannot be answered here. Ask the user in plain text, and end the turn with that."
UNKNOWN = "This client does not support this kind of question. Continue without it."

_LENGTH_DELIMITED = 2
_RESPONSE = agent.AgentClientMessage.DESCRIPTOR.fields_by_name["interaction_response"].number
_YES = b"\x0a\x00"


class QuerySettings(Value):
    """The user's settings for replies to queries from the service."""

    allow_web: bool = True
    """Whether Cursor's service is allowed to search the web and read web pages itself."""
    allow_mode_switch: bool = True
    """Whether a person is asked when the model wants to change the mode. If not, the change is refused."""
    allow_images: bool = True
    """Whether the model is allowed to generate images."""


class QueryReply(NamedTuple):
    """A serialized reply to a query, and an optional note about it for the user."""

    message: bytes
    note: str = ""
    kind: str = "cursor_query"
    """The kind of the note about the reply."""
    shown: str = ""
    """Text that is shown to the user as part of the model's answer."""


def reply_to(query: queries.InteractionQuery, settings: QuerySettings, why: str = "") -> QueryReply | None:
    """Return the reply to a query on which no person decides; None if the query is empty.

    `why` is the reason why no person decided. Refusals include it, except for questions and queries of unknown kinds.
    """
    kind = query.WhichOneof("query")
    if kind == "ask_question_interaction_query":
        return _refuse_question(query.id)
    if kind == "create_plan_request_query":
        return reject_plan(query, why)
    if kind is not None:
        number = query.DESCRIPTOR.fields_by_name[kind].number
        what, reason = _verdict(number, settings)
        return _reply(query.id, number, what, f"{why} {reason}".strip() if reason else "")
    number = _unknown_kind(query)
    return _reply(query.id, number, f"something of the unknown kind {number}", UNKNOWN) if number else None


def responding(response: queries.InteractionResponse) -> bytes:
    """Serialize a response to a query, in the envelope that all messages to the service have."""
    return agent.AgentClientMessage(interaction_response=response).SerializeToString()


def accept_plan(query: queries.InteractionQuery) -> QueryReply:
    """Return the reply that approves a plan. The text of the plan is then shown to the user."""
    response = queries.InteractionResponse(id=query.id)
    response.create_plan_request_response.result.success.SetInParent()
    plan = query.create_plan_request_query.args
    return QueryReply(responding(response), shown=plan.plan or plan.overview)


def reject_plan(query: queries.InteractionQuery, feedback: str) -> QueryReply:
    """Return the reply that rejects a plan, with the user's feedback."""
    response = queries.InteractionResponse(id=query.id)
    response.create_plan_request_response.result.error.error = f"{NO_APPROVAL} {feedback}".strip()
    return QueryReply(responding(response), feedback or NO_APPROVAL, "plan_rejected")


def _verdict(number: int, settings: QuerySettings) -> tuple[str, str]:
    """Return a description of the query with this field number, and the reason to refuse it.

    The reason is empty if the query is to be approved.
    """
    match number:
        case 2:
            return "a web search", "" if settings.allow_web else NO_WEB
        case 4:
            return "another mode", NO_SWITCH
        case 9:
            return "reading a web page", "" if settings.allow_web else NO_WEB
        case 12:
            return "making an image", "" if settings.allow_images else NO_IMAGES
        case _:
            return _ALWAYS.get(number, ("", UNKNOWN))


_ALWAYS = {
    8: ("a virtual machine", ""),
    10: ("work on a pull request", NO_CLOUD),
    11: ("a login to an MCP server", NO_LOGIN),
    13: ("another environment", NO_CHANGE),
    14: ("a connection to a code host", NO_CODE_HOST),
}


def _unknown_kind(query: queries.InteractionQuery) -> int:
    """Return the field number of a query whose kind is missing from Tieline's schema; 0 if the query is empty."""
    fields = UnknownFieldSet(query)
    kinds = (fields[at] for at in range(len(fields)))
    return next((int(kind.field_number) for kind in kinds if kind.wire_type == _LENGTH_DELIMITED), 0)


def _refuse_question(query_id: int) -> QueryReply:
    response = queries.InteractionResponse(id=query_id)
    response.ask_question_interaction_response.result.rejected.reason = NO_QUESTIONS
    note = "the model asked a question that cannot be answered here: it was told to ask in plain text"
    return QueryReply(responding(response), note)


def _reply(query_id: int, number: int, what: str, reason: str) -> QueryReply:
    verdict = _nested(2, _nested(1, reason.encode())) if reason else _YES
    response = queries.InteractionResponse(id=query_id).SerializeToString() + _nested(number, verdict)
    return QueryReply(_nested(_RESPONSE, response), f"Cursor asked for {what}: {reason}" if reason else "")


def _nested(number: int, payload: bytes) -> bytes:
    """Encode a protobuf field that holds a message or a string."""
    return _varint(number << 3 | _LENGTH_DELIMITED) + _varint(len(payload)) + payload


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
