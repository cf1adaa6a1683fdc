"""What a client learns of an agent, in words that are no longer JSON.

`ClientSide.feed` gives facts in the order in which things happened. `session` is the agent's name for a session;
`request` is the number that the method which asked returned; `ask` is the number to answer by what the agent asks.
What only travels through (a call's input and output, data of an error) is JSON text.
"""

from typing import Literal

from tieline.model.content import Part, Value
from tieline.model.events import StopReason, Usage
from tieline.wire.acp.schema import AUTH_REQUIRED, PromptCapabilities

# ── The agent and its sessions ───────────────────────────────────────────────────────────────────


class Abilities(Value):
    """What an agent can do."""

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
        """What a prompt may hold, for `content.prompt_of`."""
        return PromptCapabilities(image=self.image, audio=self.audio, embedded_context=self.embedded)


class Login(Value):
    """A way to log in. `arguments` are for the agent's own program, `command` is a whole command line; or neither."""

    id: str
    name: str = ""
    description: str = ""
    arguments: tuple[str, ...] | None = None
    command: tuple[str, ...] | None = None
    env: tuple[tuple[str, str], ...] = ()


class Initialized(Value):
    """The agent has introduced itself."""

    request: int
    version: int
    name: str = ""
    title: str = ""
    agent_version: str = ""
    abilities: Abilities = Abilities()
    logins: tuple[Login, ...] = ()


class Choice(Value):
    """One thing to choose: a mode, a model, a value of an option, an answer to a question."""

    id: str
    name: str = ""
    description: str = ""
    group: str = ""


class Choices(Value):
    """What there is to choose from, and what is chosen."""

    current: str = ""
    choices: tuple[Choice, ...] = ()


class ConfigOption(Value):
    """Something of a session that can be set: `category` says whether it is the mode, the model or something else."""

    id: str
    name: str = ""
    description: str = ""
    category: str = ""
    kind: Literal["select", "boolean"] = "select"
    current: str | bool = ""
    choices: tuple[Choice, ...] = ()


class SessionOpened(Value):
    """A session can be used. What comes of a session between loading it and this is its history, told again."""

    request: int
    session: str
    how: Literal["new", "load", "resume", "fork"]
    modes: Choices | None = None
    models: Choices | None = None
    options: tuple[ConfigOption, ...] = ()


class SessionInfo(Value):
    """A session that the agent remembers."""

    session: str
    cwd: str = ""
    title: str = ""
    updated_at: str = ""


class SessionsListed(Value):
    """The answer to `list_sessions`; with a `cursor` there is more."""

    request: int
    sessions: tuple[SessionInfo, ...] = ()
    cursor: str | None = None


class Done(Value):
    """What was asked for has been done."""

    request: int
    method: str
    session: str = ""


class Answered(Value):
    """The answer to a method that this protocol does not define."""

    request: int
    method: str
    result: str


class Refused(Value):
    """What was asked for was refused or failed; a prompt that is refused has ended its turn."""

    request: int
    method: str
    code: int
    message: str
    session: str = ""
    data: str = ""

    @property
    def needs_login(self) -> bool:
        """Whether one of `Initialized.logins` has to come first."""
        return self.code == AUTH_REQUIRED


class TurnEnded(Value):
    """The agent has answered a prompt. `said` is its own word for the reason."""

    request: int
    session: str
    reason: StopReason
    said: str
    usage: Usage | None = None


# ── What happens in a session ────────────────────────────────────────────────────────────────────


class TextChunk(Value):
    """Words for the user. Another `message` than before is another message."""

    session: str
    text: str
    message: str | None = None


class ThoughtChunk(Value):
    """Words the agent says to itself."""

    session: str
    text: str
    message: str | None = None


class ContentChunk(Value):
    """A picture or file in what is said, or anything the user said: an agent may repeat that, or tell it again."""

    session: str
    speaker: Literal["agent", "thought", "user"]
    part: Part
    message: str | None = None


class Diff(Value):
    """A change of a file; `old` is None when the file is new."""

    path: str
    new: str
    old: str | None = None


class Location(Value):
    """A place in a file that the agent works at."""

    path: str
    line: int | None = None


class Call(Value):
    """A tool call of the agent's, as far as it is known: everything that was told of it so far."""

    id: str
    title: str = ""
    name: str = ""
    kind: str = "other"
    status: str = "pending"
    content: tuple[Part, ...] = ()
    diffs: tuple[Diff, ...] = ()
    terminals: tuple[str, ...] = ()
    locations: tuple[Location, ...] = ()
    input: str = ""
    output: str = ""
    tool: str = ""
    """The name by which the agent's model called the tool, where the agent tells it beside the title."""
    is_mcp: bool = False
    """Whether the agent says that it is a call of a tool of an MCP server."""

    @property
    def has_ended(self) -> bool:
        return self.status in ("completed", "failed")


class CallUpdate(Value):
    """A tool call began or changed."""

    session: str
    call: Call


class TerminalOutput(Value):
    """More output of a terminal of the agent's own."""

    session: str
    call: str
    terminal: str
    text: str


