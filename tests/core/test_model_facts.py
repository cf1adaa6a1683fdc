"""Which source of facts about a model takes precedence."""

from tests.each import each
from tieline.core.legs.model_facts import FactTable, ModelDescriptions
from tieline.model.ports import ModelFacts, ModelInfo

CONFIGURED = FactTable(
    {
        "local/*": ModelFacts(context=1_000, title="Any local"),
        "local/qwen*": ModelFacts(context=2_000, tools=True),
        "local/qwen-1": ModelFacts(context=3_000),
        "fast": ModelFacts(title="Fast"),
    }
)
FAMILIES = FactTable({"qwen*": ModelFacts(context=10, max_output=20, inputs=("text", "image"), efforts=("low",))})
DESCRIPTIONS = ModelDescriptions(CONFIGURED, FAMILIES, upstreams=["local", "hub"])

FOUND = [
    ("local/x", ModelFacts(title="Any local", context=1_000)),
    ("local/qwen-2", ModelFacts(title="Any local", context=1_000, tools=True)),
    ("local/qwen-1", ModelFacts(title="Any local", context=3_000, tools=True)),
    ("fast", ModelFacts(title="Fast")),
    ("faster", ModelFacts()),
]


@each(("name", "facts"), FOUND)
def test_an_exact_name_then_the_first_pattern_decides_each_fact(name: str, facts: ModelFacts) -> None:
    assert CONFIGURED.find(name) == facts


def test_the_configuration_goes_before_the_upstream_and_the_upstream_before_the_family() -> None:
    listed = ModelInfo(id="qwen-1", owner="local", context=5, max_output=6)
    assert DESCRIPTIONS.complete("local/qwen-1", listed) == ModelInfo(
        id="qwen-1",
        owner="local",
        title="Any local",
        context=3_000,
        max_output=6,
        inputs=("text", "image"),
        tools=True,
        efforts=("low",),
    )


def test_a_family_is_found_by_the_end_of_a_name_in_any_case() -> None:
    info = DESCRIPTIONS.complete("hub/Vendor/QWEN-9", ModelInfo(id="Vendor/QWEN-9", owner="hub"))
    assert (info.context, info.max_output) == (10, 20)


def test_a_backend_with_limits_of_its_own_gets_none_of_a_family() -> None:
    info = ModelInfo(id="qwen-1", owner="account")
    assert DESCRIPTIONS.complete("account/qwen-1", info) == info


def test_false_and_none_at_all_are_facts() -> None:
    configured = FactTable({"a": ModelFacts(tools=False, thinks=False, efforts=())})
    info = ModelInfo(id="a", tools=True, thinks=True, efforts=("high",))
    assert ModelDescriptions(configured).under("a", info) == ModelInfo(id="a", tools=False, thinks=False, efforts=())
