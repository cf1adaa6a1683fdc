"""Questions of the service: every kind has an answer, in the bytes that Cursor's own client sends."""

import pytest
from google.protobuf.unknown_fields import UnknownFieldSet

from tieline.wire.cursor._pb import agent_pb2 as agent
from tieline.wire.cursor._pb import queries_pb2 as queries
from tieline.wire.cursor.run.query_replies import QueryReply, QuerySettings, reply_to

ALL = QuerySettings()
NONE = QuerySettings(allow_web=False, allow_mode_switch=False, allow_images=False)


def asked(query_hex: str) -> queries.InteractionQuery:
    return agent.AgentServerMessage.FromString(bytes.fromhex(query_hex)).interaction_query


def answered(query: queries.InteractionQuery, settings: QuerySettings = ALL) -> QueryReply:
    reply = reply_to(query, settings)
    assert reply is not None
    return reply


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("3a19080112150a130a07776561746865721208746f6f6c755f3230", "3206080112020a00"),
        ("3a2608054a220a200a1468747470733a2f2f6578616d706c652e636f6d2f1208746f6f6c755f3234", "320608054a020a00"),
        ("3a0408064200", "3206080642020a00"),
        ("3a0408096200", "3206080962020a00"),
        ("3a04082a1200", "3206082a12020a00"),
    ],
    ids=["web search", "web fetch", "set up vm", "generate image", "published"],
)  # fmt: skip
def test_what_is_allowed_is_answered_byte_for_byte_as_by_cursors_own_client(query: str, expected: str) -> None:
    reply = answered(asked(query))
    assert reply.message.hex() == expected
    assert reply.note == ""


@pytest.mark.parametrize(
    ("kind", "field", "refusal"),
    [
        ("pr_management_request_query", "pr_management_result", "error"),
        ("mcp_auth_request_query", "mcp_auth_request_response", "rejected"),
        ("replace_env_args", "replace_env_result", "error"),
        ("connect_scm_request_query", "connect_scm_request_response", "error"),
        ("web_search_request_query", "web_search_request_response", "rejected"),
        ("web_fetch_request_query", "web_fetch_request_response", "rejected"),
        ("switch_mode_request_query", "switch_mode_request_response", "rejected"),
        ("generate_image_request_query", "generate_image_request_response", "error"),
    ],
)
def test_what_is_not_allowed_is_refused_with_a_reason(kind: str, field: str, refusal: str) -> None:
    query = queries.InteractionQuery(id=42)
    getattr(query, kind).SetInParent()
    reply = answered(query, NONE)
    response = agent.AgentClientMessage.FromString(reply.message).interaction_response
    assert response.id == 42
    assert response.WhichOneof("result") == field
    verdict = getattr(response, field)
    assert verdict.WhichOneof("result") == refusal
    reason = getattr(verdict, refusal).reason
    assert reason
    assert reason in reply.note


def test_what_only_a_person_may_allow_is_refused_whatever_the_settings_say() -> None:
    plan, mode = queries.InteractionQuery(id=1), queries.InteractionQuery(id=2)
    plan.create_plan_request_query.args.plan = "# Plan"
    mode.switch_mode_request_query.args.target_mode_id = "agent"
    responses = [
        agent.AgentClientMessage.FromString(answered(query).message).interaction_response for query in (plan, mode)
    ]
    assert "did not approve" in responses[0].create_plan_request_response.result.error.error
    assert "consent" in responses[1].switch_mode_request_response.rejected.reason


def test_a_refusal_has_the_published_shape() -> None:
    """Spec: web fetch rejected with `no`, query id 42, is `320a082a4a0612040a026e6f`."""
    query = queries.InteractionQuery(id=42)
    query.web_fetch_request_query.SetInParent()
    message = answered(query, NONE).message
    reason = agent.AgentClientMessage.FromString(
        message
    ).interaction_response.web_fetch_request_response.rejected.reason
    body = bytes.fromhex("0a") + bytes([len(reason)]) + reason.encode()
    rejected = bytes.fromhex("12") + bytes([len(body)]) + body
    fetched = bytes.fromhex("082a4a") + bytes([len(rejected)]) + rejected
    assert message == bytes.fromhex("32") + bytes([len(fetched)]) + fetched


@pytest.mark.parametrize("is_async", [False, True])
def test_a_question_is_turned_down_with_the_advice_to_ask_in_plain_text(is_async: bool) -> None:
    query = queries.InteractionQuery(id=2)
    query.ask_question_interaction_query.args.run_async = is_async
    reply = answered(query)
    result = agent.AgentClientMessage.FromString(reply.message).interaction_response.ask_question_interaction_response
    assert "plain text" in result.result.rejected.reason
    assert "plain text" in reply.note


@pytest.mark.parametrize("number", [5, 6, 15, 99, 536870911])
def test_a_question_of_an_unknown_kind_is_turned_down_under_its_own_number(number: int) -> None:
    tag = number << 3 | 2
    spelled = bytearray()
    while tag > 0x7F:
        spelled.append(tag & 0x7F | 0x80)
        tag >>= 7
    spelled.append(tag)
    query = queries.InteractionQuery.FromString(b"\x08\x0c" + bytes(spelled) + b"\x03\x0a\x01x")
    response = agent.AgentClientMessage.FromString(answered(query).message).interaction_response
    fields = UnknownFieldSet(response)
    assert response.id == 12
    assert [fields[at].field_number for at in range(len(fields))] == [number]
    refused, size, reason, length, *text = fields[0].data
    assert (refused, reason) == (0x12, 0x0A)
    assert (size, length) == (len(fields[0].data) - 2, len(text))
    assert bytes(text).decode().endswith("Continue without it.")


@pytest.mark.parametrize(
    "query", [queries.InteractionQuery(id=3), queries.InteractionQuery.FromString(b"\xf8\x01\x05")]
)
def test_what_asks_nothing_is_not_answered(query: queries.InteractionQuery) -> None:
    assert reply_to(query, ALL) is None


def test_every_kind_in_the_schema_has_an_answer_under_its_own_number() -> None:
    kinds = queries.InteractionQuery.DESCRIPTOR.oneofs_by_name["query"].fields
    results = {
        field.number: field.name for field in queries.InteractionResponse.DESCRIPTOR.oneofs_by_name["result"].fields
    }
    assert len(kinds) == len(results)
    for kind in kinds:
        for settings in (ALL, NONE):
            query = queries.InteractionQuery(id=7)
            getattr(query, kind.name).SetInParent()
            response = agent.AgentClientMessage.FromString(answered(query, settings).message).interaction_response
            assert response.WhichOneof("result") == results[kind.number]
