"""Tests of model names and where they lead."""

from collections.abc import Sequence

import pytest

from tests.each import each
from tieline.core.legs.routing import MAX_CACHED_ROUTES, Router
from tieline.model.errors import GatewayError
from tieline.model.ports import Host, ModelInfo, Run
from tieline.model.request import Reasoning, Request


class Named:
    """A backend that has only a name."""

    is_agent = False
    reads_options = False
    obeys_limits = True

    def __init__(self, name: str) -> None:
        self.name = name

    async def models(self) -> Sequence[ModelInfo]:
        return []

    async def start(self, request: Request, host: Host) -> Run:
        raise AssertionError("routing starts nothing")

    async def count(self, request: Request) -> int | None:
        return None

    async def aclose(self) -> None:
        return


def router(**settings: object) -> Router:
    backends = {name: Named(name) for name in ("here", "there")}
    return Router(backends, **settings)  # type: ignore[arg-type] # the test's own keywords


def found(routes: Router, name: str) -> tuple[str, str]:
    backend, model, _ = routes.find(name)
    return backend.name, model


def test_a_full_name_leads_to_its_backend() -> None:
    assert found(router(), "here/some-model") == ("here", "some-model")


def test_a_model_name_may_hold_slashes() -> None:
    assert found(router(), "there/meta/llama-3:free") == ("there", "meta/llama-3:free")


def test_a_colon_does_as_well_as_a_slash() -> None:
    assert found(router(), "here:m") == ("here", "m")
    assert found(router(), "here/m:8b") == ("here", "m:8b")


def test_an_alias_stands_for_a_full_name() -> None:
    assert found(router(aliases={"fast": "there/small"}), "fast") == ("there", "small")


def test_a_pattern_with_a_star_keeps_the_name_that_was_asked_for() -> None:
    assert found(router(aliases={"gpt-*": "there/*"}), "gpt-4o-mini") == ("there", "gpt-4o-mini")


def test_an_exact_alias_goes_before_a_pattern() -> None:
    aliases = {"gpt-*": "there/*", "gpt-4o": "here/big"}
    assert found(router(aliases=aliases), "gpt-4o") == ("here", "big")


def test_a_bare_name_that_a_backend_lists_leads_there() -> None:
    routes = router(default="here/default")
    routes.add_models(["there/qwen"])
    assert found(routes, "qwen") == ("there", "qwen")


def test_an_unknown_bare_name_gets_the_default() -> None:
    assert found(router(default="here/default"), "gpt-99") == ("here", "default")


def test_an_unknown_backend_does_not_get_the_default() -> None:
    with pytest.raises(GatewayError) as caught:
        router(default="here/default").find("nowhere/gpt-99")
    assert (caught.value.kind, caught.value.status, caught.value.code) == ("not_found", 404, "model_not_found")


def test_a_default_that_passes_names_on_takes_names_with_a_slash_too() -> None:
    routes = router(default="here/*")
    assert found(routes, "meta-llama/llama-3") == ("here", "meta-llama/llama-3")
    assert found(routes, "there/m") == ("there", "m")


def test_a_request_without_a_name_gets_the_default_if_that_is_one_model() -> None:
    assert router(default="here/m").default_name() == "here/m"
    for default, words in ((None, "is not set"), ("here/*", "`here/*`, which needs a name")):
        with pytest.raises(GatewayError) as caught:
            router(default=default).default_name()
        assert (caught.value.status, caught.value.param) == (400, "model")
        assert words in caught.value.message


def test_a_pattern_with_one_target_gives_a_name_that_leads_there() -> None:
    routes = router(aliases={"claude-*": "here/qwen", "gpt-*": "there/*", "fast": "here/small", "q*": "here/qwen"})
    assert routes.alias_examples() == ["claude-qwen", "qwen"]
    assert [found(routes, name) for name in routes.alias_examples()] == [("here", "qwen")] * 2


def test_backends_that_could_not_list_their_models_are_named() -> None:
    routes = router()
    routes.add_models(["here/m"], unlisted=["there"])
    with pytest.raises(GatewayError, match=r"here/m \(the models of there could not be listed\)"):
        routes.find("x")


def test_an_unknown_name_is_told_the_three_closest() -> None:
    routes = router()
    routes.add_models(["here/sonnet-large", "here/sonnet-small", "here/sonnet-tiny", "there/zzz"])
    with pytest.raises(GatewayError) as caught:
        routes.find("here2/sonnet-smal")
    message = caught.value.message
    assert "here/sonnet-small" in message
    assert message.count("here/sonnet") == 3
    assert "zzz" not in message


@pytest.mark.parametrize("name", ["", "here", "here/", "/x"])
def test_half_a_name_is_no_name(name: str) -> None:
    with pytest.raises(GatewayError):
        router().find(name)


def test_what_a_name_led_to_is_looked_up_again_when_there_are_other_models_or_backends() -> None:
    first, second = Named("here"), Named("here")
    backends = {"here": first, "there": Named("there")}
    routes = Router(backends, default="there/*")
    assert routes.find("here/m").backend is first
    assert found(routes, "m") == ("there", "m")
    routes.add_models(["here/m"])
    assert found(routes, "m") == ("here", "m")
    backends["here"] = second
    routes.clear_cache()
    assert routes.find("here/m").backend is second


