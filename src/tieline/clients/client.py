"""The types of the catalogue: a client program, a connection to the gateway, and the settings that join the two."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from msgspec.structs import replace

from tieline.model.content import Value
from tieline.model.ports import ModelFacts

ANY_KEY = "local"
"""The key that clients send if the gateway has none. Most clients refuse to start without a key."""
KEY_VARIABLE = "TIELINE_API_KEY"
"""The variable that holds the key for clients whose settings name a variable."""
CONTEXT = 128_000
"""The context window for clients that need a number, if the window of the model is not known."""
OUTPUT = 8192
"""The maximum length of an answer for clients that need a number, if that of the model is not known."""

Protocol = Literal["chat", "responses", "messages"]


class Connection(Value):
    """A gateway and one of its models. `url` is the gateway's address without a slash at the end."""

    url: str
    model: str
    key: str = ANY_KEY
    key_variable: str = ""
    """The variable in which the client finds the key. If it is empty, the settings contain the key itself."""
    facts: ModelFacts = ModelFacts()

    @property
    def api(self) -> str:
        """The address for clients of OpenAI's protocols."""
        return f"{self.url}/v1"

    @property
    def context(self) -> int:
        return self.facts.context or CONTEXT

    @property
    def output(self) -> int:
        return self.facts.max_output or OUTPUT

    @property
    def key_env(self) -> dict[str, str]:
        """The variable in which the client finds the key."""
        return {self.key_variable: self.key} if self.key_variable else {}

    def with_variable(self) -> "Connection":
        """Return this connection with the key in a variable."""
        return replace(self, key_variable=KEY_VARIABLE)

    def key_as(self, form: str) -> str:
        """Return the key or, if a variable holds it, the reference to that variable: `form` with the name for `{}`."""
        return form.replace("{}", self.key_variable) if self.key_variable else self.key


class Recipe(Value):
    """How to start a client on a connection without changing any of the user's files."""

    arguments: tuple[str, ...] = ()
    """Arguments that come before those of the user."""
    env: Mapping[str, str] = {}
    unset: tuple[str, ...] = ()
    """Variables that would lead the client elsewhere. A name may end with `*`."""
    files: Mapping[str, str] = {}
    """The content of files, by their path in a private folder that exists while the client runs."""
    notes: tuple[str, ...] = ()
    """What the user should know, such as that their own settings are hidden."""


class Headless(Value):
    """How to run one prompt without a terminal, with all tools allowed. The client works in the current folder."""

    arguments: tuple[str, ...]
    """Arguments that come after those of the recipe."""
    env: Mapping[str, str] = {}
    uses_tools: bool = True
    """Whether the client calls tools; if not, it applies changes that it finds in the answer."""


class Place(NamedTuple):
    """A file, as a path below the folder that a variable names. With an empty path, the variable names the file."""

    variable: str
    path: str
    system: str = ""
    """The only system with this place, as in `sys.platform`; empty for all systems."""


class Setting(NamedTuple):
    """A value in a settings file, and the names that lead to it.

    If `match` is not empty, the path leads to a list. The value then replaces the element whose member `match` is the
    same as that of the value; if there is none, it is appended.
    """

    path: tuple[str, ...]
    value: Any
    match: str = ""
    is_default: bool = False
    """Whether a value that is already there is kept."""


class UnsafeChange(Exception):
    """A settings file cannot be changed without the risk of damaging it. The message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsFile:
    """The file in which a client keeps its settings, and what to set in it."""

    places: tuple[Place, ...]
    """Where the file may be. It is the first one whose variable is set; see also `names`."""
    format: Literal["json", "toml", "yaml"]
    settings: Callable[[Connection], Sequence[Setting]]
    names: tuple[str, ...] = ()
    """Other names of the file. If there is no file of the usual name, an existing one of these is used."""
    note: str = ""
    """What the user has to do besides."""


Launch = Callable[[Connection, str], Recipe]
"""Returns the recipe for a connection. The second argument is the path of the private folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A program that runs in a terminal."""

    id: str
    title: str
    programs: tuple[str, ...]
    """Names of the program, the usual one first."""
    install: str
    """The command that installs it."""
    protocol: Protocol
    launch: Launch
    headless: Callable[[str], Headless]
    """Returns how to run one prompt without a terminal."""
    shell: Launch | None = None
    """Returns a simpler recipe for a shell that the user controls, if there is one."""
    settings: SettingsFile | None = None
    is_set_in_shell: bool = False
    """Whether users who copy the settings are shown the variables for their shell rather than the file."""
    about: str = ""
    """A remark for users who copy the settings."""
    traces: str = ""
    """What the client itself writes to the user's folders, such as a history."""

    def for_shell(self, connection: Connection, folder: str) -> Recipe:
        """Return the recipe for a shell that the user controls."""
        return (self.shell or self.launch)(connection, folder)
