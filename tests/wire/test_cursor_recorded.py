"""What we send beside what Cursor's own SDK sent in the same situation: the differences are all listed here."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from msgspec.structs import replace

from tests.cases import asks
from tieline.model.request import ToolSpec
from tieline.wire.cursor._pb.agent_pb2 import AgentClientMessage
from tieline.wire.cursor.opening.request_context import NO_NOTES
from tieline.wire.cursor.opening.run_request import MachineInfo, Opening, RunSettings, open_run

RECORDED = json.loads(
    (Path(__file__).parents[1] / "transcripts/cursor/recorded/sdk_with_tools.json").read_text("utf-8")
)
HOME = "/home/user/.cursor/projects/home-user-project"


def opened() -> Opening:
    """The opening of the recorded run: the same words, place and tools."""
    tools = [
        ToolSpec(
            name=tool["tool_name"], description=tool["description"], schema=json.dumps(tool["input_schema"]).encode()
        )
        for tool in RECORDED["run_request"]["mcp_tools"]["mcp_tools"]
    ]
    return open_run(
        replace(asks("say hello", tools=tuple(tools)), model="demo"),
        settings=RunSettings(meta_tools=True),
        machine_info=MachineInfo(  # noqa: S604 - a name
            os_version="linux 6.8.0-generic00",
            shell="bash",
            time_zone="UTC",
            workspace="/home/user/project",
            project_folder=HOME,
            terminals_folder=f"{HOME}/terminals",
            notes_folder=f"{HOME}/agent-notes/shared",
            transcripts_folder=f"{HOME}/agent-transcripts",
        ),
        conversation_id=RECORDED["run_request"]["conversation_id"],
        run_id=RECORDED["run_request"]["run_id"],
        message_id="message",
    )


def plain(message: Message) -> Any:
    return MessageToDict(message, preserving_proto_field_name=True, use_integers_for_enums=True)


def differences(ours: Any, theirs: Any, path: str = "") -> Iterator[str]:
    """The fields that only one of them has, or has otherwise."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name in sorted(ours.keys() | theirs.keys()):
            place = f"{path}.{name}" if path else name
            if name not in theirs:
                yield f"+{place}"
            elif name not in ours:
                yield f"-{place}"
            else:
                yield from differences(ours[name], theirs[name], place)
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for one, other in zip(ours, theirs, strict=True):
            yield from differences(one, other, f"{path}[]")
    elif ours != theirs:
        yield path


NAMED = {"provider_identifier", "name", "server_name", "server_identifier"}
"""Fields that hold the name of the server, which is ours."""


def test_the_request_context_is_the_recorded_one_but_for_this() -> None:
    found = set(differences(plain(opened().context), RECORDED["request_context"]))
    assert {place for place in found if place.rpartition(".")[2] not in NAMED} == {
        "+web_search_enabled",
        "+web_fetch_enabled",
        "git_repo_info_complete",
        "-git_repos",
        "mcp_instructions[].instructions",
        "mcp_meta_tool_options.mcp_descriptors[].server_use_instructions",
        "-mcp_meta_tool_options.mcp_descriptors[].tools[].annotations_json",
    }
    assert RECORDED["request_context"]["shared_notes_listing"] == NO_NOTES


def test_the_run_request_is_the_recorded_one_but_for_this() -> None:
    ours = plain(AgentClientMessage.FromString(opened().message).run_request)
    found = set(differences(ours, RECORDED["run_request"]))
    assert {place for place in found if place.rpartition(".")[2] not in NAMED} == {
        "+conversation_state.mode",
        "+action.user_message_action.request_context",
        "+action.user_message_action.user_message.message_id",
        "+action.user_message_action.user_message.mode",
        "+action.user_message_action.user_message.selected_context",
        "+model_details",
        "+exclude_workspace_context",
        "+conversation_group_id",
        "-mcp_tools.mcp_tools[].output_schema_json",
    }
    assert ours["action"]["user_message_action"]["user_message"]["selected_context"] == {}
    assert ours["conversation_group_id"] == ours["conversation_id"]
