"""Questions of the service as asks of a person, and what the person says as the service is told it.

Three kinds are for a person: questions with options, plans, and changes of the mode. A no is told with its reason in
the words of the person, where there are any: a rejected question, a plan that failed, a mode that stays. An answer that
is nobody's is none; what is said then is up to `queries`, and never a yes.

A plan can also be put to the user as text, for the next message to approve or reject.
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
from tieline.wire.cursor.run.queries import Queries, Reply, accept_plan, reject_plan, responding
from tieline.wire.shared.questions.client_tool import read_result
from tieline.wire.shared.questions.text import is_approval, question_text

NO_ANSWER = "The user does not want to answer. Go on without."
STAY = "The user wants to stay in this mode."

_Question = queries.AskQuestionArgs.Question
_STATUSES: Mapping[int, Status] = {
    TodoStatus.TODO_STATUS_IN_PROGRESS: "in_progress",
    TodoStatus.TODO_STATUS_COMPLETED: "completed",
}


def ask_of(query: queries.InteractionQuery, settings: Queries) -> InboxItem | None:
    """What a person is to be asked; None if it is nothing for a person, or decided by the settings."""
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


def reply_with(query: queries.InteractionQuery, answer: Answer | None) -> Reply | None:
    """What the service is told of an answer; None if it is nobody's."""
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


def reply_with_result(query: queries.InteractionQuery, result: ToolResult) -> Reply | None:
    """What the service is told of the client's result of a call that asked the question."""
    form = _form(query.ask_question_interaction_query.args)
    return reply_with(query, read_result(result, form)) if form is not None else None


def plan_as_text(query: queries.InteractionQuery) -> tuple[str, str]:
    """Return a plan to be read in a chat, and the question about it."""
    args = query.create_plan_request_query.args
    review = _review(args)
    steps = "\n".join(f"{number}. {step.content}" for number, step in enumerate(review.steps, 1))
    return review.plan or args.overview or steps or review.title, question_text(Question(message=""), [_APPROVAL])


def reply_with_words(query: queries.InteractionQuery, words: str) -> Reply:
    """Return what the service is told of a user's message after a plan: only plain consent approves it."""
    return accept_plan(query) if is_approval(words) else reject_plan(query, words)


_APPROVAL = Field(
    name="approve",
    kind="yes_no",
    title="Shall this plan be carried out?",
    description="If not, say what to change.",
    required=True,
)


def reason_of(answer: Answer | None) -> str:
    """Why there is no answer, as far as that is told."""
    match answer:
        case ReviewAnswer():
            return answer.feedback
        case QuestionAnswer() | ApprovalAnswer():
            return answer.reason
        case None:
            return ""


# ── What is asked ────────────────────────────────────────────────────────────────────────────────


def _form(args: queries.AskQuestionArgs) -> Question | None:
    fields = tuple(_field(name, question) for name, question in _named(args))
    return Question(message=args.title, fields=fields) if fields else None


def _named(args: queries.AskQuestionArgs) -> Iterator[tuple[str, _Question]]:
    """The questions, each under a name of its own: nobody promises that their ids are some."""
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


# ── What is answered ─────────────────────────────────────────────────────────────────────────────


def _answered(query: queries.InteractionQuery, values: Mapping[str, Any]) -> Reply:
    """The options by their ids; words that are no option stand beside them."""
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
    return Reply(responding(response))


def _declined(query: queries.InteractionQuery, reason: str) -> Reply:
    response = queries.InteractionResponse(id=query.id)
    response.ask_question_interaction_response.result.rejected.reason = reason or NO_ANSWER
    return Reply(responding(response), reason or NO_ANSWER, "question_declined")


def _switched(query: queries.InteractionQuery, permitted: ApprovalAnswer) -> Reply:
    response = queries.InteractionResponse(id=query.id)
    verdict = response.switch_mode_request_response
    if permitted.option == ALLOW.id:
        verdict.approved.SetInParent()
        return Reply(responding(response))
    verdict.rejected.reason = f"{STAY} {permitted.reason}".strip()
    return Reply(responding(response), verdict.rejected.reason, "denied")
