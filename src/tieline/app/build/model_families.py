"""Publicly known facts about well-known model families, for upstreams that do not report them.

The table is deliberately small: a wrong limit is worse than a missing one, because clients rely on limits when they
shorten conversations. Where vendors offer different limits, the table contains the smaller one. Models with open
weights have no limits here: the server that runs them decides. `[models."NAME"]` in the configuration overrides every
entry.
"""

from collections.abc import Mapping

from tieline.model.ports import Input, ModelFacts
from tieline.model.request import Effort

CHECKED = "2026-11-17"
"""The date on which the entries were last compared with public sources."""

_TEXT: tuple[Input, ...] = ("text",)
_IMAGES: tuple[Input, ...] = ("text", "image")
_FILES: tuple[Input, ...] = ("text", "image", "file")
_MEDIA: tuple[Input, ...] = ("text", "image", "file", "audio", "video")

_UP_TO_HIGH: tuple[Effort, ...] = ("low", "medium", "high")
_UP_TO_MAX: tuple[Effort, ...] = ("low", "medium", "high", "xhigh", "max")


def _model(
    context: int | None,
    max_output: int | None,
    inputs: tuple[Input, ...],
    *,
    tools: bool | None = True,
    thinks: bool | None = None,
    efforts: tuple[Effort, ...] | None = None,
) -> ModelFacts:
    return ModelFacts(
        context=context,
        max_output=max_output,
        inputs=inputs,
        tools=tools,
        thinks=True if efforts else thinks,
        efforts=() if thinks is False else efforts,
    )


def _open(
    inputs: tuple[Input, ...] = _TEXT, *, thinks: bool | None = None, efforts: tuple[Effort, ...] | None = None
) -> ModelFacts:
    return _model(None, None, inputs, thinks=thinks, efforts=efforts)


_CLAUDE = {
    "claude-3-5-*": _model(200_000, 8_192, _IMAGES, thinks=False),
    "claude-3-7-sonnet*": _model(200_000, 64_000, _FILES, thinks=True),
    "claude-3-haiku*": _model(200_000, 4_096, _IMAGES, thinks=False),
    "claude-3-opus*": _model(200_000, 4_096, _IMAGES, thinks=False),
    "claude-opus-4-0*": _model(200_000, 32_000, _FILES, thinks=True),
    "claude-opus-4-1*": _model(200_000, 32_000, _FILES, thinks=True),
    "claude-opus-4-2025*": _model(200_000, 32_000, _FILES, thinks=True),
    "claude-opus-4[-.]5*": _model(200_000, 64_000, _FILES, efforts=_UP_TO_HIGH),
    "claude-opus-4[-.]6*": _model(200_000, 128_000, _FILES, efforts=(*_UP_TO_HIGH, "max")),
    "claude-opus-4[-.][78]*": _model(1_000_000, 128_000, _FILES, efforts=_UP_TO_MAX),
    "claude-opus-5*": _model(1_000_000, 128_000, _FILES, efforts=_UP_TO_MAX),
    "claude-sonnet-4-0*": _model(200_000, 64_000, _FILES, thinks=True),
    "claude-sonnet-4-2025*": _model(200_000, 64_000, _FILES, thinks=True),
    "claude-sonnet-4[-.]5*": _model(200_000, 64_000, _FILES, thinks=True),
    "claude-sonnet-4[-.]6*": _model(200_000, 64_000, _FILES, efforts=(*_UP_TO_HIGH, "max")),
    "claude-sonnet-5*": _model(1_000_000, 128_000, _FILES, efforts=_UP_TO_MAX),
    "claude-haiku-4[-.]5*": _model(200_000, 64_000, _FILES, thinks=True),
    "claude-haiku-5*": _model(1_000_000, 128_000, _FILES, thinks=True),
    "claude-fable-5*": _model(1_000_000, 128_000, _FILES, thinks=True),
    "claude-*": _model(None, None, _IMAGES),
}

