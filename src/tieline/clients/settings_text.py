"""Changes the text of settings files, whatever their format."""

from collections.abc import Callable, Mapping, Sequence

from tieline.clients.client import Connection, Setting, SettingsFile
from tieline.clients.json_text import edit_json
from tieline.clients.toml_text import edit_toml
from tieline.clients.yaml_text import edit_yaml

_EDITORS: Mapping[str, Callable[[str, Sequence[Setting]], str]] = {
    "json": edit_json,
    "toml": edit_toml,
    "yaml": edit_yaml,
}


def changed_text(file: SettingsFile, text: str, connection: Connection) -> str:
    """Return `text`, the current text of a settings file (empty for a new file), with the settings for a connection.

    Raise UnsafeChange if the text cannot be changed safely.
    """
    return _EDITORS[file.format](text, file.settings(connection))


def new_text(file: SettingsFile, connection: Connection) -> str:
    """Return the text of a file that contains nothing but the settings for a connection."""
    return changed_text(file, "", connection)
