"""The settings for all known clients, in the form in which users copy them."""

from collections.abc import Callable, Mapping

from tieline.clients.catalogue import CLIENTS
from tieline.clients.client import Client, Connection, SettingsFile
from tieline.clients.editors import cursor, jetbrains, vscode, zed
from tieline.clients.libraries import libraries
from tieline.clients.settings_text import new_text
from tieline.clients.shell import FOLDER, exports, quoted
from tieline.clients.snippet import Snippet

EDITORS: Mapping[str, Callable[[Connection], Snippet]] = {
    "vscode": vscode,
    "zed": zed,
    "jetbrains": jetbrains,
    "cursor": cursor,
}
"""The editors by their id. Their settings can only be printed."""


def snippets(connection: Connection) -> list[Snippet]:
    """Return the settings for every known client."""
    return [
        *(client_snippet(client, connection) for client in CLIENTS.values()),
        *(editor(connection) for editor in EDITORS.values()),
        *libraries(connection),
    ]


def client_snippet(client: Client, connection: Connection) -> Snippet:
    """Return the settings for a terminal program: variables for the shell, or the content of its settings file."""
    if client.settings is None or client.is_set_in_shell:
        text, language, about = _shell(client, connection), "sh", client.about or "In the shell that starts it."
    else:
        text, language = new_text(client.settings, connection).rstrip("\n"), client.settings.format
        about = " ".join(
            part for part in (f"{shown_place(client.settings)}.", client.settings.note, client.about) if part
        )
    return Snippet(
        id=client.id,
        title=client.title,
        about=about,
        text=text,
        language=language,
        command=f"tieline run {client.id}",
    )


def shown_place(file: SettingsFile) -> str:
    """Return the usual path of a settings file, as shown to users."""
    return next(f"~/{place.path}" for place in file.places if place.variable == "HOME" and not place.system)


def _shell(client: Client, connection: Connection) -> str:
    recipe = client.for_shell(connection, FOLDER)
    command = " ".join([client.programs[0], *(quoted(argument) for argument in recipe.arguments)])
    return "\n".join([*exports(recipe.env), command])
