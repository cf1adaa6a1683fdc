"""What the gateway says about itself when it starts: where it is, what it was configured with, what to try first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from tieline import __version__
from tieline.app.build.upstreams import State
from tieline.app.config import Config
from tieline.tools.invisible_text import visible
from tieline.web.connect import CLAUDE_SIZES

NEEDS_KEY = f"""\
Tieline {__version__}

This gateway needs its key, as `Authorization: Bearer <key>` or `x-api-key: <key>`.
"""
"""For a client without the key: nothing about what is behind the gateway."""

CLAUDE_NAMES = ("claude-opus-x", "claude-sonnet-x", "claude-haiku-x")
"""Names like those that Claude Code uses for its three sizes of models."""


@dataclass(frozen=True, slots=True)
class StartupText:
    """Everything the text depends on but the address; `source` is the configuration file in use."""

    config: Config
    states: Sequence[State]
    aliases: Mapping[str, str]
    needs_key: bool
    source: Path | None = None

    def text(self, address: str) -> str:
        """The whole text. It names where keys come from, never a key; no name in it can control a terminal."""
        source = "no file, only defaults and the environment" if self.source is None else str(self.source.absolute())
        lines = [
            f"Tieline {__version__} is listening on {address}",
            f"Configuration: {source}",
            "",
            *self._backends(),
            "",
            *self._first_steps(address),
            "",
            *self._clients(address),
            "",
        ]
        return "\n".join(visible(line).replace("\n", "\\n") for line in lines)

    def model(self) -> str:
        """The model to name in examples; `<model>` where only its upstream can tell."""
        config = self.config
        default = config.default_model
        if default is not None and "*" not in default:
            return default
        names = [default.partition("/")[0]] if default is not None else [state.name for state in self._usable()]
        for name in names:
            upstream = config.upstreams.get(name)
            if upstream is not None:
                return f"{name}/{upstream.models[0] if upstream.models else '<model>'}"
            if name == "cursor":
                return "cursor/auto"
        return "demo/scripted" if config.demo else "<backend>/<model>"

    def _usable(self) -> list[State]:
        return [state for state in self.states if state.is_ready]

    def _backends(self) -> list[str]:
        names = max((len(state.name) for state in self.states), default=0)
        words = max((len(state.standing) for state in self.states), default=0)
        return [f"  {state.name:<{names}}  {state.standing:<{words}}  {state.text}" for state in self.states]

    def _first_steps(self, address: str) -> list[str]:
        model = self.model()
        ask = f'{{"model": "{model}", "messages": [{{"role": "user", "content": "What can you do?"}}]}}'
        key = f' -H "authorization: Bearer {self._key()}"' if self.needs_key else ""
        return [
            "Try it:",
            *([f"  open {address} in a browser"] if self.config.web.enabled else []),
            *(["  tieline models                to see what can stand for <model>"] if "<model>" in model else []),
            f"  curl {address}/v1/chat/completions -H 'content-type: application/json'{key} -d '{ask}'",
        ]

    def _clients(self, address: str) -> list[str]:
        model = f"'{self.model()}'" if "<" in self.model() else self.model()
        key = f'"{self._key()}"' if self.needs_key else "local"
        head = f"Point a client here ({'with the key of this gateway' if self.needs_key else 'any key will do'}):"
        claude = f"  Claude Code   ANTHROPIC_BASE_URL={address} ANTHROPIC_API_KEY={key} ANTHROPIC_MODEL={model}"
        if self._serves_claude():
            lines = [f"{claude} claude"]
        else:
            sizes = " ".join(f"ANTHROPIC_DEFAULT_{size}_MODEL={model}" for size in CLAUDE_SIZES)
            lines = [f"{claude} \\", f"                {sizes} claude"]
        return [
            head,
            *lines,
            f"  OpenAI SDKs   OPENAI_BASE_URL={address}/v1 OPENAI_API_KEY={key}, and the model {model}",
        ]

    def _serves_claude(self) -> bool:
        """Whether the names that Claude Code knows lead somewhere without further settings."""
        return all(any(fnmatchcase(name, alias) for alias in self.aliases) for name in CLAUDE_NAMES)

    def _key(self) -> str:
        """How a shell of this user gets the key."""
        server = self.config.server
        return f"$(cat '{server.key_file}')" if server.key_file else f"${server.key_env}"
