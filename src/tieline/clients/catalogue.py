"""The catalogue of client programs."""

from collections.abc import Mapping

from tieline.clients.claude import CLAUDE
from tieline.clients.client import Client
from tieline.clients.codex import CODEX
from tieline.clients.opencode import OPENCODE

CLIENTS: Mapping[str, Client] = {client.id: client for client in (CLAUDE, CODEX, OPENCODE)}
"""The clients that `tieline run` can start, by their id."""
