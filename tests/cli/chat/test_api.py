"""Requests of the chat to the gateway: what is repeated after a restart, and how failures are explained."""

import json

import pytest

from tests.cli.chat.replay import playing, state
from tieline.model.errors import GatewayError

SUMMARY = json.dumps({"id": "S", "title": "T", "model": "m"}).encode()
BAD_TOKEN = (403, b'{"error": {"message": "This request needs the token.", "code": "bad_token"}}')


async def test_after_a_restart_of_the_gateway_a_request_is_sent_again_with_the_new_token() -> None:
    paths: list[str] = []

    def answer(path: str, _: int | None) -> tuple[int, bytes]:
        paths.append(path)
        if path == "/api/state":
            return 200, state()
        return (200, SUMMARY) if "/api/state" in paths else BAD_TOKEN

    async with playing(answer) as api:
        assert (await api.change("S", model="m")).id == "S"
    assert paths == ["/api/sessions/S", "/api/state", "/api/sessions/S"]


async def test_an_id_cannot_lead_to_another_path() -> None:
    paths: list[str] = []

    def answer(path: str, _: int | None) -> tuple[int, bytes]:
        paths.append(path)
        return 200, b"{}"

    async with playing(answer) as api:
        await api.stop("../x?y#z")
    assert paths == ["/api/sessions/..%2Fx%3Fy%23z/stop"]


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (404, b'{"error": {"message": "Not here."}}', "`web.enabled` is false"),
        (401, b'{"error": {"message": "This gateway needs its key."}}', "This gateway needs its key."),
        (200, b"<html>", "sent an invalid response"),
        (500, b"", "it is not a Tieline gateway, or an old one"),
    ],
)
async def test_a_gateway_that_cannot_be_used_is_explained(status: int, body: bytes, words: str) -> None:
    async with playing(lambda _, __: (status, body)) as api:
        with pytest.raises(GatewayError) as raised:
            await api.state()
    assert words in raised.value.message


async def test_models_that_are_still_being_listed_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tieline.cli.chat.api.LISTING_PAUSE", 0)
    tries = 0

    def answer(_: str, __: int | None) -> tuple[int, bytes]:
        nonlocal tries
        tries += 1
        return 200, state(models=[{"id": "a/b"}] if tries > 2 else [])

    async with playing(answer) as api:
        assert [model.id for model in (await api.complete_state()).models] == ["a/b"]
