"""Facts: the information in an agent's messages, independent of the JSON on the wire.

`ClientSide.feed` returns facts in the order of the messages. `session` is the agent's name for a session. `request` is
the id of an outgoing request, as returned by the method that sent it. `number` identifies a request from the agent;
pass it to the method that answers the request. Values that Tieline passes on without reading them (input and output of
a call, error data) are JSON text.
"""

from typing import Literal

from tieline.model.content import Part, Value
from tieline.model.events import StopReason, Usage
from tieline.wire.acp.schema import AUTH_REQUIRED, PromptCapabilities

# ── The agent and its sessions ───────────────────────────────────────────────────────────────────


class Abilities(Value):
    """The capabilities that an agent reports."""

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
        """The kinds of content that a prompt may contain, for `content.prompt_of`."""
        return PromptCapabilities(image=self.image, audio=self.audio, embedded_context=self.embedded)


class LoginMethod(Value):
    """A way to log in to an agent.

    If `arguments` is set, the user logs in by running the agent's own program with these arguments; if `command` is
    set, by running that command. If both are None, the client sends a login request to the agent.
    """

    id: str
    name: str = ""
    description: str = ""
    arguments: tuple[str, ...] | None = None
    command: tuple[str, ...] | None = None
    env: tuple[tuple[str, str], ...] = ()


class Initialized(Value):
    """The connection is established, and the agent has reported its version and capabilities."""

    request: int
    version: int
    name: str = ""
    title: str = ""
    agent_version: str = ""
    abilities: Abilities = Abilities()
    logins: tuple[LoginMethod, ...] = ()


class NamedChoice(Value):
    """One of several choices, such as a mode, a model, a value of an option or an answer to a question."""

    id: str
    name: str = ""
    description: str = ""
    group: str = ""


class Choices(Value):
    """The available choices, and the current one."""

    current: str = ""
    choices: tuple[NamedChoice, ...] = ()


class ConfigOption(Value):
    """A configuration option of a session. `category` says whether it selects the mode, the model or something else."""

    id: str
    name: str = ""
    description: str = ""
    category: str = ""
    kind: Literal["select", "boolean"] = "select"
    current: str | bool = ""
    choices: tuple[NamedChoice, ...] = ()


class SessionOpened(Value):
    """A session is ready for prompts. Updates that arrive between `load_session` and this fact repeat its history."""

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
    """The answer to `list_sessions`. If there are more sessions, pass `cursor` to the next `list_sessions`."""

    request: int
    sessions: tuple[SessionInfo, ...] = ()
    cursor: str | None = None


class RequestDone(Value):
    """An outgoing request has succeeded. This fact is used if no other fact reports the success."""

    request: int
    method: str
    session: str = ""


class ExtensionAnswered(Value):
    """The result of an outgoing request that the protocol does not define."""

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
    """The agent has answered a prompt. `stop_reason` is the value that the agent sent, `reason` is its meaning."""

    request: int
    session: str
    reason: StopReason
    stop_reason: str
    usage: Usage | None = None


# ── Updates of a session ────────────────────────────────────────────────────────────────────────


class TextChunk(Value):
    """Text of the agent's answer. `message` is the id of the message that the text belongs to."""

    session: str
    text: str
    message: str | None = None


class ThoughtChunk(Value):
    """Text of the agent's thinking."""

    session: str
    text: str
    message: str | None = None


class ContentChunk(Value):
    """An image or a file from the agent, or content of a user message that the agent repeats."""

    session: str
    speaker: Literal["agent", "thought", "user"]
    part: Part
    message: str | None = None


class CallDiff(Value):
    """A change that a tool call makes to a file. `old` is None if the file is new."""

    path: str
    new: str
    old: str | None = None


class CallLocation(Value):
    """A place in a file that the agent works on."""

    path: str
    line: int | None = None


class AgentCall(Value):
    """A tool call by the agent, with everything known about it so far."""

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
    """The name by which the agent's model called the tool; empty if the agent reports only a title."""
    is_mcp: bool = False
    """Whether the agent reports that this is a call to an MCP tool."""

    @property
    def has_ended(self) -> bool:
        return self.status in ("completed", "failed")


class CallUpdate(Value):
    """A tool call began or changed."""

    session: str
    call: AgentCall


