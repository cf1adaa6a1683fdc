"""The text that the gateway prints at start-up: its address, its backends, and example commands."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from tieline import __version__
from tieline.app.build.status import BackendStatus
from tieline.app.config import Config, UpstreamSettings
from tieline.clients.claude import MODEL_SIZES
from tieline.tools.invisible_text import visible

NEEDS_KEY = f"""\
Tieline {__version__}

This gateway needs its key. Send it as `Authorization: Bearer <key>` or `x-api-key: <key>`.
"""
"""The response to a client that sends no valid key. It must not reveal anything about the backends."""

CLAUDE_NAMES = ("claude-opus-x", "claude-sonnet-x", "claude-haiku-x")
"""Sample model names, like those that Claude Code sends by default for three of its model sizes."""


@dataclass(frozen=True, slots=True)
class StartupText:
    """Creates the start-up text. `source` is the configuration file in use."""

    config: Config
    statuses: Sequence[BackendStatus]
    upstreams: Mapping[str, UpstreamSettings]
    aliases: Mapping[str, str]
    needs_key: bool
    source: Path | None = None

    def text(self, address: str) -> str:
        """Return the text for a gateway at `address`.

        The text says where keys come from, but contains no keys and no terminal control characters.
        """
        source = (
            "no file, only defaults and environment variables" if self.source is None else str(self.source.absolute())
        )
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
        """Return the model name for the examples. It contains `<model>` if the models of the upstream are not known."""
        config = self.config
        default = config.default_model
        if default is not None and "*" not in default:
            return default
        names = [default.partition("/")[0]] if default is not None else self._ready_names()
        for name in names:
            upstream = self.upstreams.get(name)
            if upstream is not None:
                return f"{name}/{upstream.models[0] if upstream.models else '<model>'}"
            if name == "cursor":
                return "cursor/auto"
        return "demo/scripted" if config.demo else "<backend>/<model>"

    def _ready_names(self) -> list[str]:
        return [status.name for status in self.statuses if status.is_ready]

    def _backends(self) -> list[str]:
        names = max((len(status.name) for status in self.statuses), default=0)
        labels = max((len(status.label) for status in self.statuses), default=0)
        return [f"  {status.name:<{names}}  {status.label:<{labels}}  {status.text}" for status in self.statuses]

    def _first_steps(self, address: str) -> list[str]:
        model = self.model()
        body = f'{{"model": "{model}", "messages": [{{"role": "user", "content": "What can you do?"}}]}}'
        key = f' -H "authorization: Bearer {self.config.server.key_expression}"' if self.needs_key else ""
        return [
            "Try it:",
            *([f"  open {address} in a browser{self._on_the_page()}"] if self.config.web.enabled else []),
            *(["  tieline models                lists the names to use for <model>"] if "<model>" in model else []),
            f"  curl {address}/v1/chat/completions -H 'content-type: application/json'{key} -d '{body}'",
        ]

    def _on_the_page(self) -> str:
        """Return a hint for new users about the page.

        It is empty if the demo model is disabled, or if an upstream or Cursor is ready.
        """
        has_model = any(name in self.upstreams or name == "cursor" for name in self._ready_names())
        return "" if has_model or not self.config.demo else ", try the examples, and connect a model"

    def _clients(self, address: str) -> list[str]:
        model = f"'{self.model()}'" if "<" in self.model() else self.model()
        key = f'"{self.config.server.key_expression}"' if self.needs_key else "local"
        head = f"Connect a client ({'with the key of this gateway' if self.needs_key else 'any key will do'}):"
        claude = f"  Claude Code   ANTHROPIC_BASE_URL={address} ANTHROPIC_API_KEY={key} ANTHROPIC_MODEL={model}"
        if self._serves_claude():
            lines = [f"{claude} claude"]
        else:
            sizes = " ".join(f"ANTHROPIC_DEFAULT_{size}_MODEL={model}" for size in MODEL_SIZES)
            lines = [f"{claude} \\", f"                {sizes} claude"]
        return [
            head,
            "  Any client    tieline run claude; `tieline run` lists the others",
            *lines,
            f"  OpenAI SDKs   OPENAI_BASE_URL={address}/v1 OPENAI_API_KEY={key}, with the model {model}",
        ]

    def _serves_claude(self) -> bool:
        """Return whether all model names that Claude Code uses by default match an alias."""
        return all(any(fnmatchcase(name, alias) for alias in self.aliases) for name in CLAUDE_NAMES)
