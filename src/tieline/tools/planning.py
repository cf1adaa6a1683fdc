"""Plans, questions and modes: what a model may say to the person it works for, checked.

These tools do nothing by themselves. Their calls are read here, and what becomes of them (a plan that waits for
approval, a question that waits for an answer) is decided by whoever runs the turn.
"""

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta

from tieline.model.content import ToolCall, Value
from tieline.model.request import ToolSpec
from tieline.tools.arguments import BadArguments, Form
from tieline.tools.todos import Todo

Mode = Literal["chat", "plan", "agent"]
QuestionKind = Literal["yes_no", "choice", "text", "number", "file"]


class CreatePlan(Value):
    """The arguments of create_plan."""

    title: Annotated[str, Meta(min_length=1, max_length=200, description="What the plan is for, in a few words.")]
    plan: Annotated[str, Meta(min_length=1, max_length=100_000, description="The whole plan, in Markdown.")]
    todos: Annotated[tuple[Todo, ...], Meta(max_length=100, description="The steps, in the order they are done.")] = ()


class Option(Value):
    """One answer to choose."""

    label: Annotated[str, Meta(min_length=1, max_length=200, description="The answer, in a few words.")]
    description: Annotated[str, Meta(max_length=1000, description="What choosing it means.")] = ""


class AskQuestion(Value):
    """The arguments of ask_question."""

    question: Annotated[str, Meta(min_length=1, max_length=4000, description="The question, complete in itself.")]
    kind: Annotated[QuestionKind, Meta(description="What kind of answer it wants.")] = "text"
    options: Annotated[
        tuple[Option, ...], Meta(max_length=20, description="For `choice`: two or more answers to choose from.")
    ] = ()
    multiple: Annotated[bool, Meta(description="For `choice`: whether several may be chosen.")] = False
    minimum: Annotated[float | None, Meta(description="For `number`: the smallest answer.")] = None
    maximum: Annotated[float | None, Meta(description="For `number`: the largest answer.")] = None


class SwitchMode(Value):
    """The arguments of switch_mode."""

    mode: Annotated[Mode, Meta(description="chat: only talk. plan: look, ask and plan. agent: do it.")]
    reason: Annotated[str, Meta(max_length=1000, description="Why, for the person who is asked.")] = ""


CREATE_PLAN = Form(
    "create_plan",
    "Put a plan before the person you work for. Nothing is done until it is approved; if it is rejected you are told "
    "why.",
    CreatePlan,
)
ASK_QUESTION = Form(
    "ask_question",
    "Ask the person you work for something you need to know and cannot find out yourself.",
    AskQuestion,
)
SWITCH_MODE = Form("switch_mode", "Ask to go on in another mode of working.", SwitchMode)

SPECS: tuple[ToolSpec, ...] = (CREATE_PLAN.spec, ASK_QUESTION.spec, SWITCH_MODE.spec)


def owns(name: str) -> bool:
    """Whether this is one of the three."""
    return any(spec.name == name for spec in SPECS)


def read(call: ToolCall) -> CreatePlan | AskQuestion | SwitchMode:
    """What a call says; raises BadArguments for one that does not fit."""
    match call.name:
        case CREATE_PLAN.name:
            return _plan(call)
        case ASK_QUESTION.name:
            return _question(call)
        case SWITCH_MODE.name:
            return SWITCH_MODE.read(call)
        case _:
            raise BadArguments(f"`{call.name}` is not a tool for planning")


def _plan(call: ToolCall) -> CreatePlan:
    plan = CREATE_PLAN.read(call)
    _check_once("todos", [todo.id for todo in plan.todos])
    return plan


def _question(call: ToolCall) -> AskQuestion:
    question = ASK_QUESTION.read(call)
    if question.kind == "choice" and len(question.options) < 2:
        raise BadArguments("a question of kind `choice` needs at least two `options`")
    if question.kind != "choice" and (question.options or question.multiple):
        raise BadArguments(f"`options` and `multiple` belong to kind `choice`, not to `{question.kind}`")
    if question.kind != "number" and (question.minimum is not None or question.maximum is not None):
        raise BadArguments(f"`minimum` and `maximum` belong to kind `number`, not to `{question.kind}`")
    if question.minimum is not None and question.maximum is not None and question.minimum > question.maximum:
        raise BadArguments("`minimum` is larger than `maximum`: there is no answer")
    _check_once("options", [option.label for option in question.options])
    return question


def _check_once(where: str, names: Sequence[str]) -> None:
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise BadArguments(
            f"in `{where}` each name may occur only once, but these occur more often: {', '.join(twice)}"
        )
