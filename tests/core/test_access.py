"""Tests of limits on the models that a client may use."""

import pytest

from tests.core.test_routing import router
from tests.each import each
from tieline.core.legs.access import ModelAccess
from tieline.core.legs.routing import Router
from tieline.model.errors import GatewayError


def routes() -> Router:
    found = router(aliases={"fast": "here/small", "gpt-*": "there/*"})
    found.add_models(["here/small", "here/large", "there/big"])
    return found


def refused(name: str, access: ModelAccess) -> GatewayError:
    with pytest.raises(GatewayError) as caught:
        routes().find(name, access)
    return caught.value


@each(
    ("allowed", "name", "full"),
    [
        ((), "there/big", "there/big"),
        (("here/*",), "here/large", "here/large"),
        (("here/*",), "fast", "here/small"),
        (("fast",), "fast", "here/small"),
        (("gpt-*",), "gpt-9", "there/gpt-9"),
        (("here/small",), "small", "here/small"),
        (("here/small",), "here:small", "here/small"),
        (("other", "here/[sl]*"), "here/large", "here/large"),
        (("here/small",), "here/small?mode=plan", "here/small?mode=plan"),
    ],
)
def test_the_requested_or_the_full_name_matches_a_pattern(allowed: tuple[str, ...], name: str, full: str) -> None:
    route = routes().find(name, ModelAccess(allowed))
    assert f"{route.backend.name}/{route.model}" == full


@each(
    ("allowed", "name"),
    [
        (("here/*",), "there/big"),
        (("fast",), "here/large"),
        (("here/small",), "here/smaller"),
        (("*-mini",), "here/large?x=-mini"),
        (("HERE/*",), "here/small"),
        (("here/*",), "here/" + "x" * 300),
    ],
)
def test_any_other_model_is_refused_with_the_allowed_ones(allowed: tuple[str, ...], name: str) -> None:
    error = refused(name, ModelAccess(allowed))
    assert (error.status, error.param, error.code) == (403, "model", "model_not_allowed")
    assert error.message.endswith(f"It may use {', '.join(allowed)}.")
    assert len(error.message) < 300


@each("name", ["there/big", "there:big", "gpt-9", "big"])
def test_a_refused_backend_is_refused_by_every_name(name: str) -> None:
    assert refused(name, ModelAccess((), ("there",))).message == (
        f"This key may not use the model `{name}`. It may use all models except there/*."
    )
    assert refused(name, ModelAccess(("*",), ("there",))).message.endswith("It may use *, but not there/*.")


def test_an_unknown_name_reveals_no_other_models() -> None:
    assert refused("there/big", ModelAccess(("here/*",))).status == 403
    assert refused("nowhere", ModelAccess(("here/*",))).status == 403
    unknown = refused("nowhere/large", ModelAccess(("*large",)))
    assert unknown.status == 404
    assert unknown.message == "There is no model `nowhere/large` here. The closest names are: here/large."
    nothing = refused("nowhere/else", ModelAccess(("nowhere/*",)))
    assert nothing.message == "There is no model `nowhere/else` here. This key may use nowhere/*."
