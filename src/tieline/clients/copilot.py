"""GitHub Copilot CLI."""

from tieline.clients.client import Client, Connection, Headless, Recipe


def _launch(connection: Connection, _folder: str) -> Recipe:
    env = {
        "COPILOT_PROVIDER_TYPE": "openai",
        "COPILOT_PROVIDER_BASE_URL": connection.api,
        "COPILOT_PROVIDER_API_KEY": connection.key,
        "COPILOT_PROVIDER_WIRE_API": "completions",
        "COPILOT_MODEL": connection.model,
        "COPILOT_PROVIDER_WIRE_MODEL": connection.model,
    }
    facts = connection.facts
    if facts.context:
        env["COPILOT_PROVIDER_MAX_PROMPT_TOKENS"] = str(facts.context)
    if facts.max_output:
        env["COPILOT_PROVIDER_MAX_OUTPUT_TOKENS"] = str(facts.max_output)
    return Recipe(env=env, unset=("COPILOT_PROVIDER_*", "COPILOT_AUTO_TIER"))


def _headless(prompt: str) -> Headless:
    return Headless(
        arguments=("--prompt", prompt, "--allow-all-tools", "--no-color"),
        env={"COPILOT_OFFLINE": "true", "COPILOT_AUTO_UPDATE": "false"},
    )


COPILOT = Client(
    id="copilot",
    title="GitHub Copilot CLI",
    programs=("copilot",),
    install="npm install -g @github/copilot",
    protocol="chat",
    launch=_launch,
    headless=_headless,
    is_set_in_shell=True,
    about="No GitHub login is needed. Add COPILOT_OFFLINE=true to keep it from contacting GitHub at all.",
    traces="its sessions and logs below ~/.copilot",
)
