"""Build the request context: facts about the machine and the workspace, tools, and rules for the model.

By default, the client's system prompt becomes a rule, because the service has its own system prompt and drops any
other. Request options for which the protocol has no field (a required tool call, one call at a time, an answer in JSON)
also become rules, and a note is added for each.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from tieline.model.content import Message, Text, Value
from tieline.model.events import Note, left_out
from tieline.model.request import OutputFormat, Request, ToolChoice
from tieline.wire.cursor._pb.context_pb2 import RequestContext, RequestContextEnv
from tieline.wire.cursor._pb.shared_pb2 import McpDescriptor, McpInstructions, McpToolDescriptor
from tieline.wire.cursor.opening.offered_tools import PROVIDER, OfferedTools
from tieline.wire.shared.history import BILLING

INSTRUCTIONS = "These are the tools of the program the user works with. Prefer them to others that do the same."

NO_NOTES = "(No notes directory yet - will be created when you write your first note)"
"""The text that Cursor's own client sends while there is no directory for notes."""

_SAMPLING = ("temperature", "top_p", "top_k")


class MachineInfo(Value):
    """Facts about this machine that are sent to the service. Empty values are omitted."""

    os_version: str = ""
    """The operating system and its release, such as `linux 6.8.0`."""
    shell: str = ""
    time_zone: str = ""
    workspace: str = ""
    """The directory in which the client's tools work."""
    project_folder: str = ""
    """The directory in which Cursor keeps its records of this project: terminals, notes and transcripts."""
    terminals_folder: str = ""
    notes_folder: str = ""
    transcripts_folder: str = ""
    is_home: bool = False
    """Whether the workspace is the user's home directory."""


class RunSettings(Value):
    """The user's settings for the messages that a run sends to the service."""

    history: Literal["blobs", "text"] = "blobs"
    """How earlier messages are sent: as blobs that the service requests by id, or as text before the user's message."""
    send_blobs: bool = False
    """Whether the blobs of the history are sent with the first message, not only when the service requests them."""
    system_prompt: Literal["rule", "custom"] = "rule"
    """How the client's system prompt is sent: as a rule, or as a replacement for the service's own prompt.

    The service allows the replacement only for some teams.
    """
    reasoning: bool = True
    """Whether the request's settings for thinking and effort are passed on. Settings in the model's name always are."""
    meta_tools: bool = False
    """Whether the client's tools are also described to the service's meta tools, as Cursor's SDK does.

    If so, models may have to search for tools before they can call them. Otherwise, they see every tool from the start.
    """
    web_search: bool = False
    """Whether the service's own web search is enabled. The service still asks for permission before every search."""
    web_fetch: bool = False
    """Whether the service's own web fetch is enabled. The service still asks for permission before every fetch."""


def request_context(machine_info: MachineInfo, settings: RunSettings, offer: OfferedTools, rule: str) -> RequestContext:
    """Return the request context, including the client's tools. `rule` is the text of all rules for the model."""
    context = RequestContext(
        env=_env(machine_info),
        tools=offer.definitions,
        web_search_enabled=settings.web_search,
        web_fetch_enabled=settings.web_fetch,
        commit_attribution_message="enabled",
        pr_attribution_message="enabled",
        supports_mcp_auth=True,
        # Nothing is sent about repositories: the model can use the client's tools to inspect them.
        git_repo_info_complete=False,
    )
    if machine_info.notes_folder:
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


def _env(machine_info: MachineInfo) -> RequestContextEnv:
    env = RequestContextEnv(
        os_version=machine_info.os_version,
        shell=machine_info.shell,
        time_zone=machine_info.time_zone,
        project_folder=machine_info.project_folder,
        terminals_folder=machine_info.terminals_folder,
        agent_shared_notes_folder=machine_info.notes_folder,
        agent_transcripts_folder=machine_info.transcripts_folder,
        sandbox_supported=False,
        computer_use_supported=False,
        is_working_dir_home_dir=machine_info.is_home,
        smart_mode_classifier_auto_mode_enabled=False,
    )
    if machine_info.workspace:
        env.workspace_paths.append(machine_info.workspace)
        env.process_working_directory = machine_info.workspace
    return env


# ── Rules ────────────────────────────────────────────────────────────────────────────────────────


def system_prompt(messages: Iterable[Message]) -> str:
    """Return the texts of the system messages as one system prompt."""
    texts = (part.text for message in messages for part in message.parts if isinstance(part, Text))
    return "\n\n".join(text for text in texts if text.strip() and not text.startswith(BILLING))


def rules(request: Request, offer: OfferedTools, notes: list[Note]) -> str:
    """Return the text of the rules that express the request options for which the protocol has no field.

    These are a required tool call, one call at a time, and the output format. Add a note for each of them, and for each
    sampling option that the upstream does not support.
    """
    demands = [*_of_choice(request.tool_choice, offer, notes), *_of_output(request.output, notes)]
    left = [name for name in _SAMPLING if getattr(request.sampling, name) not in (None, ())]
    if left:
        notes += [left_out(name, "the upstream does not support it") for name in left]
    return "\n\n".join(demands)


def _of_choice(choice: ToolChoice, offer: OfferedTools, notes: list[Note]) -> Iterator[str]:
    if not offer.specs:
        return
    if choice.mode == "required":
        notes.append(Note(kind="tool_choice", message="a call is requested by a rule; the upstream cannot enforce it"))
        yield f"Before you answer you have to call {_named(offer.specs, offer)}."
    if choice.parallel is False:
        notes.append(Note(kind="tool_choice", message="one call at a time is requested by a rule"))
        yield "Call one tool at a time, and wait for its result before you call another."


def _named(names: Iterable[str], offer: OfferedTools) -> str:
    known: Sequence[str] = [f"`{offer.spell(name)}`" for name in names]
    if len(known) == 1:
        return f"the tool {known[0]}"
    return f"one of the tools {', '.join(known)}"


def _of_output(output: OutputFormat | None, notes: list[Note]) -> Iterator[str]:
    if output is None:
        return
    notes.append(Note(kind="structured_output", message="requested by a rule; the upstream does not enforce it"))
    if output.schema is None:
        yield "Answer with one JSON object and nothing else: no explanation, no code fence."
    else:
        schema = output.schema.decode("utf-8", "replace")
        yield f"Answer with JSON that fits this JSON schema and nothing else: no explanation, no code fence.\n{schema}"
