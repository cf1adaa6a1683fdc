"""The providers that the web page offers when the user adds an upstream."""

from tieline.web.setup_info import ProviderPreset

PRESETS = (
    ProviderPreset(
        id="anthropic",
        title="Anthropic",
        kind="anthropic",
        base_url="https://api.anthropic.com",
        key_page="https://console.anthropic.com/settings/keys",
    ),
    ProviderPreset(
        id="openai",
        title="OpenAI",
        kind="openai",
        base_url="https://api.openai.com/v1",
        key_page="https://platform.openai.com/api-keys",
        api="auto",
    ),
    ProviderPreset(
        id="openrouter",
        title="OpenRouter",
        kind="openai",
        base_url="https://openrouter.ai/api/v1",
        key_page="https://openrouter.ai/keys",
    ),
    ProviderPreset(
        id="deepseek",
        title="DeepSeek",
        kind="openai",
        base_url="https://api.deepseek.com/v1",
        key_page="https://platform.deepseek.com/api_keys",
        dialect={"replay_reasoning": True},
    ),
    ProviderPreset(
        id="ollama",
        title="Ollama (on this machine)",
        kind="openai",
        base_url="http://127.0.0.1:11434/v1",
        key="optional",
    ),
    ProviderPreset(
        id="vllm", title="vLLM (on this machine)", kind="openai", base_url="http://127.0.0.1:8000/v1", key="optional"
    ),
    ProviderPreset(
        id="lmstudio",
        title="LM Studio (on this machine)",
        kind="openai",
        base_url="http://127.0.0.1:1234/v1",
        key="optional",
    ),
    ProviderPreset(id="openai-like", title="Other server with OpenAI's API", kind="openai", name="", key="optional"),
    ProviderPreset(
        id="anthropic-like", title="Other server with Anthropic's API", kind="anthropic", name="", key="optional"
    ),
)
"""The providers, in the order in which the page lists them."""


def preset(provider: str) -> ProviderPreset | None:
    """Return the preset with this id, or None."""
    return next((one for one in PRESETS if one.id == provider), None)
