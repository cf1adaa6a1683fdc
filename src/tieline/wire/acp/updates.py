"""The shapes of `session/update` and of the tool calls in it: what an agent tells while it works.

Each kind of update is a struct, tagged by `sessionUpdate`. A tool call is told once and then patched: what a patch does
not hold stays as it was, and lists are replaced whole.
"""

from typing import Any

from msgspec import Raw, Struct, field

from tieline.wire.acp.schema import (
    AudioBlock,
    Block,
    ConfigOption,
    ImageBlock,
    LinkBlock,
    PermissionOption,
    ResourceBlock,
    Shape,
    TextBlock,
)

ABSENT = Raw()


def given(value: Raw) -> bool:
    """Whether a field was there and said something."""
    return value is not ABSENT and bytes(value) not in (b"", b"null")


# ── Tool calls ───────────────────────────────────────────────────────────────────────────────────


class ContentItem(Shape, tag="content", tag_field="type"):
    content: Block


class DiffItem(Shape, tag="diff", tag_field="type"):
    path: str
    new_text: str
    old_text: str | None = None


class TerminalItem(Shape, tag="terminal", tag_field="type"):
    terminal_id: str


# An example in the documentation has a bare block where the schema wants one inside of `content`.
CallContent = ContentItem | DiffItem | TerminalItem | TextBlock | ImageBlock | AudioBlock | LinkBlock | ResourceBlock


class Location(Shape):
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
    """What the protocol has no words for: terminals of the agent's own, questions put as a permission request, and the
    name by which the agent's model called the tool."""

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
        """The name of the tool, if the agent tells it here (Claude, Qwen)."""
        found = self.tool_name or (self.claude.get("toolName") if isinstance(self.claude, dict) else None)
        return found if isinstance(found, str) else ""


class CallFields(Shape):
    """A tool call or a patch of one."""

    tool_call_id: str
    title: str | None = None
    name: str | None = None
    kind: str | None = None
    status: str | None = None
    content: list[CallContent] | None = None
    locations: list[Location] | None = None
    raw_input: Raw = ABSENT
    raw_output: Raw = ABSENT
    meta: CallMeta | None = field(default=None, name="_meta")

    @property
    def is_about_terminals(self) -> bool:
        """Whether nothing is told but what stands in `_meta`: then the call itself is as it was."""
        said = (self.title, self.name, self.kind, self.status, self.content, self.locations)
        is_silent = all(value is None for value in said) and not (given(self.raw_input) or given(self.raw_output))
        return is_silent and self.meta is not None and self.meta.terminal_info is None


class PermissionParams(Shape):
    session_id: str
    tool_call: CallFields
    options: list[PermissionOption]


# ── Updates ──────────────────────────────────────────────────────────────────────────────────────


class MessageChunk(Shape, tag="agent_message_chunk", tag_field="sessionUpdate"):
    content: Block
    message_id: str | None = None


class ThoughtChunk(Shape, tag="agent_thought_chunk", tag_field="sessionUpdate"):
    content: Block
    message_id: str | None = None


class UserChunk(Shape, tag="user_message_chunk", tag_field="sessionUpdate"):
    content: Block
    message_id: str | None = None


class CallStarted(CallFields, tag="tool_call", tag_field="sessionUpdate"):
    """`title` is required here."""


class CallPatched(CallFields, tag="tool_call_update", tag_field="sessionUpdate"):
    pass


class PlanEntry(Shape):
    content: str
    priority: str
    status: str


class Plan(Shape, tag="plan", tag_field="sessionUpdate"):
    entries: list[PlanEntry]


class NamedPlan(Shape):
    """A plan among several: `type` is "items", "file" or "markdown"."""

    type: str
    plan_id: str
    entries: list[PlanEntry] | None = None
    uri: str | None = None
    content: str | None = None


class PlanUpdate(Shape, tag="plan_update", tag_field="sessionUpdate"):
    plan: NamedPlan


class CommandInput(Shape):
    hint: str


class Command(Shape):
    name: str
    description: str
    input: CommandInput | None = None


class CommandsUpdate(Shape, tag="available_commands_update", tag_field="sessionUpdate"):
    available_commands: list[Command]


class ModeUpdate(Shape, tag="current_mode_update", tag_field="sessionUpdate"):
    """`mode_id` stands in an example of the documentation where the schema says `currentModeId`."""

    current_mode_id: str = ""
    mode_id: str = ""


class OptionsUpdate(Shape, tag="config_option_update", tag_field="sessionUpdate"):
    config_options: list[ConfigOption]


class InfoUpdate(Shape, tag="session_info_update", tag_field="sessionUpdate"):
    title: str | None = None
    updated_at: str | None = None


class Cost(Shape):
    amount: float
    currency: str


class UsageUpdate(Shape, tag="usage_update", tag_field="sessionUpdate"):
    used: int
    size: int
    cost: Cost | None = None


class Notice(Shape, tag="notice", tag_field="sessionUpdate"):
    severity: str
    title: str
    description: str | None = None


class CompactionUpdate(Shape, tag="compaction_update", tag_field="sessionUpdate"):
    compaction_id: str
    status: str
    summary: list[Block] | None = None
    error: str | None = None


class CompactionChunk(Shape, tag="compaction_summary_chunk", tag_field="sessionUpdate"):
    compaction_id: str
    content: Block


Update = (
    MessageChunk
    | ThoughtChunk
    | UserChunk
    | CallStarted
    | CallPatched
    | Plan
    | PlanUpdate
    | CommandsUpdate
    | ModeUpdate
    | OptionsUpdate
    | InfoUpdate
    | UsageUpdate
    | Notice
    | CompactionUpdate
    | CompactionChunk
)


class UpdateParams(Shape):
    session_id: str
    update: Update


class UpdateShell(Shape):
    """An update that is still to be read."""

    session_id: str
    update: Raw = ABSENT


class UpdateHead(Shape):
    session_update: str
