"""JSON objects that individual agents add to the protocol.

Cursor's agent has its own requests, `cursor/…`, to ask questions and to get approval for plans. It expects the outcome
inside an object with the member `outcome`, and waits forever if the client answers that a method is unknown. Qwen puts
questions into a permission request.
"""

from tieline.wire.acp.schema import AcpShape

PREFIX = "cursor/"
ASK_QUESTION = "cursor/ask_question"
CREATE_PLAN = "cursor/create_plan"
UPDATE_TODOS = "cursor/update_todos"


class QuestionOptionShape(AcpShape):
    id: str
    label: str


class ChoiceQuestion(AcpShape):
    id: str
    prompt: str
    options: list[QuestionOptionShape]
    allow_multiple: bool = False


class AskQuestionParams(AcpShape):
    questions: list[ChoiceQuestion]
    tool_call_id: str = ""
    session_id: str = ""
    title: str | None = None


class TodoShape(AcpShape):
    id: str
    content: str
    status: str


class CreatePlanParams(AcpShape):
    plan: str
    tool_call_id: str = ""
    session_id: str = ""
    name: str | None = None
    overview: str | None = None
    todos: list[TodoShape] | None = None


class UpdateTodosParams(AcpShape):
    """An update to the todo list.

    If `merge` is set, each todo replaces the one with the same id, or is added. Otherwise the whole list is replaced.
    """

    todos: list[TodoShape]
    tool_call_id: str = ""
    session_id: str = ""
    merge: bool = False


class ChoiceAnswer(AcpShape):
    question_id: str
    selected_option_ids: list[str]


class OutcomeShape(AcpShape):
    """The outcome of a question (answered, skipped, cancelled) or of a plan (accepted, rejected, cancelled)."""

    outcome: str
    answers: list[ChoiceAnswer] | None = None
    reason: str | None = None


class OutcomeResult(AcpShape):
    outcome: OutcomeShape


class OptionLabel(AcpShape):
    label: str
    description: str | None = None


class LabelQuestion(AcpShape):
    """A question in a permission request. The answer is the label of an option, or free text."""

    question: str
    header: str | None = None
    options: list[OptionLabel] | None = None
    multi_select: bool = False


class QuestionInput(AcpShape):
    """An object with the questions in a permission request. It is the tool call's input, or part of its `_meta`."""

    questions: list[LabelQuestion]