def test_no_more_names_are_remembered_than_may_be_and_all_of_them_are_found() -> None:
    routes = router(default="there/*")
    for number in range(MAX_CACHED_ROUTES + 2):
        assert found(routes, f"m{number}") == ("there", f"m{number}")
    assert found(routes, f"m{MAX_CACHED_ROUTES + 1}") == ("there", f"m{MAX_CACHED_ROUTES + 1}")


# ── Variants ─────────────────────────────────────────────────────────────────────────────────────


def meaning(name: str, **settings: object) -> tuple[str, Reasoning | None]:
    """The model a name leads to, and what its suffixes say about thinking."""
    routes = router(aliases={"deep": "here/d", "tl-fast": "there/f", "x-thinking": "there/x"}, **settings)
    routes.add_models(["here/gpt-5", "here/codex-max", "here/codex", "there/pro-high"])
    backend, model, variant = routes.find(name)
    return f"{backend.name}/{model}", variant.reasoning if variant is not None else None


@each(
    ("name", "model", "reasoning"),
    [
        ("deep", "here/d", None),
        ("deep-fast", "here/d", None),
        ("deep-thinking", "here/d", Reasoning(mode="adaptive")),
        ("deep-thinking-fast", "here/d", Reasoning(mode="adaptive")),
        ("deep-thinking-high", "here/d", Reasoning(mode="adaptive", effort="high")),
        ("deep-thinking-none", "here/d", Reasoning(effort="none")),
        ("deep-thinking-minimal-fast", "here/d", Reasoning(mode="adaptive", effort="minimal")),
        ("deep-xhigh", "here/d", Reasoning(effort="xhigh")),
        ("deep-high-thinking", "here/d", Reasoning(mode="adaptive", effort="high")),
        ("gpt-5-low", "here/gpt-5", Reasoning(effort="low")),
        ("here/gpt-5-low", "here/gpt-5", Reasoning(effort="low")),
        ("pro-high", "there/pro-high", None),
        ("there/pro-high-thinking", "there/pro-high", Reasoning(mode="adaptive")),
        ("codex-max", "here/codex-max", None),
        ("codex-medium", "here/codex", Reasoning(effort="medium")),
        ("tl-fast", "there/f", None),
        ("tl-fast-thinking-xhigh-fast", "there/f", Reasoning(mode="adaptive", effort="xhigh")),
        ("x-thinking-high", "there/x", Reasoning(effort="high")),
    ],
)
def test_k10_k17_suffixes_of_a_served_name_choose_its_thinking(
    name: str, model: str, reasoning: Reasoning | None
) -> None:
    assert meaning(name) == (model, reasoning)


def test_a_fixed_default_does_not_take_the_variants_of_a_served_name() -> None:
    assert meaning("deep-thinking-high", default="there/other")[0] == "here/d"
    assert meaning("deeper-thinking-high", default="there/other") == ("there/other", None)


def test_a_backend_that_parses_names_gets_the_suffixes_of_its_full_names() -> None:
    routes = router(aliases={"deep": "here/d"})
    routes.add_models(["here/d"])
    routes.backends["here"].reads_options = True  # type: ignore[misc]  # the backend is the test's own
    assert found(routes, "here/d-fast") == ("here", "d-fast")
    assert found(routes, "deep-fast") == ("here", "d")


@each("name", ["unknown-thinking-high", "deep-thinking-very", "deep-slow", "-fast", "deep-fast-fast"])
def test_suffixes_of_other_names_are_part_of_the_name(name: str) -> None:
    with pytest.raises(GatewayError, match="There is no model"):
        meaning(name)


# ── Backends that change ─────────────────────────────────────────────────────────────────────────


def test_a_backend_that_is_removed_takes_its_names_along() -> None:
    backends = {name: Named(name) for name in ("here", "there")}
    routes = Router(backends, aliases={"short": "there/m"}, default="here/d")
    routes.add_models(["here/a", "there/b"])
    assert found(routes, "b") == ("there", "b")
    del backends["there"]
    routes.update(aliases={}, default=None)
    for name in ("b", "there/b", "short", "anything"):
        with pytest.raises(GatewayError) as caught:
            routes.find(name)
        assert "closest names are: here/a." in caught.value.message
    assert found(routes, "a") == ("here", "a")


def test_models_that_were_listed_before_their_backend_was_removed_are_not_added() -> None:
    backends = {name: Named(name) for name in ("here", "there")}
    routes = Router(backends)
    del backends["there"]
    routes.add_models(["here/a", "there/b"])
    with pytest.raises(GatewayError) as caught:
        routes.find("b")
    assert "there/b" not in caught.value.message


def test_a_backend_that_is_added_is_found_and_may_be_the_default() -> None:
    backends = {"here": Named("here")}
    routes = Router(backends, default="here/d")
    assert found(routes, "new") == ("here", "d")
    backends["there"] = Named("there")
    routes.update(aliases={"new": "there/n"}, default="there/d")
    assert found(routes, "new") == ("there", "n")
    assert found(routes, "other") == ("there", "d")
