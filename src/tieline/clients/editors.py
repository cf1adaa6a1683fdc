"""Settings for editors, which users have to enter themselves."""

import json

from tieline.clients.client import Connection
from tieline.clients.snippet import Snippet


def vscode(connection: Connection) -> Snippet:
    """Return the settings for Visual Studio Code."""
    model = {
        "id": connection.model,
        "name": connection.model,
        "url": f"{connection.api}/chat/completions",
        "toolCalling": True,
        "vision": False,
        "maxInputTokens": connection.context,
        "maxOutputTokens": connection.output,
    }
    group = {
        "name": "Tieline",
        "vendor": "customendpoint",
        "apiKey": connection.key,
        "apiType": "chat-completions",
        "models": [model],
    }
    return Snippet(
        id="vscode",
        title="VS Code",
        about="VS Code 1.122 or newer. Run “Chat: Manage Language Models”, add a “Custom Endpoint”, and enter the key. "
        "Then edit its entry in chatLanguageModels.json, which the gear icon opens. Keep the line apiKey that VS Code "
        "has written.",
        text=json.dumps([group], indent=2),
        language="json",
    )


def zed(connection: Connection) -> Snippet:
    """Return the settings for Zed."""
    model = {
        "name": connection.model,
        "display_name": connection.model,
        "max_tokens": connection.context,
        "max_output_tokens": connection.output,
        "capabilities": {"tools": True, "images": False, "parallel_tool_calls": True, "prompt_cache_key": False},
    }
    provider = {"Tieline": {"api_url": connection.api, "available_models": [model]}}
    return Snippet(
        id="zed",
        title="Zed",
        about=f"settings.json. Set the key in Zed's settings or in TIELINE_API_KEY: {connection.key}",
        text=json.dumps({"language_models": {"openai_compatible": provider}}, indent=2),
        language="json",
    )


def jetbrains(connection: Connection) -> Snippet:
    """Return the settings for JetBrains IDEs."""
    return Snippet(
        id="jetbrains",
        title="JetBrains IDEs",
        about="Settings → Tools → AI Assistant → Providers & API keys → Third-party AI providers. Test the connection, "
        "then choose the model for the features that shall use it.",
        text="\n".join(
            (
                "Provider:  OpenAI-compatible",
                f"URL:       {connection.api}",
                f"API Key:   {connection.key}",
                f"Model:     {connection.model}",
            )
        ),
        language="text",
    )


def cursor(connection: Connection) -> Snippet:
    """Return the settings for Cursor's editor."""
    return Snippet(
        id="cursor",
        title="Cursor (the editor)",
        about="Settings → Models → API Keys. Cursor's servers call this address, so it must be reachable from the "
        "internet; a local address does not work. Run `tieline tunnel`: it opens a public address, and prints what "
        "to enter instead of the following.",
        text="\n".join(
            (
                f"OpenAI API Key:            {connection.key}",
                f"Override OpenAI Base URL:  {connection.url}/cursor/v1",
                f"Add a custom model:        {connection.model}",
            )
        ),
        language="text",
    )
