"""Facts: what a client learns from an agent, independent of the JSON on the wire.

`ClientSide.feed` returns facts in order. `session` is the agent's name for a session. `request` is the id of an
outgoing request, as returned by the method that sent it. `number` identifies a request of the agent and is used to
answer it. Values that are only passed on (input and output of a call, error data) are JSON text.
"""

from typing import Literal

from tieline.model.content import Part, Value
from tieline.model.events import StopReason, Usage
from tieline.wire.acp.schema import AUTH_REQUIRED, PromptCapabilities

# ── The agent and its sessions ───────────────────────────────────────────────────────────────────


class Abilities(Value):
    """The capabilities of an agent."""

    load: bool = False
    resume: bool = False
    fork: bool = False
    list: bool = False
    close: bool = False
    delete: bool = False
    logout: bool = False
    directories: bool = False
    mcp_http: bool = False
    mcp_sse: bool = False
    image: bool = False
    audio: bool = False
    embedded: bool = False

    @property
    def prompt(self) -> PromptCapabilities:
        """What a prompt may contain, for `content.prompt_of`."""
        return PromptCapabilities(image=self.image, audio=self.audio, embedded_context=self.embedded)


class LoginMethod(Value):
    """A way to log in: `arguments` for the agent's own program, a whole `command` line, or neither."""

    id: str
    name: str = ""
    description: str = ""
    arguments: tuple[str, ...] | None = None
    command: tuple[str, ...] | None = None
    env: tuple[tuple[str, str], ...] = ()


class Initialized(Value):
    """The connection is established."""

    request: int
    version: int
    name: str = ""
    title: str = ""
    agent_version: str = ""
    abilities: Abilities = Abilities()
    logins: tuple[LoginMethod, ...] = ()


class NamedChoice(Value):
    """One choice: a mode, a model, a value of an option, an answer to a question."""

    id: str
    name: str = ""
    description: str = ""
    group: str = ""


class Choices(Value):
    """The available choices, and the current one."""

    current: str = ""
    choices: tuple[NamedChoice, ...] = ()


class ConfigOption(Value):
    """An option of a session. `category` tells whether it selects the mode, the model or something else."""

    id: str
    name: str = ""
    description: str = ""
    category: str = ""
    kind: Literal["select", "boolean"] = "select"
    current: str | bool = ""
    choices: tuple[NamedChoice, ...] = ()


class SessionOpened(Value):
    """A session is ready. Updates between `load_session` and this fact repeat its history."""

    request: int
    session: str
    how: Literal["new", "load", "resume", "fork"]
    modes: Choices | None = None
    models: Choices | None = None
    options: tuple[ConfigOption, ...] = ()


class SessionInfo(Value):
    """A session that the agent has stored."""

    session: str
    cwd: str = ""
    title: str = ""
    updated_at: str = ""


class SessionsListed(Value):
    """The answer to `list_sessions`. With a `cursor` there are more."""

    request: int
    sessions: tuple[SessionInfo, ...] = ()
    cursor: str | None = None


class RequestDone(Value):
    """An outgoing request has succeeded."""

    request: int
    method: str
    session: str = ""


class ExtensionAnswered(Value):
    """The result of a request that this protocol does not define."""

    request: int
    method: str
    result: str


class RequestRefused(Value):
    """An outgoing request has failed. A failed prompt ends its turn."""

    request: int
    method: str
    code: int
    message: str
    session: str = ""
    data: str = ""

    @property
    def needs_login(self) -> bool:
        """Whether the user has to log in first, with one of `Initialized.logins`."""
        return self.code == AUTH_REQUIRED


class TurnEnded(Value):
    """The agent has answered a prompt. `stop_reason` is the reason as the agent wrote it."""

    request: int
    session: str
    reason: StopReason
    stop_reason: str
    usage: Usage | None = None


# ── Updates of a session ────────────────────────────────────────────────────────────────────────


class TextChunk(Value):
    """Text for the user. A different `message` id begins another message."""

    session: str
    text: str
    message: str | None = None


class ThoughtChunk(Value):
    """Text of the agent's thinking."""

    session: str
    text: str
    message: str | None = None


class ContentChunk(Value):
    """An image or a file of the agent, or any content of the user, which agents may repeat."""

    session: str
    speaker: Literal["agent", "thought", "user"]
    part: Part
    message: str | None = None


class CallDiff(Value):
    """A change of a file. `old` is None if the file is new."""

    path: str
    new: str
    old: str | None = None


class CallLocation(Value):
    """A place in a file that the agent works on."""

    path: str
    line: int | None = None


class AgentCall(Value):
    """A tool call of the agent, with everything known about it so far."""

    id: str
    title: str = ""
    name: str = ""
    kind: str = "other"
    status: str = "pending"
    content: tuple[Part, ...] = ()
    diffs: tuple[CallDiff, ...] = ()
    terminals: tuple[str, ...] = ()
    locations: tuple[CallLocation, ...] = ()
    input: str = ""
    output: str = ""
    tool: str = ""
    """The name by which the agent's model called the tool, if the agent reports it besides the title."""
    is_mcp: bool = False
    """Whether the agent reports it as a call of an MCP tool."""

    @property
    def has_ended(self) -> bool:
        return self.status in ("completed", "failed")


class CallUpdate(Value):
    """A tool call began or changed."""

    session: str
    call: AgentCall


class TerminalOutput(Value):
    """More output of one of the agent's own terminals."""

    session: str
    call: str
    terminal: str
    text: str


