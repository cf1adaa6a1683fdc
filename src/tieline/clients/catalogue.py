"""The catalogue of client programs."""

from collections.abc import Mapping

from tieline.clients.aider import AIDER
from tieline.clients.claude import CLAUDE
from tieline.clients.client import Client
from tieline.clients.cline import CLINE
from tieline.clients.codex import CODEX
from tieline.clients.continue_cli import CONTINUE
from tieline.clients.copilot import COPILOT
from tieline.clients.crush import CRUSH
from tieline.clients.droid import DROID
from tieline.clients.goose import GOOSE
from tieline.clients.llm import LLM
from tieline.clients.opencode import KILO, OPENCODE
from tieline.clients.pi import PI
from tieline.clients.qwen import QWEN

CLIENTS: Mapping[str, Client] = {
    client.id: client
    for client in (
        *(CLAUDE, CODEX, OPENCODE, PI, QWEN, GOOSE, CLINE, CONTINUE, COPILOT, AIDER, KILO, CRUSH, DROID, LLM),
    )
}
"""The clients that `tieline run` can start, by their id."""

UNSUPPORTED: Mapping[str, str] = {
    "gemini": "Gemini CLI speaks only Google's own protocol, which this gateway does not serve.",
}
"""Clients that cannot use the gateway, by their id, and the reason."""
