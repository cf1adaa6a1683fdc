"""The known agents: how to start, install and log in to each, and whether it is installed.

The gateway downloads nothing by itself. Install commands are shown to the user, who decides whether to run them.
"""

import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from tieline.model.content import Value
from tieline.model.ports import ModelInfo

NAME = "tieline"
"""The name that agents see for the gateway and for its MCP server."""

Which = Callable[[str], str | None]
"""Returns the path of the program with this name, or None if it is not installed."""


class AgentSpec(Value):
    """A known agent. `command` starts it; `alternatives` are other commands under which it may be installed."""

    id: str
    title: str
    command: tuple[str, ...]
    alternatives: tuple[tuple[str, ...], ...] = ()
    env: Mapping[str, str] = {}
    """Environment variables for this agent, in addition to the variables for all agents."""
    install: tuple[str, ...] | None = None
    """The command that installs the agent, if one command is enough."""
    needs: str = ""
    """Text for the user: requirements or instructions for installing the agent."""
    login: str = ""
    """The command with which the user logs in. It is used if the agent itself names none."""
    method: str = ""
    """The id of a login method that the agent can perform by itself, without a browser."""
    cwd: str = ""
    """The agent's working folder, if it differs from that of other agents."""


class AgentLookup(NamedTuple):
    """The result of `find`. `command` starts the agent; it is None if the agent is not installed.

    `line` is that command as text or, if the agent is not installed, instructions for installing it.
    """

    command: tuple[str, ...] | None
    line: str


def find(spec: AgentSpec, which: Which) -> AgentLookup:
    """Return the first of an agent's commands whose program is installed."""
    for command in (spec.command, *spec.alternatives):
        if command and which(command[0]):
            return AgentLookup(command, " ".join(command))
    return AgentLookup(None, install_line(spec))


def installed(specs: Iterable[AgentSpec], which: Which, *, offers_tools: bool) -> list[ModelInfo]:
    """Return the installed agents as models. `offers_tools` says whether clients' tools are offered to them.

    An agent chooses its language model itself, so the model's limits and input types are unknown. Whether the agent
    accepts clients' tools is known only when it runs.
    """
    tools = None if offers_tools else False
    found = (spec for spec in specs if find(spec, which).command is not None)
    return [ModelInfo(id=spec.id, title=spec.title, tools=tools) for spec in found]


def install_line(spec: AgentSpec) -> str:
    """Return one line that tells the user how to install an agent."""
    if spec.install is not None:
        line = shlex.join(spec.install)
        return f"{line}  ({spec.needs})" if spec.needs else line
    return spec.needs or f"put `{spec.command[0]}` on your PATH"


def _npm(package: str) -> tuple[str, ...]:
    return ("npm", "install", "--global", package)


def _uv(package: str) -> tuple[str, ...]:
    return ("uv", "tool", "install", package)


