"""What the demo model says when it is asked for something that takes a real model or another setting: what to do."""

import re

TOOLS = (
    "Start the gateway with `tieline serve --tools` in the folder of your project (or name it: `--workspace DIR`). "
    "Models can then list, read and search files there; before they change a file or run a command you are asked, on "
    "this page or with `tieline inbox watch`."
)
MODELS = (
    "Any of these gives you one:\n\n"
    "- a key in the environment before `tieline serve`: `ANTHROPIC_API_KEY` or `OPENAI_API_KEY`\n"
    "- an OpenAI-like or Anthropic server of your own, as `[upstreams.<name>]` in `~/.config/tieline/tieline.toml`\n"
    "- a Cursor account: `tieline login cursor`\n"
    "- a coding agent on this machine: `tieline agents` lists them\n\n"
    "Then choose it beside the message box; the page Connect shows how each of them stands."
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
    """For a question about a project that cannot be seen."""
    return f"I cannot see your project: this request came without tools. {TOOLS}"


def find(words: str, *, has_shell: bool) -> str | None:
    """What to do to get what the words ask for; None if that is none of these things."""
    words = words.strip()
    if _CONNECT.fullmatch(words):
        return MODELS
    if _ENABLE.fullmatch(words):
        return TOOLS
    if _FIX.fullmatch(words):
        can = "I can run your tests: say `run: pytest`, or whatever runs them." if has_shell else TOOLS
        return f"Finding the reason takes a real model, which I am not. {can}\n\n{MODELS}"
    if _PLAN.fullmatch(words):
        return (
            "Making a plan takes a real model, which I am not. With the gateway's tools on, choose the mode `plan` "
            f"beside the model: it may then read, but changes nothing before you have approved its plan.\n\n{MODELS}"
        )
    return None
