"""Coding agents through the Anthropic client: what there is to choose from, and every refusal in its shape."""

from pathlib import Path

import anthropic
import pytest
from anthropic.types import MessageParam

from tests.e2e.acp_support import MODEL, Stand, plain, scripted, serving

HI: list[MessageParam] = [{"role": "user", "content": "hello"}]


async def refused(stand: Stand, model: str, *, stream: bool = False) -> anthropic.APIStatusError:
    """The refusal of a request, which stands before any stream."""
    with pytest.raises(anthropic.APIStatusError) as caught:
        await stand.anthropic.messages.create(model=model, messages=HI, max_tokens=100, stream=stream)
    return caught.value


def kind_of(error: anthropic.APIStatusError) -> str:
    body = error.body
    assert isinstance(body, dict)
    return str(body["error"]["type"])


async def test_the_models_are_the_agents_that_are_ready(tmp_path: Path) -> None:
    async with serving(tmp_path, {"mine": plain("echo")}) as stand:
        listed = {model.id: model.display_name async for model in stand.anthropic.models.list()}
        assert [name for name in listed if name.startswith("acp/")] == ["acp/mine"]
        assert listed["acp/mine"] == "Plain"


async def test_both_spellings_of_a_name_are_the_agent(tmp_path: Path) -> None:
    async with serving(tmp_path, {"mine": plain("echo")}) as stand:
        for name in ("acp/mine", "acp:mine"):
            answer = await stand.talk("anthropic", model=name).say("hello")
            assert answer.text == "You said: hello"


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_an_agent_nobody_knows_or_has_installed_is_not_found(tmp_path: Path, stream: bool) -> None:
    async with serving(tmp_path) as stand:
        unknown = await refused(stand, "acp/nobody", stream=stream)
        assert (unknown.status_code, kind_of(unknown)) == (404, "not_found_error")
        assert "There is no agent `nobody`" in unknown.message
        missing = await refused(stand, "acp/copilot", stream=stream)
        assert (missing.status_code, kind_of(missing)) == (404, "not_found_error")
        assert "To install it: npm install --global @github/copilot" in missing.message
        assert stand.pids == []


async def test_an_agent_that_wants_a_login_says_what_to_run(tmp_path: Path) -> None:
    async with serving(tmp_path, {"scripted": scripted("--login")}) as stand:
        error = await refused(stand, MODEL, stream=True)
        assert isinstance(error, anthropic.AuthenticationError)
        assert kind_of(error) == "authentication_error"
        assert "Run `scripted login` in a terminal, then try again." in error.message


async def test_an_agent_that_dies_at_start_is_a_bad_gateway_with_its_last_lines(tmp_path: Path) -> None:
    async with serving(tmp_path, {"plain": plain("dies_at_start")}) as stand:
        error = await refused(stand, "acp/plain", stream=True)
        assert error.status_code == 502
        assert "no configuration found" in error.message


async def test_an_agent_that_dies_talking_is_an_error_in_the_stream_and_works_again_next_time(tmp_path: Path) -> None:
    async with serving(tmp_path, {"plain": plain("dies_talking")}) as stand:
        with pytest.raises(anthropic.APIStatusError) as caught:
            await stand.talk("anthropic", model="acp/plain").say("hello")
        assert "was ended by SIGKILL" in caught.value.message
        assert "out of memory" in caught.value.message
        assert (await stand.talk("anthropic", model="acp/plain").say("live")).text.endswith("live")
        assert len(stand.pids) == 1
