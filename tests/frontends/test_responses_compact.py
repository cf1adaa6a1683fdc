"""`POST /v1/responses/compact`."""

import json
from typing import Any

from tests.catalogue.serving import says, serving

PATH = "/v1/responses/compact"


def message(role: str, text: str) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}


CALL = {"type": "function_call", "call_id": "c1", "name": "run", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "c1", "output": "done"}


async def test_the_messages_of_the_user_are_kept_and_a_summary_replaces_the_rest() -> None:
    items = [message("developer", "Rules"), message("user", "Fix it"), CALL, RESULT, message("user", "And test it")]
    async with serving() as stand:
        stand.script("ant", says("ant", "We fixed it."))
        answer = (await stand.http.post(PATH, json={"model": "ant/m", "input": items})).json()
    *kept, summary = answer["output"]
    assert kept == [items[1], items[4]]
    assert summary["type"] == "compaction"


async def test_of_very_long_messages_only_the_latest_are_kept() -> None:
    items = [message("user", letter * 100_000) for letter in "abc"]
    async with serving() as stand:
        stand.script("ant", says("ant", "A summary."))
        answer = (await stand.http.post(PATH, json={"model": "ant/m", "input": items})).json()
    assert [item["type"] for item in answer["output"]] == ["message", "message", "compaction"]
    assert answer["output"][:2] == items[1:]


async def test_a_conversation_is_not_replaced_if_the_model_writes_no_summary() -> None:
    async with serving() as stand:
        stand.script("ant", says("ant", " "))
        response = await stand.http.post(PATH, json={"model": "ant/m", "input": "Hi"})
    assert response.status_code == 502
    assert "summary" in json.loads(response.content)["error"]["message"]
