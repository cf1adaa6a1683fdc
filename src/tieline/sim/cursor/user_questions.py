"""Turns in which the demo model asks the user a question. The user requests such a turn with a message like these:

    make a plan for a garden      a plan to review; a rejected plan is revised, up to two times
    ask me about the garden       questions with options
    switch to plan mode           a request to change the mode: agent, ask, plan or debug

At the end of such a turn, the model repeats the user's answer as the service received it.
"""

import re
from collections.abc import Callable, Sequence

from tieline.demo.conversation import strip_client_notes
from tieline.model.content import Message, Text
from tieline.sim.cursor.demo_model import text_delta
from tieline.sim.cursor.server_turn import Program, ServerTurn
from tieline.sim.cursor.steps import Routine, Steps
from tieline.wire.cursor._pb import queries_pb2 as queries
from tieline.wire.cursor._pb.shared_pb2 import TodoItem, TodoStatus

MOST_PLANS = 3
LONGEST = 200

_POLITE = r"\s*(?:please |now |can you |could you )*"
_ABOUT = r"(?P<what>[^\n]*)"
_PLAN = rf"{_POLITE}(?:make|propose|draft|suggest)(?: me)? a plan\b(?: for| to| of)?{_ABOUT}"
_QUESTION = rf"{_POLITE}ask me\b(?: a question| something| some questions| questions)?(?: about)?{_ABOUT}"
_MODE = rf"{_POLITE}(?:switch|change|go)(?: over)? (?:in)?to (?:the )?(?P<what>agent|ask|plan|debug) mode"


def question_program(words: str) -> Program | None:
    """Return the program of the turn that the user's message requests; None if it requests no question."""
    said = strip_client_notes(words)
    for pattern, play in _KINDS:
        found = pattern.match(said)
        if found:
            return _turn(play, found["what"].strip(" .!?:")[:LONGEST])
    return None


def _turn(play: Callable[[ServerTurn, str], Routine[str]], what: str) -> Program:
    def program(turn: ServerTurn) -> Steps:
        yield from turn.opening()
        turn.run.begin_leg()
        said = yield from play(turn, what)
        yield from turn.add_message(Message(role="assistant", parts=(Text(text=said),)))
        yield from turn.closing()

    return program


def _plan(turn: ServerTurn, what: str) -> Routine[str]:
    what = what or "a garden"
    said = yield from _say(f"Let me plan {what}. ")
    wishes: list[str] = []
    while len(wishes) < MOST_PLANS:
        query = queries.InteractionQuery()
        query.create_plan_request_query.args.CopyFrom(_plan_for(what, wishes))
        reply = yield from _asked(turn, query)
        result = reply.create_plan_request_response.result
        if result.HasField("success"):
            said += yield from _say("\n\nThe plan is approved.")
            return said
        wishes.append(result.error.error)
        said += yield from _say(f"The plan was rejected: {result.error.error}\n\n")
    said += yield from _say("I will not propose another plan.")
    return said


def _plan_for(what: str, wishes: Sequence[str]) -> queries.CreatePlanArgs:
    steps = ["Look at the current state", f"Start with {what}", "Check the result"]
    changes = "".join(f"\n> {wish}\n" for wish in wishes)
    return queries.CreatePlanArgs(
        name=f"A plan for {what}" if not wishes else f"A better plan for {what}",
        overview=f"How to make {what}, in **three** steps.",
        plan=f"How to make {what}, in **three** steps: look first, then start, then check the result.\n{changes}",
        todos=[
            TodoItem(id=str(number), content=step, status=TodoStatus.TODO_STATUS_PENDING)
            for number, step in enumerate(steps, 1)
        ],
    )


def _question(turn: ServerTurn, what: str) -> Routine[str]:
    what = what or "the garden"
    query = queries.InteractionQuery()
    args = query.ask_question_interaction_query.args
    args.title = f"Two questions about {what}"
    colour = args.questions.add(id="colour", prompt="Which colour?")
    parts = args.questions.add(id="parts", prompt="What should it contain?", allow_multiple=True)
    for name in ("red", "green", "blue"):
        colour.options.add(id=name, label=name.capitalize())
    for name in ("trees", "flowers", "water"):
        parts.options.add(id=name, label=name.capitalize())
    said = yield from _say("I have two questions. ")
    reply = yield from _asked(turn, query)
    result = reply.ask_question_interaction_response.result
    answers = [f"{one.question_id}: {_given(one)}" for one in result.success.answers]
    report = f"You answered {'; '.join(answers)}." if answers else f"You did not answer: {result.rejected.reason}"
    said += yield from _say(report)
    return said


def _given(answer: queries.AskQuestionSuccess.Answer) -> str:
    words = [f'"{answer.freeform_text}"'] if answer.freeform_text else []
    return ", ".join([*answer.selected_option_ids, *words])


def _mode(turn: ServerTurn, what: str) -> Routine[str]:
    query = queries.InteractionQuery()
    args = query.switch_mode_request_query.args
    args.target_mode_id = what.lower()
    args.explanation = "You requested this mode."
    reply = yield from _asked(turn, query)
    verdict = reply.switch_mode_request_response
    is_approved = verdict.HasField("approved")
    report = f"The mode is now {what.lower()}." if is_approved else f"The mode stays: {verdict.rejected.reason}"
    said = yield from _say(report)
    return said


def _asked(turn: ServerTurn, query: queries.InteractionQuery) -> Routine[queries.InteractionResponse]:
    run = turn.run
    yield run.ask_query(query)
    yield from run.wait(lambda: query.id in run.replies, "a question to the user")
    return run.replies[query.id]


def _say(text: str) -> Routine[str]:
    yield text_delta(text)
    return text


_KINDS: tuple[tuple[re.Pattern[str], Callable[[ServerTurn, str], Routine[str]]], ...] = (
    (re.compile(_PLAN, re.IGNORECASE), _plan),
    (re.compile(_QUESTION, re.IGNORECASE), _question),
    (re.compile(_MODE, re.IGNORECASE), _mode),
)
