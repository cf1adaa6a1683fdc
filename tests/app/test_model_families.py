"""The table of well-known models."""

from tests.each import each
from tieline.app.build.model_families import FAMILIES
from tieline.core.legs.model_facts import FactTable
from tieline.model.ports import ModelFacts

TABLE = FactTable(FAMILIES)
LIMITS = [
    ("claude-sonnet-4-5-20250929", 200_000, 64_000),
    ("claude-opus-4.5", 200_000, 64_000),
    ("claude-opus-4-1", 200_000, 32_000),
    ("claude-opus-5-5", 1_000_000, 128_000),
    ("gpt-5", 272_000, 128_000),
    ("gpt-5-chat-latest", 128_000, 16_384),
    ("gpt-4.1-mini", 1_047_576, 32_768),
    ("gpt-4o-2024-11-20", 128_000, 16_384),
    ("o4-mini", 200_000, 100_000),
    ("gemini-2.5-pro", 1_048_576, 65_536),
    ("grok-4", 256_000, None),
]


@each(("name", "context", "max_output"), LIMITS)
def test_limits_of_hosted_models(name: str, context: int, max_output: int | None) -> None:
    found = TABLE.find(name)
    assert (found.context, found.max_output) == (context, max_output)


@each(
    "name",
    ["qwen3-coder-30b", "deepseek-r1", "llama-4-scout", "llama3.1:8b", "kimi-k2-instruct", "glm-4.6", "gpt-oss-20b"],
)
def test_open_weights_have_no_limits_because_their_server_decides(name: str) -> None:
    found = TABLE.find(name)
    assert (found.context, found.max_output) == (None, None)
    assert found.inputs is not None


@each(
    "name",
    ["gpt-4o-transcribe", "gpt-4o-audio-preview", "text-embedding-3-small", "qwen3-embedding-8b", "gpt-4-1106-preview"],
)
def test_other_models_with_a_similar_name_are_not_in_the_table(name: str) -> None:
    assert TABLE.find(name) == ModelFacts()


def test_a_chat_model_gets_no_efforts_of_its_reasoning_sibling() -> None:
    assert TABLE.find("gpt-5.2-chat-latest").efforts is None
    assert TABLE.find("gpt-5.2").efforts == ("none", "low", "medium", "high", "xhigh")
    assert TABLE.find("gpt-4o").efforts == ()