_KNOWN = (
    AgentSpec(
        id="claude",
        title="Claude Agent",
        command=("claude-agent-acp",),
        install=_npm("@agentclientprotocol/claude-agent-acp"),
        needs="needs Node.js 22 or later",
        login="claude /login",
    ),
    AgentSpec(
        id="codex",
        title="Codex",
        command=("codex-acp",),
        install=_npm("@agentclientprotocol/codex-acp"),
        needs="to log in it needs Codex itself too: npm install --global @openai/codex",
        login="codex login",
    ),
    AgentSpec(
        id="gemini",
        title="Gemini CLI",
        command=("gemini", "--acp"),
        install=_npm("@google/gemini-cli"),
        login="gemini",
    ),
    AgentSpec(
        id="opencode",
        title="OpenCode",
        command=("opencode", "acp"),
        install=_npm("opencode-ai"),
        login="opencode auth login",
    ),
    AgentSpec(
        id="qwen",
        title="Qwen Code",
        command=("qwen", "--acp"),
        install=_npm("@qwen-code/qwen-code"),
        needs="needs Node.js 22 or later",
        login="qwen",
    ),
    AgentSpec(
        id="copilot",
        title="GitHub Copilot CLI",
        command=("copilot", "--acp"),
        install=_npm("@github/copilot"),
        login="copilot login",
    ),
    AgentSpec(
        id="cursor",
        title="Cursor Agent",
        command=("cursor-agent", "acp"),
        # The program is also installed as `agent`, but that name is too common to be listed as an alternative.
        needs="get Cursor's command line agent from https://cursor.com/docs/cli (not from npm)",
        login="cursor-agent login",
    ),
    AgentSpec(
        id="kimi",
        title="Kimi Code",
        command=("kimi", "acp"),
        install=_npm("@moonshot-ai/kimi-code"),
        needs="needs Node.js 22.19 or later",
        login="kimi login",
    ),
    AgentSpec(
        id="vibe",
        title="Mistral Vibe",
        command=("vibe-acp",),
        install=_uv("mistral-vibe"),
        needs="needs Python 3.12 or later",
        login="vibe --setup",
    ),
    AgentSpec(
        id="goose",
        title="Goose",
        command=("goose", "acp"),
        needs="get goose from https://block.github.io/goose",
        login="goose configure",
    ),
    AgentSpec(
        id="hermes",
        title="Hermes Agent",
        command=("hermes-acp",),
        install=_uv("hermes-agent[acp,mcp]"),
        needs="without `mcp` it cannot use the tools of clients",
        login="hermes setup",
    ),
    AgentSpec(
        id="fast-agent",
        title="fast-agent",
        command=("fast-agent-acp", "-x"),
        install=_uv("fast-agent-acp"),
        login="fast-agent setup",
    ),
    AgentSpec(
        id="cline",
        title="Cline",
        command=("cline", "--acp"),
        install=_npm("cline"),
        login="cline auth",
    ),
    AgentSpec(
        id="kilo",
        title="Kilo Code",
        command=("kilo", "acp"),
        alternatives=(("kilocode", "acp"),),
        install=_npm("@kilocode/cli"),
        login="kilo auth login",
    ),
    AgentSpec(
        id="auggie",
        title="Auggie",
        command=("auggie", "--acp"),
        install=_npm("@augmentcode/auggie"),
        login="auggie login",
    ),
    AgentSpec(
        id="droid",
        title="Factory Droid",
        command=("droid", "exec", "--output-format", "acp-daemon"),
        env={"DROID_DISABLE_AUTO_UPDATE": "true"},
        install=_npm("droid"),
        login="droid",
    ),
    AgentSpec(
        id="junie",
        title="Junie",
        command=("junie", "--acp=true"),
        needs="get Junie's command line agent from https://www.jetbrains.com/junie",
        login="junie",
    ),
    AgentSpec(
        id="devin",
        title="Devin",
        command=("devin", "acp"),
        needs="get Devin's command line agent from https://devin.ai",
        login="devin",
    ),
    AgentSpec(
        id="grok",
        title="Grok",
        command=("grok", "agent", "stdio"),
        install=_npm("@xai-official/grok"),
        login="grok",
    ),
    AgentSpec(
        id="qoder",
        title="Qoder",
        command=("qodercli", "--acp"),
        install=_npm("@qoder-ai/qodercli"),
        login="qodercli",
    ),
    AgentSpec(
        id="kiro",
        title="Kiro",
        command=("kiro-cli", "acp"),
        alternatives=(("kiro-cli-chat", "acp"),),
        needs="get Kiro's command line agent from https://kiro.dev",
        login="kiro-cli login",
    ),
    AgentSpec(
        id="openhands",
        title="OpenHands",
        command=("openhands", "acp"),
        install=_uv("openhands"),
        needs="needs Python 3.12",
        login="openhands login",
    ),
    AgentSpec(
        id="pi",
        title="pi",
        command=("pi-acp",),
        install=_npm("pi-acp"),
        needs="needs pi itself too: npm install --global @earendil-works/pi-coding-agent",
        login="pi",
    ),
    AgentSpec(
        id="amp",
        title="Amp",
        command=("amp-acp",),
        needs="put `amp-acp` and Amp itself on your PATH",
        login="amp login",
    ),
)

CATALOGUE: Mapping[str, AgentSpec] = {spec.id: spec for spec in _KNOWN}
"""The known agents, by the part of the model name that follows `acp/`."""
