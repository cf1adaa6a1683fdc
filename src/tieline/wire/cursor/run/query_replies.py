"""Questions the service asks the person, and the answers where no person decides.

Every question is answered, or the run waits for ever. What only a person may allow, a plan or another mode, is refused;
for the rest the settings decide. Nearly all answers share one shape, under the number of the question: field 1 is a
yes, field 2 a no with its reason. A question of a kind that is not known here is turned down in that shape too.
"""

from typing import NamedTuple

from google.protobuf.unknown_fields import UnknownFieldSet

from tieline.model.content import Value
from tieline.wire.cursor._pb import agent_pb2 as agent
from tieline.wire.cursor._pb import queries_pb2 as queries

NO_WEB = "The user does not allow Cursor's own web access. Use a tool of the client, or go on without."
NO_SWITCH = "Another mode needs the consent of the user, and there is none. Go on in this mode."
NO_APPROVAL = "The user did not approve the plan. Do not carry it out."
NO_IMAGES = "The user does not allow images to be made. Go on without."
NO_CLOUD = "This is only available in cloud agents. Go on without."
NO_LOGIN = "Nobody can log in to an MCP server from here. Go on without it."
NO_CHANGE = "The environment cannot be replaced here. Go on with it as it is."
NO_CODE_HOST = "Nobody can connect a code host from here. Go on without it."
NO_QUESTIONS = "Nobody can answer a question in this form. Ask the user in plain text, and end the turn with that."
UNKNOWN = "This client does not know this kind of question. Go on without it."

_LENGTH_DELIMITED = 2
_RESPONSE = agent.AgentClientMessage.DESCRIPTOR.fields_by_name["interaction_response"].number
_YES = b"\x0a\x00"


class QuerySettings(Value):
    """What a user can set about the answers."""

    allow_web: bool = True
    """Whether Cursor may search the web and read pages by itself."""
    allow_mode_switch: bool = True
    """Whether a person may be asked to let the model change to another mode."""
    allow_images: bool = True
    """Whether the model may have images made."""


class QueryReply(NamedTuple):
    """An answer, serialized, and what a person looking on should know of it."""

    message: bytes
    note: str = ""
    kind: str = "cursor_query"
    """The kind of the note."""
    shown: str = ""
    """What the user is to read."""


def reply_to(query: queries.InteractionQuery, settings: QuerySettings, why: str = "") -> QueryReply | None:
    """Return the answer where no person decides, `why` none did; None if nothing is asked."""
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
    """An answer in the envelope it travels in."""
    return agent.AgentClientMessage(interaction_response=response).SerializeToString()


def accept_plan(query: queries.InteractionQuery) -> QueryReply:
    """Approve a plan, and show it."""
    response = queries.InteractionResponse(id=query.id)
    response.create_plan_request_response.result.success.SetInParent()
    plan = query.create_plan_request_query.args
    return QueryReply(responding(response), shown=plan.plan or plan.overview)


def reject_plan(query: queries.InteractionQuery, feedback: str) -> QueryReply:
    """Reject a plan with what there is to say about it."""
    response = queries.InteractionResponse(id=query.id)
    response.create_plan_request_response.result.error.error = f"{NO_APPROVAL} {feedback}".strip()
    return QueryReply(responding(response), feedback or NO_APPROVAL, "plan_rejected")


def _verdict(number: int, settings: QuerySettings) -> tuple[str, str]:
    """What is asked for, and why it is refused; no reason is a yes."""
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
    """The number of a question that our schema does not have; 0 if there is none."""
    fields = UnknownFieldSet(query)
    kinds = (fields[at] for at in range(len(fields)))
    return next((int(kind.field_number) for kind in kinds if kind.wire_type == _LENGTH_DELIMITED), 0)


def _refuse_question(query_id: int) -> QueryReply:
    response = queries.InteractionResponse(id=query_id)
    response.ask_question_interaction_response.result.rejected.reason = NO_QUESTIONS
    note = "the model asked in a form that only a person before the editor can answer: it was told to ask in plain text"
    return QueryReply(responding(response), note)


def _reply(query_id: int, number: int, what: str, reason: str) -> QueryReply:
    verdict = _nested(2, _nested(1, reason.encode())) if reason else _YES
    response = queries.InteractionResponse(id=query_id).SerializeToString() + _nested(number, verdict)
    return QueryReply(_nested(_RESPONSE, response), f"Cursor asked for {what}: {reason}" if reason else "")


def _nested(number: int, payload: bytes) -> bytes:
    """A field that holds a message or text."""
    return _varint(number << 3 | _LENGTH_DELIMITED) + _varint(len(payload)) + payload


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
