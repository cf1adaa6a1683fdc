"""What the service is told of the place it works in, and the rules it works by.

The client's system prompt is a rule here: the service has a system prompt of its own and drops any other. What the
protocol has no field for (a tool that must be called, an answer in JSON) is a rule too, and noted.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from tieline.model.content import Message, Text, Value
from tieline.model.events import Note, left_out
from tieline.model.request import OutputFormat, Request, ToolChoice
from tieline.wire.cursor._pb.context_pb2 import RequestContext, RequestContextEnv
from tieline.wire.cursor._pb.shared_pb2 import McpDescriptor, McpInstructions, McpToolDescriptor
from tieline.wire.cursor.opening.offered_tools import PROVIDER, OfferedTools

INSTRUCTIONS = "These are the tools of the program the user works with. Prefer them to others that do the same."

NO_NOTES = "(No notes directory yet - will be created when you write your first note)"
"""What the official client says of the folder for notes before there is one."""

_SAMPLING = ("temperature", "top_p", "top_k")
_BILLING = "x-anthropic-billing-header"


class MachineInfo(Value):
    """Facts about this machine, given from outside; what is empty is not told."""

    os_version: str = ""
    """The system and its release: `linux 6.8.0`."""
    shell: str = ""
    time_zone: str = ""
    workspace: str = ""
    """The folder that tools act in."""
    project_folder: str = ""
    """Where this project's own records are kept; the folders below have their place in it."""
    terminals_folder: str = ""
    notes_folder: str = ""
    transcripts_folder: str = ""
    is_home: bool = False
    """Whether the workspace is the user's home folder."""


class RunSettings(Value):
    """What a user can set that changes what is said on the wire."""

    history: Literal["blobs", "text"] = "blobs"
    """How earlier messages are told: as messages the service asks for, or as text in front of the user's words."""
    send_blobs: bool = False
    """Whether the messages of the history go along with the run request instead of when they are asked for."""
    system_prompt: Literal["rule", "custom"] = "rule"
    """`custom` replaces the service's own system prompt: only some teams may do that, others are refused."""
    reasoning: bool = True
    """Whether what the client says of thinking and effort is passed on; the model's name can say it in any case."""
    meta_tools: bool = False
    """Whether the client's tools are also described for the service's meta tools, as the SDK does.

    Models may then have to discover them first. Without it they see every tool at once.
    """
    web_search: bool = False
    web_fetch: bool = False
    """Whether the service may search and fetch by itself; it asks every time."""


def request_context(surroundings: MachineInfo, settings: RunSettings, offer: OfferedTools, rule: str) -> RequestContext:
    """All that is told of the place, with the tools the client offers."""
    context = RequestContext(
        env=_env(surroundings),
        tools=offer.definitions,
        web_search_enabled=settings.web_search,
        web_fetch_enabled=settings.web_fetch,
        commit_attribution_message="enabled",
        pr_attribution_message="enabled",
        supports_mcp_auth=True,
        # Nothing is told of repositories: the client's tools can look.
        git_repo_info_complete=False,
    )
    if surroundings.notes_folder:
        context.shared_notes_listing = NO_NOTES
    if offer.specs:
        context.mcp_instructions.append(
            McpInstructions(server_name=PROVIDER, instructions=INSTRUCTIONS, server_identifier=PROVIDER)
        )
    if settings.meta_tools:
        context.mcp_meta_tool_options.enabled = True
        if offer.specs:
            context.mcp_meta_tool_options.mcp_descriptors.append(_descriptor(offer))
    if rule:
        context.cloud_rule = rule
    return context


def _descriptor(offer: OfferedTools) -> McpDescriptor:
    tools = [
        McpToolDescriptor(tool_name=tool.tool_name, description=tool.description, input_schema=tool.input_schema)
        for tool in offer.definitions
    ]
    return McpDescriptor(
        server_name=PROVIDER, server_identifier=PROVIDER, server_use_instructions=INSTRUCTIONS, tools=tools
    )


def _env(surroundings: MachineInfo) -> RequestContextEnv:
    env = RequestContextEnv(
        os_version=surroundings.os_version,
        shell=surroundings.shell,
        time_zone=surroundings.time_zone,
        project_folder=surroundings.project_folder,
        terminals_folder=surroundings.terminals_folder,
        agent_shared_notes_folder=surroundings.notes_folder,
        agent_transcripts_folder=surroundings.transcripts_folder,
        sandbox_supported=False,
        computer_use_supported=False,
        is_working_dir_home_dir=surroundings.is_home,
        smart_mode_classifier_auto_mode_enabled=False,
    )
    if surroundings.workspace:
        env.workspace_paths.append(surroundings.workspace)
        env.process_working_directory = surroundings.workspace
    return env


# ── Rules ────────────────────────────────────────────────────────────────────────────────────────


def system_prompt(messages: Iterable[Message]) -> str:
    """The texts of system messages, joined."""
    texts = (part.text for message in messages for part in message.parts if isinstance(part, Text))
    return "\n\n".join(text for text in texts if text.strip() and not text.startswith(_BILLING))


def rules(request: Request, offer: OfferedTools, notes: list[Note]) -> str:
    """What the request demands and the protocol has no field for, in words."""
    said = [*_of_choice(request.tool_choice, offer, notes), *_of_output(request.output, notes)]
    left = [name for name in _SAMPLING if getattr(request.sampling, name) not in (None, ())]
    if left:
        notes += [left_out(name, "the upstream does not take it") for name in left]
    return "\n\n".join(said)


def _of_choice(choice: ToolChoice, offer: OfferedTools, notes: list[Note]) -> Iterator[str]:
    if not offer.specs:
        return
    if choice.mode == "required":
        notes.append(Note(kind="tool_choice", message="a call is asked for in words, the upstream cannot be made to"))
        yield f"Before you answer you have to call {_named(offer.specs, offer)}."
    if choice.parallel is False:
        notes.append(Note(kind="tool_choice", message="one call at a time is asked for in words"))
        yield "Call one tool at a time, and wait for its result before you call another."


def _named(names: Iterable[str], offer: OfferedTools) -> str:
    known: Sequence[str] = [f"`{offer.spell(name)}`" for name in names]
    if len(known) == 1:
        return f"the tool {known[0]}"
    return f"one of the tools {', '.join(known)}"


def _of_output(output: OutputFormat | None, notes: list[Note]) -> Iterator[str]:
    if output is None:
        return
    notes.append(Note(kind="structured_output", message="asked for in words, the upstream does not check"))
    if output.schema is None:
        yield "Answer with one JSON object and nothing else: no explanation, no code fence."
    else:
        schema = output.schema.decode("utf-8", "replace")
        yield f"Answer with JSON that fits this JSON schema and nothing else: no explanation, no code fence.\n{schema}"
