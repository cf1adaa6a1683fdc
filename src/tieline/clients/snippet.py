"""Settings that users copy."""

from tieline.model.content import Value


class Snippet(Value, omit_defaults=False):
    """The settings that connect one client to the gateway, to be copied by the user. `language` names their format."""

    id: str
    title: str
    about: str
    text: str
    language: str = "sh"
    command: str = ""
    """The command that starts the client with these settings; empty if there is none."""
