"""Turns in which the simulated service asks the person: which words want them, and what is made of the answers."""

from collections.abc import Callable

import pytest

from tests.each import each
from tests.sim.cursor_client import TRANSPORTS, Message, Obedient, Transport, calling, run_request
from tieline.sim.cursor import CursorSim
from tieline.sim.cursor.user_questions import MOST_PLANS, question_program
from tieline.wire.cursor._pb import agent_pb2 as agent
from tieline.wire.cursor._pb.queries_pb2 import InteractionQuery, InteractionResponse

Answer = Callable[[InteractionResponse], object]


class Asked(Obedient):
    """A client whose person answers everything in the same way."""

    answer: Answer
    queries: list[InteractionQuery]

    async def hear(self, message: agent.AgentServerMessage) -> None:
        await super().hear(message)
        if message.HasField("interaction_query"):
            self.queries.append(message.interaction_query)
            response = InteractionResponse(id=message.interaction_query.id)
            self.answer(response)
            await self.call.send(Message(interaction_response=response))


def test_notes_that_a_client_puts_around_the_words_do_not_hide_them() -> None:
    note = "<system-reminder>\nPlan mode is active.\n</system-reminder>\n"
    assert question_program(f"{note}make a plan for a garden") is not None
    assert question_program(f"make a plan for a garden\n{note}") is not None
    assert question_program(f"{note}read README.md") is None


async def turn(words: str, answer: Answer, transport: Transport = "h2") -> Asked:
    async with CursorSim() as sim, calling(sim, transport) as call:
        client = Asked(call)
        client.answer, client.queries = answer, []
        await client.turn(run_request(words))
        await sim.until(lambda: sim.journal[-1].ending == "ended")
    return client


def approve(response: InteractionResponse) -> None:
    response.create_plan_request_response.result.success.SetInParent()


def reject(response: InteractionResponse) -> None:
    response.create_plan_request_response.result.error.error = "Shorter."


def choose(response: InteractionResponse) -> None:
    answers = response.ask_question_interaction_response.result.success.answers
    answers.add(question_id="colour", selected_option_ids=["red"])
    answers.add(question_id="parts", selected_option_ids=["trees", "water"], freeform_text="a swing")


def decline(response: InteractionResponse) -> None:
    response.ask_question_interaction_response.result.rejected.reason = "No time."


def allow(response: InteractionResponse) -> None:
    response.switch_mode_request_response.approved.SetInParent()


def deny(response: InteractionResponse) -> None:
    response.switch_mode_request_response.rejected.reason = "Stay."


@each("transport", TRANSPORTS)
@each(
    ("words", "answer", "kind", "told"),
    [
        ("make a plan for a party", approve, "create_plan_request_query", "The plan is approved."),
        ("ask me about it", choose, "ask_question_interaction_query", 'red; parts: trees, water, "a swing".'),
        ("ask me a question", decline, "ask_question_interaction_query", "You did not answer: No time."),
        ("switch to plan mode", allow, "switch_mode_request_query", "The mode is now plan."),
        ("please go to the ask mode", deny, "switch_mode_request_query", "The mode stays: Stay."),
    ],
)
async def test_what_is_answered_is_what_the_model_says_it_was_told(
    transport: Transport, words: str, answer: Answer, kind: str, told: str
) -> None:
    client = await turn(words, answer, transport)
    assert [query.WhichOneof("query") for query in client.queries] == [kind]
    assert client.text.endswith(told)
    assert client.updates[-1] == "turn_ended"


async def test_a_plan_that_is_not_approved_is_changed_but_not_for_ever() -> None:
    client = await turn("make a plan", reject)
    plans = [query.create_plan_request_query.args.plan for query in client.queries]
    assert [plan.count("Shorter.") for plan in plans] == list(range(MOST_PLANS))


@pytest.mark.parametrize("words", ["make a planet", "what did you ask me", "read plan.md", "switch the mode", ""])
def test_other_words_want_nothing_of_the_kind(words: str) -> None:
    assert question_program(words) is None


async def test_a_script_that_is_set_for_all_runs_comes_first() -> None:
    async with CursorSim(script=["open", {"text": "Hello."}, "close"]) as sim, calling(sim, "h2") as call:
        assert await Obedient(call).turn(run_request("make a plan")) == "Hello."