class TerminalOutput(Value):
    """New output from one of the agent's own terminals."""

    session: str
    call: str
    terminal: str
    text: str


class TerminalEnded(Value):
    """The command in one of the agent's own terminals has ended."""

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
    """The agent's plan has changed. `entries` contains all of its steps."""

    session: str
    entries: tuple[AgentPlanEntry, ...] = ()


class ModeChanged(Value):
    """The mode of the session has changed."""

    session: str
    mode: str


class OptionsChanged(Value):
    """Options of the session have changed. `options` contains all of them, with their current values."""

    session: str
    options: tuple[ConfigOption, ...] = ()


class SlashCommand(Value):
    """A command that can begin a prompt: "/name", optionally followed by an argument that `hint` describes."""

    name: str
    description: str = ""
    hint: str = ""


class CommandsUpdate(Value):
    """The slash commands of the session have changed. `commands` contains all of them."""

    session: str
    commands: tuple[SlashCommand, ...] = ()


class TitleChanged(Value):
    """The title of the session or the time of its last use has changed. None means that the value was not sent."""

    session: str
    title: str | None = None
    updated_at: str | None = None


class UsageUpdate(Value):
    """The number of tokens in the session's context, the size of the context window, and the cost of the session."""

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
    """Progress while the agent compacts its history: a new status, text of the summary, or both."""

    session: str
    id: str
    status: str = ""
    text: str = ""


class UnknownUpdate(Value):
    """An update of an unknown kind, or an unreadable update, as JSON text."""

    session: str
    kind: str
    json: str


# ── Requests from the agent ──────────────────────────────────────────────────────────────────────


class PermissionOption(Value):
    """One possible answer to a permission request. The answer is the `id`, because options may share the same kind."""

    id: str
    name: str = ""
    kind: str = ""


class PermissionRequested(Value):
    """The agent requests permission for a tool call."""

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
    """Whether the field accepts free text in addition to the choices."""
    minimum: float | None = None
    """The minimum value of a number, the minimum length of a text, or the minimum number of choices."""
    maximum: float | None = None
    """The maximum value of a number, the maximum length of a text, or the maximum number of choices."""
    pattern: str = ""
    format: str = ""


class QuestionAsked(Value):
    """The agent asks the user to fill in `fields` or, if `url` is set, to visit that URL and confirm the visit."""

    number: int
    session: str
    message: str = ""
    fields: tuple[QuestionField, ...] = ()
    url: str = ""
    elicitation: str = ""
    call: str = ""


class QuestionCompleted(Value):
    """The user has finished the interaction at the `url` of a question."""

    elicitation: str


class PlanProposed(Value):
    """The agent requests approval for its plan."""

    number: int
    session: str
    plan: str
    name: str = ""
    overview: str = ""
    entries: tuple[AgentPlanEntry, ...] = ()
    call: str = ""


class FileReadRequested(Value):
    """The agent wants to read a file: at most `limit` lines, starting at `line` (the first line is 1)."""

    number: int
    session: str
    path: str
    line: int | None = None
    limit: int | None = None


class FileWriteRequested(Value):
    """The agent wants to write a file, which may not exist yet."""

    number: int
    session: str
    path: str
    content: str


class TerminalRequested(Value):
    """The agent wants to start a command in a terminal. Only the last `limit` bytes of its output have to be kept."""

    number: int
    session: str
    command: str
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    cwd: str | None = None
    limit: int | None = None


class TerminalUseRequested(Value):
    """The agent wants to read a terminal's output, wait for its command, kill the command, or release the terminal."""

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
"""A request from the agent that has to be answered. `number` identifies it in the answer."""


class Withdrawn(Value):
    """A request from the agent no longer needs an answer: it was cancelled, or the connection was closed."""

    number: int


# ── For the log ────────────────────────────────────────────────────────────────────────────────


class UnknownRequested(Value):
    """The agent sent a request that the client does not support or cannot parse. It has already been answered."""

    method: str
    reason: str


class Notified(Value):
    """A notification that the protocol does not define. `params` is JSON text."""

    method: str
    params: str


class Stray(Value):
    """Data from the agent was ignored: an invalid message, or an update that could no longer be held back.

    `beginning` is the beginning of the data.
    """

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
