"""Clients that refer to a stored response: found again after a restart, and a known error if it is gone."""

import json
from pathlib import Path
from typing import Any

from websockets.asyncio.client import connect

from tests.catalogue.serving import KEY, serving

DEMO = "demo/scripted"
NOT_FOUND = {
    "message": "Previous response with id 'resp_gone' not found.",
    "type": "invalid_request_error",
    "param": "previous_response_id",
    "code": "previous_response_not_found",
}


def asking(**fields: Any) -> dict[str, Any]:
    return {"model": DEMO, "input": "say hello", **fields}


async def test_133_a_previous_response_survives_a_restart(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path)}
    async with serving(env=env) as before:
        first = (await before.http.post("/v1/responses", json=asking())).json()
    async with serving(env=env) as after:
        asked = asking(input="say bye", previous_response_id=first["id"])
        second = (await after.http.post("/v1/responses", json=asked)).json()
        items = (await after.http.get(f"/v1/responses/{second['id']}/input_items", params={"order": "asc"})).json()
    assert second["output"][0]["content"][0]["text"] == "bye"
    assert [item["role"] for item in items["data"]] == ["user", "assistant", "user"]


async def test_133_a_previous_response_that_is_gone_has_a_known_code_on_http_and_websocket() -> None:
    asked = asking(previous_response_id="resp_gone")
    async with serving() as stand:
        for stream in (False, True):
            response = await stand.http.post("/v1/responses", json={**asked, "stream": stream})
            assert (response.status_code, response.json()["error"]) == (400, NOT_FOUND)
        address = f"{stand.url.replace('http', 'ws', 1)}/v1/responses"
        async with connect(address, additional_headers={"x-api-key": KEY}) as socket:
            await socket.send(json.dumps({"type": "response.create", **asked}))
            frame = json.loads(await socket.recv())
    assert frame == {"type": "error", "status": 400, "error": NOT_FOUND}
