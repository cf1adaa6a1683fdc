"""Stands in for the coding agents of another replica, on a replica that does not have their workspace."""

from collections.abc import Sequence
from typing import NoReturn

from tieline.model.errors import GatewayError
from tieline.model.ports import Host, ModelInfo
from tieline.model.request import Request


class RemoteAgents:
    """A backend that starts no runs: requests for it are forwarded before they get here.

    A request gets here only if the replica that has the workspace cannot be reached.
    """

    name = "acp"
    is_agent = True
    reads_options = True
    obeys_limits = True

    async def models(self) -> Sequence[ModelInfo]:
        return ()

    async def start(self, request: Request, host: Host) -> NoReturn:  # noqa: ARG002 - the signature of a backend
        raise GatewayError(
            "overloaded",
            "Models with the prefix `acp/` run on the machine that has the workspace. This replica does not have it, "
            "and no replica that does can be reached. Start one with `agents = true` under [cluster].",
        )

    async def count(self, request: Request) -> int | None:  # noqa: ARG002 - the signature of a backend
        return None

    async def aclose(self) -> None:
        """Do nothing: nothing was started."""
