"""Find out what a client's tools can do, from their names and schemas, and build calls to them.

Every client names its tools differently: `bash`, `Bash`, `run_terminal_cmd`, `exec_command`. A caller of `fit_call`
passes the purpose of the call (a *capability*) and the values, each with its meaning (a *role*, such as the path or the
command). `fit_call` picks an offered tool and builds the arguments that its schema requires. A tool with a required
property that cannot be filled does not fit.
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