class TerminalEnded(Value):
    """A terminal of the agent's own has ended."""

    session: str
    call: str
    terminal: str
    exit_code: int | None = None
    signal: str | None = None


class PlanEntry(Value):
    """One thing the agent means to do."""

    content: str
    status: str = "pending"
    priority: str = "medium"


class PlanUpdate(Value):
    """The whole plan, as it is now."""

    session: str
    entries: tuple[PlanEntry, ...] = ()


class ModeChanged(Value):
    """The session is in another mode."""

    session: str
    mode: str


class OptionsChanged(Value):
    """All options of the session, as they are now."""

    session: str
    options: tuple[ConfigOption, ...] = ()


class Command(Value):
    """Something a prompt can begin with: "/name" and perhaps what `hint` describes."""

    name: str
    description: str = ""
    hint: str = ""


class CommandsUpdate(Value):
    """All commands of the session."""

    session: str
    commands: tuple[Command, ...] = ()


class TitleChanged(Value):
    """The session has another title, or was used."""

    session: str
    title: str | None = None
    updated_at: str | None = None


class UsageUpdate(Value):
    """How much of its context the session fills, in tokens, and what it has cost."""

    session: str
    used: int
    size: int
    cost: float | None = None
    currency: str = ""


class Noticed(Value):
    """Something the agent wants the user to know that is no part of its answer."""

    session: str
    severity: str
    title: str
    description: str = ""


class Compaction(Value):
    """The agent shortens its history: how far it is, or words of the summary."""

    session: str
    id: str
    status: str = ""
    text: str = ""


class UnknownUpdate(Value):
    """An update of a kind that is not known here, or cannot be read, as JSON text."""

    session: str
    kind: str
    json: str


# ── What the agent asks ──────────────────────────────────────────────────────────────────────────


class PermissionOption(Value):
    """One possible answer. Several may be of one kind: it is the id that answers."""

    id: str
    name: str = ""
    kind: str = ""


class PermissionAsked(Value):
    """May the agent do this?"""

    ask: int
    session: str
    call: Call
    options: tuple[PermissionOption, ...] = ()


class Field(Value):
    """One thing a question wants to know, and what an answer must be like."""

    name: str
    kind: Literal["boolean", "choice", "choices", "text", "number", "integer"]
    title: str = ""
    description: str = ""
    required: bool = False
    default: str | int | float | bool | tuple[str, ...] | None = None
    choices: tuple[Choice, ...] = ()
    is_open: bool = False
    """Whether other words than a choice are an answer too."""
    minimum: float | None = None
    """Of a number; of text its length, of choices how many."""
    maximum: float | None = None
    pattern: str = ""
    format: str = ""


class QuestionAsked(Value):
    """The agent wants to know something: these fields; or, with a `url`, that the user goes there and says so."""

    ask: int
    session: str
    message: str = ""
    fields: tuple[Field, ...] = ()
    url: str = ""
    elicitation: str = ""
    call: str = ""


class QuestionCompleted(Value):
    """What was to be done at the `url` of a question has been done."""

    elicitation: str


class PlanProposed(Value):
    """The agent wants its plan approved before it begins."""

    ask: int
    session: str
    plan: str
    name: str = ""
    overview: str = ""
    entries: tuple[PlanEntry, ...] = ()
    call: str = ""


class FileReadAsked(Value):
    """What does this file hold? `line` counts from 1."""

    ask: int
    session: str
    path: str
    line: int | None = None
    limit: int | None = None


class FileWriteAsked(Value):
    """Write this file; it may be new."""

    ask: int
    session: str
    path: str
    content: str


class TerminalAsked(Value):
    """Run this command, and do not wait for it; `limit` is how many bytes of its output to keep, the last ones."""

    ask: int
    session: str
    command: str
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    cwd: str | None = None
    limit: int | None = None


class TerminalUseAsked(Value):
    """Something about a terminal that runs: its output so far, its end, to end it, or to end and forget it."""

    ask: int
    session: str
    terminal: str
    use: Literal["output", "wait", "kill", "release"]


class Withdrawn(Value):
    """What was asked needs no answer any more; it has been answered."""

    ask: int


# ── What a person may want to look into ──────────────────────────────────────────────────────────


class UnknownAsked(Value):
    """The agent asked for something we do not have, or in words we do not understand; it was told so."""

    method: str
    reason: str


class Notified(Value):
    """The agent told something that this protocol does not define, as JSON text."""

    method: str
    params: str


class Stray(Value):
    """The agent wrote something that is no message."""

    reason: str
    beginning: str = ""


Fact = (
    Initialized
    | SessionOpened
    | SessionsListed
    | Done
    | Answered
    | Refused
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
    | PermissionAsked
    | QuestionAsked
    | QuestionCompleted
    | PlanProposed
    | FileReadAsked
    | FileWriteAsked
    | TerminalAsked
    | TerminalUseAsked
    | Withdrawn
    | UnknownAsked
    | Notified
    | Stray
)
