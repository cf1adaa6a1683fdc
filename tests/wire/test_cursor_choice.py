"""Which model is asked for, and how: options in its name, thinking and effort of the request."""

import pytest

from tests.each import each
from tieline.model.errors import BadRequest
from tieline.model.events import Note
from tieline.model.request import Reasoning
from tieline.wire.cursor.models import CursorModel
from tieline.wire.cursor.opening.model_choice import MODES, OPTIONS, ModelChoice, choose, split_model

SILENT = Reasoning()


@each(
    ("name", "choice"),
    [
        ("gpt-5", ModelChoice(id="gpt-5")),
        ("auto", ModelChoice(id="default")),
        ("default", ModelChoice(id="default")),
        ("gpt-5?", ModelChoice(id="gpt-5")),
        ("gpt-5?mode=plan", ModelChoice(id="gpt-5", mode="plan")),
        ("auto?mode=ask", ModelChoice(id="default", mode="ask")),
        ("m?mode=debug&", ModelChoice(id="m", mode="debug")),
        ("m?max=true", ModelChoice(id="m", max_mode=True)),
        ("m?max", ModelChoice(id="m", max_mode=True)),
        ("m?max=false", ModelChoice(id="m", max_mode=False)),
        ("m?thinking&fast=false", ModelChoice(id="m", parameters=(("thinking", "true"), ("fast", "false")))),
        ("m?effort=low&effort=xhigh", ModelChoice(id="m", parameters=(("effort", "xhigh"),))),
        ("m?context=300%6B", ModelChoice(id="m", parameters=(("context", "300k"),))),
        (
            "gpt-5?mode=plan&effort=high&thinking=true&context=1m&max=true",
            ModelChoice(
                id="gpt-5",
                mode="plan",
                parameters=(("effort", "high"), ("thinking", "true"), ("context", "1m")),
                max_mode=True,
            ),
        ),
    ],
)
def test_a_name_with_options_is_this_choice(name: str, choice: ModelChoice) -> None:
    assert split_model(name) == choice


@each(
    ("name", "names"),
    [
        ("m?colour=red", OPTIONS),
        ("m?Mode=plan", OPTIONS),
        ("m?=plan", OPTIONS),
        ("m?mode=triage", MODES),
        ("m?mode=AGENT", MODES),
        ("m?mode", ("mode",)),
        ("m?thinking=yes", ("true", "false")),
        ("m?max=1", ("true", "false")),
        ("m?max=", ("true", "false")),
        ("m?effort=", ("effort",)),
        ("m?context=a b", ("context",)),
        ("", ("names no model",)),
        ("?mode=plan", ("names no model",)),
    ],
)
def test_a_wrong_option_is_a_bad_request_that_says_what_is_right(name: str, names: tuple[str, ...]) -> None:
    with pytest.raises(BadRequest) as caught:
        split_model(name)
    assert caught.value.param == "model"
    for known in names:
        assert known in caught.value.message


@each(
    ("reasoning", "parameters"),
    [
        (SILENT, {}),
        (Reasoning(mode="off"), {"thinking": "false"}),
        (Reasoning(effort="none"), {"thinking": "false"}),
        (Reasoning(effort="minimal"), {"effort": "low"}),
        (Reasoning(effort="xhigh"), {"effort": "xhigh"}),
        (Reasoning(mode="adaptive"), {"thinking": "true"}),
        (Reasoning(mode="adaptive", effort="max"), {"thinking": "true", "effort": "max"}),
        (Reasoning(mode="budget", budget=2048), {"thinking": "true", "effort": "low"}),
        (Reasoning(mode="budget", budget=8192), {"thinking": "true", "effort": "medium"}),
        (Reasoning(mode="budget", budget=31999), {"thinking": "true", "effort": "high"}),
        (Reasoning(mode="budget", budget=31999, effort="low"), {"thinking": "true", "effort": "low"}),
    ],
)
def test_what_a_request_says_of_thinking_becomes_parameters(reasoning: Reasoning, parameters: dict[str, str]) -> None:
    notes: list[Note] = []
    assert dict(choose("m", reasoning, None, notes).parameters) == parameters
    assert notes == []


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("m?effort=low", {"effort": "low", "thinking": "true"}),
        ("m?reasoning=low", {"reasoning": "low", "thinking": "true"}),
        ("m?thinking=false", {"thinking": "false", "effort": "high"}),
        ("m-low", {"thinking": "true"}),
        ("m-high-fast", {"thinking": "true"}),
        ("m-thinking", {"effort": "high"}),
        ("m-thinking-max", {}),
        ("m-highland", {"thinking": "true", "effort": "high"}),
    ],
)
def test_what_the_name_says_wins(name: str, parameters: dict[str, str]) -> None:
    choice = choose(name, Reasoning(mode="adaptive", effort="high"), None, [])
    assert dict(choice.parameters) == parameters


@pytest.mark.parametrize(
    ("known", "parameters", "noted"),
    [
        ({}, {"thinking": "true", "effort": "xhigh"}, 0),
        ({"thinking": ("true", "false"), "effort": ("low", "xhigh")}, {"thinking": "true", "effort": "xhigh"}, 0),
        ({"thinking": ("true",), "reasoning": ("low", "high")}, {"thinking": "true", "reasoning": "high"}, 0),
        ({"effort": ("low", "max")}, {"effort": "max"}, 1),
        ({"effort": ("on", "off")}, {}, 2),
        ({"fast": ("true", "false")}, {}, 2),
    ],
)
def test_a_model_is_told_what_it_has_parameters_for(
    known: dict[str, tuple[str, ...]], parameters: dict[str, str], noted: int
) -> None:
    notes: list[Note] = []
    model = CursorModel(id="m", parameters=known)
    choice = choose("m", Reasoning(mode="adaptive", effort="xhigh"), model, notes)
    assert dict(choice.parameters) == parameters
    assert len(notes) == noted


def test_what_the_name_says_is_told_whatever_is_known() -> None:
    choice = choose("m?context=1m", SILENT, CursorModel(id="m", parameters={"effort": ("low",)}), [])
    assert choice.parameters == (("context", "1m"),)


def test_parameters_are_told_as_cursors_own_client_tells_them() -> None:
    """Seen in recordings."""
    requested = split_model("demo?thinking=true&effort=high").requested()
    expected = "0a0464656d6f1a100a087468696e6b696e671204747275651a0e0a066566666f7274120468696768"
    assert requested.SerializeToString().hex() == expected