# The first GPT-5 models have a context of 400,000 tokens, of which a prompt may use 272,000. Later ones accept longer
# prompts at a higher price.
_GPT = {
    "gpt-5*-chat*": _model(128_000, 16_384, _IMAGES, tools=None),
    "gpt-5": _model(272_000, 128_000, _IMAGES, efforts=("minimal", *_UP_TO_HIGH)),
    "gpt-5-2025*": _model(272_000, 128_000, _IMAGES, efforts=("minimal", *_UP_TO_HIGH)),
    "gpt-5-mini*": _model(272_000, 128_000, _IMAGES, efforts=("minimal", *_UP_TO_HIGH)),
    "gpt-5-nano*": _model(272_000, 128_000, _IMAGES, efforts=("minimal", *_UP_TO_HIGH)),
    "gpt-5-codex*": _model(272_000, 128_000, _IMAGES, efforts=_UP_TO_HIGH),
    "gpt-5.1": _model(272_000, 128_000, _IMAGES, efforts=("none", *_UP_TO_HIGH)),
    "gpt-5.1-2025*": _model(272_000, 128_000, _IMAGES, efforts=("none", *_UP_TO_HIGH)),
    "gpt-5.1-codex*": _model(272_000, 128_000, _IMAGES, efforts=_UP_TO_HIGH),
    "gpt-5.2": _model(272_000, 128_000, _IMAGES, efforts=("none", *_UP_TO_HIGH, "xhigh")),
    "gpt-5.2-2025*": _model(272_000, 128_000, _IMAGES, efforts=("none", *_UP_TO_HIGH, "xhigh")),
    "gpt-5.[2-4]-codex*": _model(272_000, 128_000, _IMAGES, efforts=(*_UP_TO_HIGH, "xhigh")),
    "gpt-5.[456]": _model(272_000, 128_000, _IMAGES, efforts=(*_UP_TO_HIGH, "xhigh")),
    "gpt-5.[456]-2026*": _model(272_000, 128_000, _IMAGES, efforts=(*_UP_TO_HIGH, "xhigh")),
    "gpt-5.6-*": _model(272_000, 128_000, _IMAGES, efforts=(*_UP_TO_HIGH, "xhigh")),
    "gpt-4.1*": _model(1_047_576, 32_768, _IMAGES, thinks=False),
    "gpt-4o": _model(128_000, 16_384, _IMAGES, thinks=False),
    "gpt-4o-202[45]*": _model(128_000, 16_384, _IMAGES, thinks=False),
    "gpt-4o-mini": _model(128_000, 16_384, _IMAGES, thinks=False),
    "gpt-4o-mini-202[45]*": _model(128_000, 16_384, _IMAGES, thinks=False),
    "gpt-4-turbo*": _model(128_000, 4_096, _IMAGES, thinks=False),
    "gpt-3.5-turbo": _model(16_385, 4_096, _TEXT, thinks=False),
    "o1": _model(200_000, 100_000, _IMAGES, efforts=_UP_TO_HIGH),
    "o3": _model(200_000, 100_000, _IMAGES, efforts=_UP_TO_HIGH),
    "o3-mini*": _model(200_000, 100_000, _TEXT, efforts=_UP_TO_HIGH),
    "o4-mini": _model(200_000, 100_000, _IMAGES, efforts=_UP_TO_HIGH),
    "gpt-oss*": _open(efforts=_UP_TO_HIGH),
}

_GEMINI = {
    "gemini-2.0-flash": _model(1_048_576, 8_192, _MEDIA, thinks=False),
    "gemini-2.0-flash-001": _model(1_048_576, 8_192, _MEDIA, thinks=False),
    "gemini-2.5-pro": _model(1_048_576, 65_536, _MEDIA, thinks=True),
    "gemini-2.5-flash": _model(1_048_576, 65_536, _MEDIA, thinks=True),
    "gemini-2.5-flash-lite": _model(1_048_576, 65_536, _MEDIA, thinks=True),
    "gemini-3-pro-preview": _model(1_048_576, 65_536, _MEDIA, thinks=True),
    "gemini-3-flash-preview": _model(1_048_576, 65_536, _MEDIA, thinks=True),
    "gemini-3.1-pro-preview": _model(1_048_576, 65_536, _MEDIA, thinks=True),
}

_GROK = {
    "grok-3": _model(131_072, None, _TEXT, thinks=False),
    "grok-3-mini*": _model(131_072, None, _TEXT, efforts=("low", "high")),
    "grok-4": _model(256_000, None, _IMAGES, thinks=True),
    "grok-4-0709": _model(256_000, None, _IMAGES, thinks=True),
    "grok-4-fast*": _model(2_000_000, None, _IMAGES),
    "grok-4-1-fast*": _model(2_000_000, None, _IMAGES),
    "grok-4.5": _model(500_000, None, _IMAGES, efforts=_UP_TO_HIGH),
    "grok-code-fast-1": _model(256_000, None, _TEXT, thinks=True),
}

_OPEN_WEIGHTS = {
    "deepseek-chat": _open(),
    "deepseek-reasoner": _open(thinks=True),
    "deepseek-r1*": _model(None, None, _TEXT, tools=None, thinks=True),
    "deepseek-v3*": _open(),
    "glm-4.[567]": _open(thinks=True),
    "glm-4.5-air*": _open(thinks=True),
    "glm-4.[56]v*": _open(_IMAGES),
    "glm-5": _open(thinks=True),
    "kimi-k2-thinking*": _open(thinks=True),
    "kimi-k2-*": _open(),
    "llama-3.[13]-*instruct*": _open(thinks=False),
    "llama3.[13]*": _open(thinks=False),
    "llama-4-*": _open(_IMAGES, thinks=False),
    "llama4*": _open(_IMAGES, thinks=False),
    "qwen2.5-coder*": _open(thinks=False),
    "qwen2.5-vl*": _model(None, None, _IMAGES, tools=None, thinks=False),
    "qwen3-coder*": _open(thinks=False),
    "qwen3-vl*": _open(_IMAGES),
    "qwen3-[0-9]*": _open(),
    "qwen3:*": _open(),
    "qwq*": _open(thinks=True),
}

FAMILIES: Mapping[str, ModelFacts] = {**_CLAUDE, **_GPT, **_GEMINI, **_GROK, **_OPEN_WEIGHTS}
"""Facts about models, by name pattern. Patterns are in lower case, without any prefix that ends with a slash."""
