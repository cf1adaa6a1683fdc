"""The types in the catalogue: a client program, a connection to the gateway, and the settings that join the two."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from msgspec.structs import replace

from tieline.model.content import Value
from tieline.model.ports import ModelFacts

ANY_KEY = "local"
"""The key that clients send if the gateway has none. Most clients refuse to start without a key."""
KEY_VARIABLE = "TIELINE_API_KEY"
"""The environment variable that holds the key for clients whose settings name a variable."""
CONTEXT = 128_000
"""The context window, in tokens, for clients that need a number, if that of the model is not known."""
OUTPUT = 8192
"""The maximum length of an answer, in tokens, for clients that need a number, if that of the model is not known."""

Protocol = Literal["chat", "responses", "messages"]


class Connection(Value):
    """A gateway and one of its models. `url` is the gateway's address without a slash at the end."""

    url: str
    model: str
    key: str = ANY_KEY
    key_variable: str = ""
    """The environment variable from which the client reads the key; empty if the settings contain the key itself."""
    facts: ModelFacts = ModelFacts()

    @property
    def api(self) -> str:
        """The address for clients that use OpenAI's protocols."""
        return f"{self.url}/v1"

    @property
    def context(self) -> int:
        return self.facts.context or CONTEXT

    @property
    def output(self) -> int:
        return self.facts.max_output or OUTPUT

    @property
    def key_env(self) -> dict[str, str]:
        """A mapping from `key_variable` to the key; empty if there is no variable."""
        return {self.key_variable: self.key} if self.key_variable else {}

    def with_variable(self) -> "Connection":
        """Return this connection with the key in the variable KEY_VARIABLE."""
        return replace(self, key_variable=KEY_VARIABLE)

    def key_as(self, form: str) -> str:
        """Return the key or, if a variable holds it, `form` with `{}` replaced by the name of that variable."""
        return form.replace("{}", self.key_variable) if self.key_variable else self.key


class Recipe(Value):
    """How to start a client with a connection, without changing any of the user's files."""

    arguments: tuple[str, ...] = ()
    """Arguments that come before the user's own."""
    env: Mapping[str, str] = {}
    unset: tuple[str, ...] = ()
    """Variables to remove, because they would point the client elsewhere. A name may end with `*`."""
    files: Mapping[str, str] = {}
    """The content of files, by their path in a private folder that exists while the client runs."""
    notes: tuple[str, ...] = ()
    """Remarks for the user, for example that their own settings are not used."""


class Headless(Value):
    """How to run one prompt without a terminal, with all tools allowed. The client works in the current folder."""

    arguments: tuple[str, ...]
    """Arguments that come after those of the recipe."""
    env: Mapping[str, str] = {}
    uses_tools: bool = True
    """Whether the client calls tools; if not, it applies changes that it finds in the answer."""


class Place(NamedTuple):
    """A place where a file may be: a path below the folder that an environment variable names.

    If the path is empty, the variable names the file itself.
    """

    variable: str
    path: str
    system: str = ""
    """The only system that has this place, a value of `sys.platform`; empty for all systems."""


class Setting(NamedTuple):
    """A value in a settings file, and the names that lead to it.

    If `match` is not empty, the path leads to a list of objects, and `match` names one of their members. The value
    replaces the object in which this member is the same as in the value, or is appended if there is no such object.
    """

    path: tuple[str, ...]
    value: Any
    match: str = ""
    is_default: bool = False
    """Whether to keep a value that is already in the file."""


class UnsafeChange(Exception):
    """A settings file cannot be changed without the risk of damaging it. The message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsFile:
    """The file in which a client keeps its settings, and what to set in it."""

    places: tuple[Place, ...]
    """Where the file may be. The first place whose variable is set is used; see also `names`."""
    format: Literal["json", "toml", "yaml"]
    settings: Callable[[Connection], Sequence[Setting]]
    names: tuple[str, ...] = ()
    """Other names for the file. If there is no file with the usual name, an existing file with one of these is used."""
    note: str = ""
    """What else the user has to do."""


Launch = Callable[[Connection, str], Recipe]
"""Returns the recipe for a connection. The second argument is the path of the private folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A client program that runs in a terminal."""

    id: str
    title: str
    programs: tuple[str, ...]
    """The names under which the program may be installed, the usual one first."""
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
