"""What a client's tools can do, judged by their names and schemas, and the arguments that make them do it.

Clients call their tools as they like: `bash`, `Bash`, `run_terminal_cmd`, `exec_command`. Whoever wants something done
says *what* (a capability) and *with what* (a value for each role: the path, the command); the tool that was offered
says how it is spelled. A tool that demands something nobody can know does not fit.
"""

from tieline.wire.shared.capabilities.fitting import Fitted, Tool, Wanted, capable, fit, is_absolute, plain, read_tools
from tieline.wire.shared.capabilities.names import Capability, Role

__all__ = [
    "Capability",
    "Fitted",
    "Role",
    "Tool",
    "Wanted",
    "capable",
    "fit",
    "is_absolute",
    "plain",
    "read_tools",
]
