"""What a client's tools can do, judged by their names and schemas, and how to call them.

Clients name their tools as they like: `bash`, `Bash`, `run_terminal_cmd`, `exec_command`. A caller states the purpose
(a *capability*) and the values (one per *role*: the path, the command); `fit_call` picks an offered tool and spells
the arguments as its schema requires. A tool with a required property that cannot be filled does not fit.
"""

from tieline.wire.shared.capabilities.fitting import (
    ClientTool,
    FittedCall,
    Wanted,
    client_tools,
    fit_call,
    is_absolute,
    matching_tools,
    plain_name,
)
from tieline.wire.shared.capabilities.names import Capability, Role

__all__ = [
    "Capability",
    "ClientTool",
    "FittedCall",
    "Role",
    "Wanted",
    "client_tools",
    "fit_call",
    "is_absolute",
    "matching_tools",
    "plain_name",
]
