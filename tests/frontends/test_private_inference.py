"""Cursor's build for private inference (E10): it lists models, and then uses the Responses API directly."""

from typing import Any

import pytest

from tests.cases import leg
from tests.catalogue.serving import BACKENDS, DIALECTS, MODEL, Backend, serving
from tests.frontends.responses_support import Api
from tieline.model.content import ToolCall
from tieline.model.events import StopReason
from tieline.sim.answers import streamed

USER_AGENT = "Cursor/3.18.25"
PATCH = "*** Begin Patch\n*** End Patch"
TOOL = {"type": "custom", "name": "ApplyPatch", "format": {"type": "grammar", "syntax": "lark", "definition": "s: X"}}


@pytest.mark.parametrize("backend", BACKENDS)
async def test_e10_models_have_their_apis_and_freeform_calls_stay_custom_calls(backend: Backend) -> None:
    is_freeform = backend == "res"
    call = ToolCall(id="call_1", name="ApplyPatch", freeform=is_freeform)
    arguments = PATCH if is_freeform else '{"input": "*** Begin Patch\\n*** End Patch"}'
    async with serving() as stand:
        stand.http.headers["user-agent"] = USER_AGENT
        client = Api(stand)
        rows: Any = (await client.get("/v1/models")).body["data"]
        (row,) = [row for row in rows if row["id"] == f"{backend}/{MODEL}"]
        assert "responses" in row["api_types"]
        assert row["capabilities"]["supports_tools"] is True
        stand.script(backend, streamed(DIALECTS[backend], leg((call, [arguments]), reason=StopReason.TOOL_USE)))
        events = await client.stream(backend, tools=[TOOL], messages=None, stream_options={"include_usage": True})
        (item,) = events.response["output"]
        assert (item["type"], item["name"], item["input"]) == ("custom_tool_call", "ApplyPatch", PATCH)
        assert "response.custom_tool_call_input.done" in events.types
