"""Render the list of models that Codex reads.

Codex rejects the whole list if one entry lacks a required member or contains an unknown enum value. The required
members differ between versions of Codex. So every entry has all members. If a fact about a model is unknown, its member
has a value that is safe for Codex.
"""

from collections.abc import Mapping, Sequence

from tieline.model.ports import ModelInfo

DEFAULT_CONTEXT = 128_000
"""The context window, in tokens, to report if it is unknown. Without a value, Codex would never shorten a
conversation."""
OUTPUT_LIMIT = 10_000
"""Maximum number of tokens of a tool's output that Codex keeps."""
INSTRUCTIONS = (
    "You are a coding agent that runs in the user's terminal. Use the tools to read files, run commands and change"
    " code in the working directory. Read the relevant code before you change it, keep changes small, and follow the"
    " style of the surrounding code and the instructions of the repository. Run the tests or the program to verify"
    " your work. Continue until the task is done, then tell the user briefly what you did and what remains."
)
_EFFORTS = {
    "none": "No reasoning",
    "minimal": "As little reasoning as possible",
    "low": "Fast answers with little reasoning",
    "medium": "A balance of speed and depth",
    "high": "More reasoning for hard problems",
    "xhigh": "The most reasoning, for the hardest problems",
}
"""The reasoning efforts that all versions of Codex accept, with descriptions. Some versions do not accept `max`."""


def codex_entries(models: Mapping[str, ModelInfo]) -> list[dict[str, object]]:
    """Return one entry per model for Codex's list, in the order of `models`."""
    return [_entry(name, info, priority) for priority, (name, info) in enumerate(models.items(), 1)]


def _entry(name: str, info: ModelInfo, priority: int) -> dict[str, object]:
    has_tools = info.tools is not False
    efforts = [effort for effort in info.efforts or () if effort in _EFFORTS]
    context = info.context or DEFAULT_CONTEXT
    return {
        "slug": name,
        "display_name": info.title or name,
        "description": None,
        "default_reasoning_level": _default(efforts),
        "supported_reasoning_levels": [{"effort": effort, "description": _EFFORTS[effort]} for effort in efforts],
        "shell_type": "default" if has_tools else "disabled",
        "visibility": "list",
        "supported_in_api": True,
        "priority": priority,
        "availability_nux": None,
        "upgrade": None,
        "base_instructions": INSTRUCTIONS,
        "supports_reasoning_summaries": bool(info.thinks),
        "support_verbosity": False,
        "default_verbosity": None,
        "apply_patch_tool_type": "freeform" if has_tools else None,
        "truncation_policy": {"mode": "tokens", "limit": OUTPUT_LIMIT},
        "supports_parallel_tool_calls": has_tools,
        "context_window": context,
        "max_context_window": context,
        "experimental_supported_tools": [],
        # If a conversation contains an image that the model cannot read, all later requests in it fail.
        "input_modalities": ["text", "image"] if "image" in (info.inputs or ()) else ["text"],
    }


def _default(efforts: Sequence[str]) -> str | None:
    return "medium" if "medium" in efforts else efforts[0] if efforts else None
