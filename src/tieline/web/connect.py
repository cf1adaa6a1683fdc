"""The content of the Connect page: the state of backends, and client settings with the gateway's URL and a model."""

import json
from collections.abc import Sequence
from typing import Any

from tieline.model.content import Value
from tieline.web.gateway_info import GatewayInfo, LoginState

ANY_KEY = "local"
OWN_KEY = "<your gateway key>"
DEMO = "demo/scripted"
NO_MODEL = "<backend>/<model>"
CLAUDE_SIZES = ("OPUS", "SONNET", "HAIKU")
"""Claude Code's model sizes. Claude Code selects a model by size for /model, subagents and background requests."""
CONTEXT = 128_000
OUTPUT = 8192


class Snippet(Value, omit_defaults=False):
    """The settings that connect one client to the gateway, to be copied by the user. `language` names their format."""

    id: str
    title: str
    about: str
    text: str
    language: str = "sh"


def connection(info: GatewayInfo, address: str, models: Sequence[str], *, needs_key: bool) -> dict[str, Any]:
    """Return the content of the Connect page as JSON values. `address` is the URL of the gateway."""
    login = LoginState(state="off", is_offered=False) if info.login is None else info.login.state()
    return {
        "address": address,
        "key_needed": needs_key,
        "backends": info.backends(),
        "agents": info.agents(),
        "snippets": snippets(address, choose_model(info.default_model, models), OWN_KEY if needs_key else ANY_KEY),
        "cursor": login,
    }


def choose_model(default: str | None, models: Sequence[str]) -> str:
    """Return the model to use in client settings.

    This is the default model; if there is none, the first model other than the demo model; else the demo model.
    """
    if default is not None and "*" not in default:
        return default
    real = next((model for model in models if model != DEMO), None)
    return real or (DEMO if DEMO in models else NO_MODEL)


def snippets(address: str, model: str, key: str) -> list[Snippet]:
    """Return the settings for every known client, with this address, model and key."""
    return [
        Snippet(
            id="opencode",
            title="OpenCode",
            about="opencode.json in the project, or ~/.config/opencode/opencode.json",
            text=_opencode(address, model, key),
            language="json",
        ),
        Snippet(
            id="claude-code",
            title="Claude Code",
            about="In the shell that starts it. The address has no /v1 at the end.",
            text="\n".join(
                (
                    f"export ANTHROPIC_BASE_URL={address}",
                    f"export ANTHROPIC_API_KEY={_quoted(key)}",
                    f"export ANTHROPIC_MODEL={_quoted(model)}",
                    *(f"export ANTHROPIC_DEFAULT_{size}_MODEL={_quoted(model)}" for size in CLAUDE_SIZES),
                    "claude",
                )
            ),
        ),
        Snippet(
            id="codex",
            title="Codex",
            about="~/.codex/config.toml",
            text=_codex(address, model, key),
            language="toml",
        ),
        Snippet(
            id="cursor",
            title="Cursor (the editor)",
            about="Settings → Models → API Keys. Cursor's servers call this address, so it must be reachable from the "
            "internet; a local address does not work. Run `tieline tunnel`: it opens a public address, and prints what "
            "to enter instead of the following.",
            text="\n".join(
                (
                    f"OpenAI API Key:            {key}",
                    f"Override OpenAI Base URL:  {address}/cursor/v1",
                    f"Add a custom model:        {model}",
                )
            ),
            language="text",
        ),
        Snippet(
            id="aider",
            title="aider",
            about="aider uses no tools: it saves the files it finds in the answer.",
            text=f"OPENAI_API_BASE={address}/v1 OPENAI_API_KEY={_quoted(key)} \\\n"
            f"  aider --model {_quoted(f'openai/{model}')} --no-show-model-warnings",
        ),
        Snippet(
            id="zed",
            title="Zed",
            about=f"settings.json. Set the key in Zed's settings or in TIELINE_API_KEY: {key}",
            text=_zed(address, model),
            language="json",
        ),
        Snippet(
            id="openai-python",
            title="OpenAI SDK",
            about="Python. Other languages use the same two settings.",
            text=_OPENAI.format(address=address, model=model, key=key),
            language="python",
        ),
        Snippet(
            id="anthropic-python",
            title="Anthropic SDK",
            about="Python. The address has no /v1 at the end.",
            text=_ANTHROPIC.format(address=address, model=model, key=key),
            language="python",
        ),
        Snippet(id="curl", title="curl", about="A quick test.", text=_curl(address, model, key)),
    ]


_OPENAI = """\
from openai import OpenAI

client = OpenAI(base_url="{address}/v1", api_key="{key}")
reply = client.chat.completions.create(model="{model}", messages=[{{"role": "user", "content": "say hello"}}])
print(reply.choices[0].message.content)"""

_ANTHROPIC = """\
from anthropic import Anthropic

client = Anthropic(base_url="{address}", api_key="{key}")
reply = client.messages.create(
    model="{model}", max_tokens=1000, messages=[{{"role": "user", "content": "say hello"}}]
)
print(reply.content[0].text)"""


def _opencode(address: str, model: str, key: str) -> str:
    shown = {"name": model.rpartition("/")[2], "tool_call": True, "limit": {"context": CONTEXT, "output": OUTPUT}}
    settings = {
        "$schema": "https://opencode.ai/config.json",
        "provider": {
            "tieline": {
                "npm": "@ai-sdk/openai-compatible",
                "name": "Tieline",
                "options": {"baseURL": f"{address}/v1", "apiKey": key},
                "models": {model: shown},
            }
        },
        "model": f"tieline/{model}",
        "small_model": f"tieline/{model}",
    }
    return json.dumps(settings, indent=2)


def _codex(address: str, model: str, key: str) -> str:
    return f"""model = {_toml(model)}
model_provider = "tieline"

[model_providers.tieline]
name = "Tieline"
base_url = {_toml(f"{address}/v1")}
wire_api = "responses"
supports_websockets = true

[model_providers.tieline.auth]
command = "echo"
args = [{_toml(key)}]"""


def _toml(text: str) -> str:
    """Return the text as a TOML string. TOML uses the same escape sequences as JSON."""
    return json.dumps(text)


def _zed(address: str, model: str) -> str:
    shown = {
        "name": model,
        "display_name": model,
        "max_tokens": CONTEXT,
        "capabilities": {"tools": True, "images": False, "parallel_tool_calls": True, "prompt_cache_key": False},
    }
    provider = {"Tieline": {"api_url": f"{address}/v1", "available_models": [shown]}}
    return json.dumps({"language_models": {"openai_compatible": provider}}, indent=2)


def _curl(address: str, model: str, key: str) -> str:
    body = json.dumps({"model": model, "messages": [{"role": "user", "content": "What can you do?"}]})
    sent = "" if key == ANY_KEY else f" \\\n  -H {_quoted(f'authorization: Bearer {key}')}"
    return f"curl {address}/v1/chat/completions -H 'content-type: application/json'{sent} \\\n  -d {_quoted(body)}"


def _quoted(text: str) -> str:
    """Return the text quoted for a shell, if necessary."""
    is_plain = all(character.isalnum() or character in "-._/:@" for character in text)
    return text if is_plain and text else "'" + text.replace("'", "'\\''") + "'"
