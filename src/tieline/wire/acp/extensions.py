"""The shapes of what single agents add to the protocol, and cannot go on without an answer to.

One asks its questions and has its plans approved by requests of its own, `cursor/…`; it takes an outcome only inside of
another object called outcome, and waits for ever when it is told that a method is unknown. Another puts its questions
into a permission request.
"""

from tieline.wire.acp.schema import Shape

PREFIX = "cursor/"
ASK_QUESTION = "cursor/ask_question"
CREATE_PLAN = "cursor/create_plan"
UPDATE_TODOS = "cursor/update_todos"


class Choice(Shape):
    id: str
    label: str


class ChoiceQuestion(Shape):
    id: str
    prompt: str
    options: list[Choice]
    allow_multiple: bool = False


class AskQuestionParams(Shape):
    questions: list[ChoiceQuestion]
    tool_call_id: str = ""
    session_id: str = ""
    title: str | None = None


class Todo(Shape):
    id: str
    content: str
    status: str


class CreatePlanParams(Shape):
    plan: str
    tool_call_id: str = ""
    session_id: str = ""
    name: str | None = None
    overview: str | None = None
    todos: list[Todo] | None = None


class UpdateTodosParams(Shape):
    """With `merge` these todos replace only those of the same id."""

    todos: list[Todo]
    tool_call_id: str = ""
    session_id: str = ""
    merge: bool = False


class ChoiceAnswer(Shape):
    question_id: str
    selected_option_ids: list[str]


class Outcome(Shape):
    """What became of a question (answered, skipped, cancelled) or of a plan (accepted, rejected, cancelled)."""

    outcome: str
    answers: list[ChoiceAnswer] | None = None
    reason: str | None = None


class OutcomeResult(Shape):
    outcome: Outcome


class OptionLabel(Shape):
    label: str
    description: str | None = None


class LabelQuestion(Shape):
    """A question inside of a permission request; what is answered is the label of an option, or other words."""

    question: str
    header: str | None = None
    options: list[OptionLabel] | None = None
    multi_select: bool = False


class QuestionInput(Shape):
    """The same questions as the input of the call."""

    questions: list[LabelQuestion]