class TerminalEnded(Value):
    """One of the agent's own terminals has ended."""

    session: str
    call: str
    terminal: str
    exit_code: int | None = None
    signal: str | None = None


class AgentPlanEntry(Value):
    """One step of a plan."""

    content: str
    status: str = "pending"
    priority: str = "medium"


class PlanUpdate(Value):
    """The complete current plan."""

    session: str
    entries: tuple[AgentPlanEntry, ...] = ()


class ModeChanged(Value):
    """The mode of the session has changed."""

    session: str
    mode: str


class OptionsChanged(Value):
    """All options of the session with their current values."""

    session: str
    options: tuple[ConfigOption, ...] = ()


class SlashCommand(Value):
    """A command that a prompt can begin with: "/name", optionally followed by what `hint` describes."""

    name: str
    description: str = ""
    hint: str = ""


class CommandsUpdate(Value):
    """All slash commands of the session."""

    session: str
    commands: tuple[SlashCommand, ...] = ()


class TitleChanged(Value):
    """The title or the time of last use has changed."""

    session: str
    title: str | None = None
    updated_at: str | None = None


class UsageUpdate(Value):
    """How many tokens of its context the session uses, and its cost so far."""

    session: str
    used: int
    size: int
    cost: float | None = None
    currency: str = ""


class Noticed(Value):
    """A notice for the user that is not part of the answer."""

    session: str
    severity: str
    title: str
    description: str = ""


class Compaction(Value):
    """The agent compacts its history: the status, or text of the summary."""

    session: str
    id: str
    status: str = ""
    text: str = ""


class UnknownUpdate(Value):
    """An update of an unknown kind, or one that cannot be read, as JSON text."""

    session: str
    kind: str
    json: str


# ── Requests of the agent ────────────────────────────────────────────────────────────────────────


class PermissionOption(Value):
    """One possible answer. Several may have the same kind; the id is what is answered."""

    id: str
    name: str = ""
    kind: str = ""


class PermissionRequested(Value):
    """The agent requests permission for a call."""

    number: int
    session: str
    call: AgentCall
    options: tuple[PermissionOption, ...] = ()


class QuestionField(Value):
    """One field of a question, and the constraints on its value."""

    name: str
    kind: Literal["boolean", "choice", "choices", "text", "number", "integer"]
    title: str = ""
    description: str = ""
    required: bool = False
    default: str | int | float | bool | tuple[str, ...] | None = None
    choices: tuple[NamedChoice, ...] = ()
    is_open: bool = False
    """Whether free text is accepted besides the choices."""
    minimum: float | None = None
    """The least value of a number, length of a text, or number of choices."""
    maximum: float | None = None
    pattern: str = ""
    format: str = ""


class QuestionAsked(Value):
    """The agent asks the user to fill in fields or, with a `url`, to visit an address and confirm it."""

    number: int
    session: str
    message: str = ""
    fields: tuple[QuestionField, ...] = ()
    url: str = ""
    elicitation: str = ""
    call: str = ""


class QuestionCompleted(Value):
    """The user has finished at the `url` of a question."""

    elicitation: str


class PlanProposed(Value):
    """The agent requests approval of its plan."""

    number: int
    session: str
    plan: str
    name: str = ""
    overview: str = ""
    entries: tuple[AgentPlanEntry, ...] = ()
    call: str = ""


class FileReadRequested(Value):
    """The agent wants to read a file. `line` counts from 1."""

    number: int
    session: str
    path: str
    line: int | None = None
    limit: int | None = None


class FileWriteRequested(Value):
    """The agent wants to write a file, which may be new."""

    number: int
    session: str
    path: str
    content: str


class TerminalRequested(Value):
    """The agent wants to start a command. `limit` is how many bytes of its output to keep, the last ones."""

    number: int
    session: str
    command: str
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    cwd: str | None = None
    limit: int | None = None


class TerminalUseRequested(Value):
    """The agent wants the output of a terminal, its end, or to kill or release it."""

    number: int
    session: str
    terminal: str
    use: Literal["output", "wait", "kill", "release"]


AgentRequest = (
    PermissionRequested
    | QuestionAsked
    | PlanProposed
    | FileReadRequested
    | FileWriteRequested
    | TerminalRequested
    | TerminalUseRequested
)
"""A request of the agent that has to be answered by its `number`."""


class Withdrawn(Value):
    """A request needs no answer any more. It has been answered as cancelled."""

    number: int


# ── For the log ────────────────────────────────────────────────────────────────────────────────


class UnknownRequested(Value):
    """The agent sent a request that is not offered or cannot be read. It was answered."""

    method: str
    reason: str


class Notified(Value):
    """A notification that this protocol does not define, as JSON text."""

    method: str
    params: str


class Stray(Value):
    """The agent wrote something that is not a message."""

    reason: str
    beginning: str = ""


Fact = (
    Initialized
    | SessionOpened
    | SessionsListed
    | RequestDone
    | ExtensionAnswered
    | RequestRefused
    | TurnEnded
    | TextChunk
    | ThoughtChunk
    | ContentChunk
    | CallUpdate
    | TerminalOutput
    | TerminalEnded
    | PlanUpdate
    | ModeChanged
    | OptionsChanged
    | CommandsUpdate
    | TitleChanged
    | UsageUpdate
    | Noticed
    | Compaction
    | UnknownUpdate
    | PermissionRequested
    | QuestionAsked
    | QuestionCompleted
    | PlanProposed
    | FileReadRequested
    | FileWriteRequested
    | TerminalRequested
    | TerminalUseRequested
    | Withdrawn
    | UnknownRequested
    | Notified
    | Stray
)
