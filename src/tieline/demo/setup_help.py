"""The demo model's answers to requests that need a real model or other settings. They tell the user what to do."""

import re

TOOLS = (
    "Start the gateway with `tieline serve --tools` in your project folder, or pass `--workspace DIR`. Models can then "
    "list, read and search the files there. They ask you before they change a file or run a command: on this page, "
    "or in a terminal with `tieline inbox watch`."
)
MODELS = (
    "You can connect a real model in any of these ways:\n\n"
    "- Open the gateway's page in a browser, choose Connect, and add a model with its key.\n"
    "- Set `ANTHROPIC_API_KEY` or `OPENAI_API_KEY` before you run `tieline serve`.\n"
    "- Add your own OpenAI-like or Anthropic-like server as `[upstreams.<name>]` in "
    "`~/.config/tieline/tieline.toml`.\n"
    "- Log in to a Cursor account with `tieline login cursor`.\n"
    "- Use a coding agent on this machine: `tieline agents` lists them.\n\n"
    "Then choose the model next to the message box."
)

_ASIDE = r"(?:please |can you |could you |how (?:do|can) (?:i|we) )*"
_CONNECT = re.compile(
    rf"{_ASIDE}(?:connect|use|add|get) (?:to )?(?:a|another|my own|some) (?:real )?models?[.?!]*", re.IGNORECASE
)
_ENABLE = re.compile(
    rf"{_ASIDE}(?:let|allow) (?:the )?models?(?: to)? (?:read|see|change|edit|use)\b.{{0,60}}"
    rf"|{_ASIDE}(?:turn|switch) (?:the )?tools on[.?!]*|{_ASIDE}(?:enable|use) (?:the )?tools[.?!]*",
    re.IGNORECASE,
)
_FIX = re.compile(r"(?:please )?find out why (?:a|the|my) tests? fails?\b.{0,60}", re.IGNORECASE)
_PLAN = re.compile(
    r"(?:please )?(?:make a |first )?plan\b.{0,40}\bbefore (?:you )?chang(?:e|ing) anything[.!]*", re.IGNORECASE
)


def about_project() -> str:
    """Return the answer to a question about the user's project, for a client that offers no tools."""
    return f"I cannot see your project, because this request offers no tools. {TOOLS}"


def find(words: str, *, has_shell: bool) -> str | None:
    """Return setup instructions if the user's request needs a real model or a change of settings, otherwise None.

    `has_shell` says whether the client offers a tool that runs commands.
    """
    words = words.strip()
    if _CONNECT.fullmatch(words):
        return MODELS
    if _ENABLE.fullmatch(words):
        return TOOLS
    if _FIX.fullmatch(words):
        can = "I can run the tests for you: say `run: pytest`, or the command you use." if has_shell else TOOLS
        return f"Finding the cause takes a real model; I am only a demo. {can}\n\n{MODELS}"
    if _PLAN.fullmatch(words):
        return (
            "Making a plan takes a real model; I am only a demo. If the gateway's tools are on, choose the mode `plan` "
            f"next to the model. It can then read files, but changes nothing until you approve its plan.\n\n{MODELS}"
        )
    return None
