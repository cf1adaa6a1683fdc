"""Commands in a chat, and how models and modes are found by what was typed."""

import pytest

from tests.each import each
from tieline.cli.chat.api import GatewayState, Model
from tieline.cli.chat.models import default_model, find_mode, find_model
from tieline.cli.chat.slash import Slash, completions, parse_slash
from tieline.model.errors import BadRequest, GatewayError

MODELS = (
    Model(id="demo/scripted"),
    Model(id="acp/opencode", is_agent=True),
    Model(id="a/opus-5", modes=("chat", "plan")),
    Model(id="a/sonnet-5"),
)
STATE = GatewayState(seq=0, models=MODELS)


@each(
    ("line", "parsed"),
    [
        ("/model", Slash("model")),
        (" /model  a/b ", Slash("model", "a/b")),
        ("/nonsense x", Slash("nonsense", "x")),
        ("/etc/hosts: what is it?", None),
        ("say /model", None),
        ("/", None),
    ],
)
def test_what_is_a_command(line: str, parsed: Slash | None) -> None:
    assert parse_slash(line) == parsed


@each(
    ("before", "found"),
    [
        ("/mo", ["/model ", "/mode "]),
        ("/model a/", ["/model a/x"]),
        ("/quit", ["/quit"]),
        ("model", []),
    ],
)
def test_what_tab_completes(before: str, found: list[str]) -> None:
    assert completions(before, lambda _: ["a/x", "b/y"]) == found


@each(
    ("wanted", "found"),
    [("a/opus-5", "a/opus-5"), ("OPUS", "a/opus-5"), ("demo", "demo/scripted"), ("claude-x", "claude-x")],
)
def test_part_of_a_name_is_enough(wanted: str, found: str) -> None:
    assert find_model(STATE, wanted) == found


def test_the_whole_name_of_one_model_is_preferred_to_parts_of_others() -> None:
    models = (Model(id="a/opus"), Model(id="b/opus-mini"))
    assert find_model(GatewayState(seq=0, models=models), "opus") == "a/opus"


def test_an_ambiguous_name_is_explained() -> None:
    with pytest.raises(BadRequest, match="matches several models: a/opus-5, a/sonnet-5"):
        find_model(STATE, "a/")


def test_a_new_conversation_uses_the_configured_model_or_the_first_real_one_but_never_an_agent() -> None:
    assert default_model(GatewayState(seq=0, models=MODELS, default_model="x/y")) == "x/y"
    assert default_model(GatewayState(seq=0, models=MODELS, default_model="x/*")) == "a/opus-5"
    assert default_model(GatewayState(seq=0, models=MODELS[:2])) == "demo/scripted"
    assert default_model(GatewayState(seq=0, models=MODELS[1:2])) == "acp/opencode"
    with pytest.raises(GatewayError, match="no models"):
        default_model(GatewayState(seq=0))


def test_modes_are_those_of_the_model() -> None:
    assert find_mode(STATE, "a/opus-5", "plan") == "plan"
    assert find_mode(STATE, "a/opus-5", "default") is None
    with pytest.raises(BadRequest, match="the modes are default, chat, plan"):
        find_mode(STATE, "a/opus-5", "x")
    with pytest.raises(BadRequest, match=r"has no modes.*--tools"):
        find_mode(STATE, "a/sonnet-5", "plan")
