"""The tools with which a model consults the user: create_plan, ask_question and switch_mode.

This module only defines the tools and parses their calls; `guarded_tools` presents the calls to the user.
"""

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta

from tieline.model.content import ToolCall, Value
from tieline.model.request import ToolSpec
from tieline.tools.arguments import BadArguments, ToolDefinition
from tieline.tools.todos import TodoItem

Mode = Literal["chat", "plan", "agent"]
QuestionKind = Literal["yes_no", "choice", "text", "number", "file"]


class CreatePlan(Value):
    """The arguments of create_plan."""

    title: Annotated[str, Meta(min_length=1, max_length=200, description="The purpose of the plan, in a few words.")]
    plan: Annotated[str, Meta(min_length=1, max_length=100_000, description="The complete plan, in Markdown.")]
    todos: Annotated[tuple[TodoItem, ...], Meta(max_length=100, description="The steps, in order.")] = ()


class QuestionOption(Value):
    """One of the answers that the user can choose from."""

    label: Annotated[str, Meta(min_length=1, max_length=200, description="The answer, in a few words.")]
    description: Annotated[str, Meta(max_length=1000, description="What choosing it means.")] = ""


class AskQuestion(Value):
    """The arguments of ask_question."""

    question: Annotated[str, Meta(min_length=1, max_length=4000, description="The question, complete in itself.")]
    kind: Annotated[QuestionKind, Meta(description="The kind of answer expected.")] = "text"
    options: Annotated[
        tuple[QuestionOption, ...], Meta(max_length=20, description="For `choice`: two or more answers to choose from.")
    ] = ()
    multiple: Annotated[bool, Meta(description="For `choice`: whether several may be chosen.")] = False
    minimum: Annotated[float | None, Meta(description="For `number`: the smallest answer.")] = None
    maximum: Annotated[float | None, Meta(description="For `number`: the largest answer.")] = None


class SwitchMode(Value):
    """The arguments of switch_mode."""

    mode: Annotated[Mode, Meta(description="chat: only talk. plan: read, ask and plan. agent: make changes.")]
    reason: Annotated[str, Meta(max_length=1000, description="The reason, shown to the user.")] = ""


CREATE_PLAN = ToolDefinition(
    "create_plan",
    "Propose a plan to the user. Nothing is done until the user approves it; if it is rejected, the result says why.",
    CreatePlan,
)
ASK_QUESTION = ToolDefinition(
    "ask_question",
    "Ask the user something you need to know and cannot find out yourself.",
    AskQuestion,
)
SWITCH_MODE = ToolDefinition("switch_mode", "Ask the user to continue in another mode.", SwitchMode)

SPECS: tuple[ToolSpec, ...] = (CREATE_PLAN.spec, ASK_QUESTION.spec, SWITCH_MODE.spec)


def owns(name: str) -> bool:
    """Return whether this is the name of a planning tool: create_plan, ask_question or switch_mode."""
    return any(spec.name == name for spec in SPECS)


def parse(call: ToolCall) -> CreatePlan | AskQuestion | SwitchMode:
    """Return the arguments of a call to a planning tool. Raise BadArguments if they are not valid."""
    match call.name:
        case CREATE_PLAN.name:
            return _plan(call)
        case ASK_QUESTION.name:
            return _question(call)
        case SWITCH_MODE.name:
            return SWITCH_MODE.parse(call)
        case _:
            raise BadArguments(f"`{call.name}` is not a planning tool")


def _plan(call: ToolCall) -> CreatePlan:
    plan = CREATE_PLAN.parse(call)
    _check_once("todos", [todo.id for todo in plan.todos])
    return plan


def _question(call: ToolCall) -> AskQuestion:
    question = ASK_QUESTION.parse(call)
    if question.kind == "choice" and len(question.options) < 2:
        raise BadArguments("a question of kind `choice` needs at least two `options`")
    if question.kind != "choice" and (question.options or question.multiple):
        raise BadArguments(f"`options` and `multiple` belong to kind `choice`, not to `{question.kind}`")
    if question.kind != "number" and (question.minimum is not None or question.maximum is not None):
        raise BadArguments(f"`minimum` and `maximum` belong to kind `number`, not to `{question.kind}`")
    if question.minimum is not None and question.maximum is not None and question.minimum > question.maximum:
        raise BadArguments("`minimum` is larger than `maximum`: no answer is possible")
    _check_once("options", [option.label for option in question.options])
    return question


def _check_once(where: str, names: Sequence[str]) -> None:
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise BadArguments(f"each name in `{where}` must be unique, but these occur more than once: {', '.join(twice)}")
