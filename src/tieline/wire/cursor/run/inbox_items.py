"""Convert queries from the service into inbox items for a person, and the person's answers into replies.

A person decides on three kinds of queries: questions with options, plans, and requests to switch the mode. A refusal
includes the person's reason, if there is one. If no person decides on such a query, `query_replies` provides the reply,
which is always a refusal.

A plan can also be shown to the user as text. The user's next message then approves or rejects it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from tieline.model.content import ToolResult
from tieline.model.events import PlanEntry, Status
from tieline.model.inbox import (
    ALLOW,
    Answer,
    ApprovalAnswer,
    Field,
    InboxItem,
    Option,
    PlanReview,
    Question,
    QuestionAnswer,
    ReviewAnswer,
    mode_switch,
    plan_review,
)
from tieline.wire.cursor._pb import queries_pb2 as queries
from tieline.wire.cursor._pb.shared_pb2 import TodoItem, TodoStatus
from tieline.wire.cursor.run.query_replies import QueryReply, QuerySettings, accept_plan, reject_plan, responding
from tieline.wire.shared.questions.client_tool import read_result
from tieline.wire.shared.questions.text import is_approval, question_text

NO_ANSWER = "The user does not want to answer. Continue without."
STAY = "The user wants to stay in this mode."

_Question = queries.AskQuestionArgs.Question
_STATUSES: Mapping[int, Status] = {
    TodoStatus.TODO_STATUS_IN_PROGRESS: "in_progress",
    TodoStatus.TODO_STATUS_COMPLETED: "completed",
}


def inbox_item_of(query: queries.InteractionQuery, settings: QuerySettings) -> InboxItem | None:
    """Return the inbox item for a query; None if no person decides on such queries, or if the settings decide."""
    match query.WhichOneof("query"):
        case "ask_question_interaction_query":
            return _form(query.ask_question_interaction_query.args)
        case "create_plan_request_query":
            return _review(query.create_plan_request_query.args)
        case "switch_mode_request_query" if settings.allow_mode_switch:
            args = query.switch_mode_request_query.args
            return mode_switch(args.target_mode_id, args.explanation)
        case _:
            return None


def reply_with(query: queries.InteractionQuery, answer: Answer | None) -> QueryReply | None:
    """Convert a person's answer into a reply to the query. Return None if the answer contains no decision."""
    match answer:
        case QuestionAnswer(action="accept"):
            return _answered(query, answer.values)
        case QuestionAnswer(action="decline"):
            return _declined(query, answer.reason)
        case ReviewAnswer(is_unanswered=False):
            return accept_plan(query) if answer.approved else reject_plan(query, answer.feedback)
        case ApprovalAnswer(option=str()):
            return _switched(query, answer)
        case _:
            return None


def reply_with_result(query: queries.InteractionQuery, result: ToolResult) -> QueryReply | None:
    """Return the reply to a question that the client's tool asked the user; None if the tool's result has no answer."""
    form = _form(query.ask_question_interaction_query.args)
    return reply_with(query, read_result(result, form)) if form is not None else None


def plan_as_text(query: queries.InteractionQuery) -> tuple[str, str]:
    """Return the text of a plan, and a text that asks the user whether to carry it out."""
    args = query.create_plan_request_query.args
    review = _review(args)
    steps = "\n".join(f"{number}. {step.content}" for number, step in enumerate(review.steps, 1))
    return review.plan or args.overview or steps or review.title, question_text(Question(message=""), [_APPROVAL])


def reply_with_text(query: queries.InteractionQuery, text: str) -> QueryReply:
    """Convert `text`, the user's message after a plan, into a reply. Any text but a plain approval rejects the plan."""
    return accept_plan(query) if is_approval(text) else reject_plan(query, text)


_APPROVAL = Field(
    name="approve",
    kind="yes_no",
    title="Carry out this plan?",
    description="If not, say what to change.",
    required=True,
)


def reason_of(answer: Answer | None) -> str:
    """Return the reason why an answer contains no decision; empty if it is unknown."""
    match answer:
        case ReviewAnswer():
            return answer.feedback
        case QuestionAnswer() | ApprovalAnswer():
            return answer.reason
        case None:
            return ""


# ── Queries ──────────────────────────────────────────────────────────────────────────────────────


def _form(args: queries.AskQuestionArgs) -> Question | None:
    fields = tuple(_field(name, question) for name, question in _named(args))
    return Question(message=args.title, fields=fields) if fields else None


def _named(args: queries.AskQuestionArgs) -> Iterator[tuple[str, _Question]]:
    """Yield each question with a unique name. The ids of the questions may be empty or repeated."""
    names: set[str] = set()
    for number, question in enumerate(args.questions, 1):
        name = question.id
        if not name or name in names:
            name = f"{question.id}#{number}"
        names.add(name)
        yield name, question


def _field(name: str, question: _Question) -> Field:
    options = {option.id: Option(id=option.id, label=option.label or option.id) for option in question.options}
    return Field(
        name=name,
        kind="choice" if options else "text",
        title=question.prompt,
        required=True,
        options=tuple(options.values()),
        many=bool(options) and question.allow_multiple,
        is_open=bool(options),
    )


def _review(args: queries.CreatePlanArgs) -> PlanReview:
    todos = [*args.todos, *(todo for phase in args.phases for todo in phase.todos)]
    return plan_review(args.plan, name=args.name, overview=args.overview, steps=[_step(todo) for todo in todos])


def _step(todo: TodoItem) -> PlanEntry:
    return PlanEntry(content=todo.content, status=_STATUSES.get(todo.status, "pending"))


# ── Answers ──────────────────────────────────────────────────────────────────────────────────────


def _answered(query: queries.InteractionQuery, values: Mapping[str, Any]) -> QueryReply:
    """Return the reply to questions. Values that are ids of options are sent as ids, other values as free text."""
    response = queries.InteractionResponse(id=query.id)
    success = response.ask_question_interaction_response.result.success
    success.SetInParent()
    for name, question in _named(query.ask_question_interaction_query.args):
        value = values.get(name)
        if value is None:
            continue
        given = [str(one) for one in value] if isinstance(value, list | tuple) else [str(value)]
        known = {option.id for option in question.options}
        success.answers.add(
            question_id=question.id,
            selected_option_ids=[one for one in given if one in known],
            freeform_text=", ".join(one for one in given if one not in known),
        )
    return QueryReply(responding(response))


def _declined(query: queries.InteractionQuery, reason: str) -> QueryReply:
    response = queries.InteractionResponse(id=query.id)
    response.ask_question_interaction_response.result.rejected.reason = reason or NO_ANSWER
    return QueryReply(responding(response), reason or NO_ANSWER, "question_declined")


def _switched(query: queries.InteractionQuery, permitted: ApprovalAnswer) -> QueryReply:
    response = queries.InteractionResponse(id=query.id)
    verdict = response.switch_mode_request_response
    if permitted.option == ALLOW.id:
        verdict.approved.SetInParent()
        return QueryReply(responding(response))
    verdict.rejected.reason = f"{STAY} {permitted.reason}".strip()
    return QueryReply(responding(response), verdict.rejected.reason, "denied")
