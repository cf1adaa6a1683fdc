"""Tests of who may ask: host names, web pages, keys."""

import pytest

from tieline.frontends.guard import AccessRules, Guard
from tieline.frontends.http import AsgiCycle, Exchange
from tieline.model.errors import GatewayError


def exchange(**headers: str) -> Exchange:
    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]

    async def nothing(*_: object) -> dict[str, object]:
        raise AssertionError("the guard reads only the head")

    scope = {"method": "POST", "path": "/", "headers": pairs}
    return Exchange(AsgiCycle(scope, nothing, nothing), 1024)  # type: ignore[arg-type] # it is never called


@pytest.mark.parametrize(
    "host", ["127.0.0.1:18741", "localhost", "LOCALHOST:1", "[::1]:80", "127.8.8.8", "a.localhost"]
)
def test_names_of_this_machine_are_served(host: str) -> None:
    Guard().check(exchange(host=host), AccessRules())


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "", "127.0.0.1.evil.example:18741"])
def test_a_name_pointed_at_this_machine_is_refused(host: str) -> None:
    """DNS rebinding: the page of another site may resolve its own name to 127.0.0.1."""
    with pytest.raises(GatewayError) as caught:
        Guard().check(exchange(host=host), AccessRules())
    assert caught.value.status == 403


@pytest.mark.parametrize("host", ["[evil", "[::ffff:evil]", "evil]", "[]", "a:b:c", "\\"])
def test_a_host_that_is_none_is_refused(host: str) -> None:
    with pytest.raises(GatewayError) as caught:
        Guard().check(exchange(host=host), AccessRules())
    assert caught.value.status == 403


@pytest.mark.parametrize("origin", ["http://[evil", "http://[::ffff:evil]", "[", "http://"])
def test_an_origin_that_is_none_is_refused(origin: str) -> None:
    with pytest.raises(GatewayError) as caught:
        Guard().check(exchange(host="127.0.0.1:18741", origin=origin), AccessRules())
    assert caught.value.status == 403


def test_an_address_in_numbers_cannot_be_rebound_and_is_served() -> None:
    Guard().check(exchange(host="192.168.1.7:18741"), AccessRules())


def test_a_configured_host_is_served() -> None:
    Guard(hosts=["box.lan"]).check(exchange(host="BOX.lan:18741"), AccessRules())


def test_a_page_of_another_site_is_refused() -> None:
    with pytest.raises(GatewayError) as caught:
        Guard().check(exchange(host="127.0.0.1:18741", origin="https://evil.example"), AccessRules())
    assert "evil.example" in caught.value.message


def test_a_page_without_a_name_is_refused() -> None:
    with pytest.raises(GatewayError):
        Guard().check(exchange(host="127.0.0.1:18741", origin="null"), AccessRules())


def test_a_cross_site_request_without_an_origin_is_refused() -> None:
    with pytest.raises(GatewayError):
        Guard().check(exchange(host="127.0.0.1:18741", sec_fetch_site="cross-site"), AccessRules())


def test_our_own_page_is_served() -> None:
    Guard().check(exchange(host="127.0.0.1:18741", origin="http://127.0.0.1:18741"), AccessRules())


def test_a_page_of_another_port_of_this_machine_is_another_site() -> None:
    with pytest.raises(GatewayError):
        Guard().check(exchange(host="127.0.0.1:18741", origin="http://127.0.0.1:3000"), AccessRules())


def test_a_configured_origin_is_served() -> None:
    guard = Guard(origins=["https://chat.example/"])
    guard.check(exchange(host="127.0.0.1:18741", origin="https://chat.example"), AccessRules())


@pytest.mark.parametrize("headers", [{"authorization": "Bearer s3cret"}, {"x_api_key": "s3cret"}])
def test_the_key_is_taken_in_both_ways(headers: dict[str, str]) -> None:
    Guard(keys=["other", "s3cret"]).check(exchange(host="127.0.0.1", **headers), AccessRules())


@pytest.mark.parametrize(
    "headers", [{}, {"authorization": "Bearer wrong"}, {"x_api_key": ""}, {"authorization": "s3cret"}]
)
def test_without_the_key_nothing_is_served(headers: dict[str, str]) -> None:
    with pytest.raises(GatewayError) as caught:
        Guard(keys=["s3cret"]).check(exchange(host="127.0.0.1", **headers), AccessRules())
    assert caught.value.status == 401
    assert "s3cret" not in caught.value.message


def test_signs_of_life_need_no_key() -> None:
    Guard(keys=["s3cret"]).check(exchange(host="127.0.0.1"), AccessRules(keyed=False))
