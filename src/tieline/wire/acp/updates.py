"""The JSON objects of `session/update`, including tool calls.

Each kind of update is a struct, tagged by `sessionUpdate`. A tool call is announced once and then patched: fields that
a patch does not contain stay unchanged, and lists are replaced as a whole.
"""

from typing import Any

from msgspec import Raw, Struct, field

from tieline.wire.acp.schema import (
    AcpShape,
    AudioContent,
    ConfigOptionShape,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    PermissionOptionShape,
    ResourceLink,
    TextContent,
)

ABSENT = Raw()


# ── Tool calls ───────────────────────────────────────────────────────────────────────────────────


class ContentItemShape(AcpShape, tag="content", tag_field="type"):
    content: ContentBlock


class DiffItemShape(AcpShape, tag="diff", tag_field="type"):
    path: str
    new_text: str
    old_text: str | None = None


class TerminalItemShape(AcpShape, tag="terminal", tag_field="type"):
    terminal_id: str


# An example in the protocol's documentation has a bare content block; the schema requires it inside `content`.
CallContent = (
    ContentItemShape
    | DiffItemShape
    | TerminalItemShape
    | TextContent
    | ImageContent
    | AudioContent
    | ResourceLink
    | EmbeddedResource
)


class LocationShape(AcpShape):
    path: str
    line: int | None = None


class TerminalInfo(Struct):
    terminal_id: str = ""
    cwd: str | None = None


class TerminalData(Struct):
    data: str = ""
    terminal_id: str = ""


class TerminalExit(Struct):
    terminal_id: str = ""
    exit_code: int | None = None
    signal: str | None = None


class CallMeta(Struct):
    """Extensions in the `_meta` of a call: output of the agent's own terminals, questions, and the name of the tool."""

    terminal_info: TerminalInfo | None = None
    terminal_output: TerminalData | None = None
    terminal_output_delta: TerminalData | None = None
    terminal_exit: TerminalExit | None = None
    interaction: str | None = field(default=None, name="qwenInteractionKind")
    questions: Any = field(default=None, name="qwenQuestions")
    claude: Any = field(default=None, name="claudeCode")
    tool_name: Any = field(default=None, name="toolName")
    is_mcp: Any = field(default=None, name="is_mcp_tool_call")

    @property
    def tool(self) -> str:
        """The name of the tool; empty if the agent does not report it. Claude Code and Qwen Code report it."""
        found = self.tool_name or (self.claude.get("toolName") if isinstance(self.claude, dict) else None)
        return found if isinstance(found, str) else ""


class CallFields(AcpShape):
    """The fields of a tool call, or of a patch to a tool call."""

    tool_call_id: str
    title: str | None = None
    name: str | None = None
    kind: str | None = None
    status: str | None = None
    content: list[CallContent] | None = None
    locations: list[LocationShape] | None = None
    raw_input: Raw = ABSENT
    raw_output: Raw = ABSENT
    meta: CallMeta | None = field(default=None, name="_meta")


class PermissionParams(AcpShape):
    session_id: str
    tool_call: CallFields
    options: list[PermissionOptionShape]


# ── Updates ──────────────────────────────────────────────────────────────────────────────────────


class MessageChunkShape(AcpShape, tag="agent_message_chunk", tag_field="sessionUpdate"):
    content: ContentBlock
    message_id: str | None = None


class ThoughtChunkShape(AcpShape, tag="agent_thought_chunk", tag_field="sessionUpdate"):
    content: ContentBlock
    message_id: str | None = None


class UserChunkShape(AcpShape, tag="user_message_chunk", tag_field="sessionUpdate"):
    content: ContentBlock
    message_id: str | None = None


class CallStartedShape(CallFields, tag="tool_call", tag_field="sessionUpdate"):
    """The announcement of a tool call. The protocol requires a `title`, but this is not checked."""


class CallPatchedShape(CallFields, tag="tool_call_update", tag_field="sessionUpdate"):
    pass


class PlanEntryShape(AcpShape):
    content: str
    priority: str
    status: str


class PlanShape(AcpShape, tag="plan", tag_field="sessionUpdate"):
    entries: list[PlanEntryShape]


class NamedPlanShape(AcpShape):
    """One of several plans of a session. `type` is "items", "file" or "markdown"."""

    type: str
    plan_id: str
    entries: list[PlanEntryShape] | None = None
    uri: str | None = None
    content: str | None = None


class NamedPlanUpdateShape(AcpShape, tag="plan_update", tag_field="sessionUpdate"):
    plan: NamedPlanShape


class CommandInputShape(AcpShape):
    hint: str


class CommandShape(AcpShape):
    name: str
    description: str
    input: CommandInputShape | None = None


class CommandsUpdateShape(AcpShape, tag="available_commands_update", tag_field="sessionUpdate"):
    available_commands: list[CommandShape]


class ModeUpdateShape(AcpShape, tag="current_mode_update", tag_field="sessionUpdate"):
    """A mode change.

    The member is called `currentModeId` in the schema, but `modeId` in an example in the documentation.
    """

    current_mode_id: str = ""
    mode_id: str = ""


class OptionsUpdateShape(AcpShape, tag="config_option_update", tag_field="sessionUpdate"):
    config_options: list[ConfigOptionShape]


class InfoUpdateShape(AcpShape, tag="session_info_update", tag_field="sessionUpdate"):
    title: str | None = None
    updated_at: str | None = None


class Cost(AcpShape):
    amount: float
    currency: str


class UsageUpdateShape(AcpShape, tag="usage_update", tag_field="sessionUpdate"):
    used: int
    size: int
    cost: Cost | None = None


class NoticeShape(AcpShape, tag="notice", tag_field="sessionUpdate"):
    severity: str
    title: str
    description: str | None = None


class CompactionUpdateShape(AcpShape, tag="compaction_update", tag_field="sessionUpdate"):
    compaction_id: str
    status: str
    summary: list[ContentBlock] | None = None
    error: str | None = None


class CompactionChunkShape(AcpShape, tag="compaction_summary_chunk", tag_field="sessionUpdate"):
    compaction_id: str
    content: ContentBlock


Update = (
    MessageChunkShape
    | ThoughtChunkShape
    | UserChunkShape
    | CallStartedShape
    | CallPatchedShape
    | PlanShape
    | NamedPlanUpdateShape
    | CommandsUpdateShape
    | ModeUpdateShape
    | OptionsUpdateShape
    | InfoUpdateShape
    | UsageUpdateShape
    | NoticeShape
    | CompactionUpdateShape
    | CompactionChunkShape
)


class UpdateParams(AcpShape):
    session_id: str
    update: Update


class UpdateShell(AcpShape):
    """An update whose content is not parsed."""

    session_id: str
    update: Raw = ABSENT


class UpdateHead(AcpShape):
    session_update: str
