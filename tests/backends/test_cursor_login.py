"""Logging in to Cursor: the link, the waiting for somebody to use it, API keys, refreshing, and the three commands."""

import base64
import hashlib
import itertools
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

import pytest

from tests.backends.cursor_logins import DAY, NOW, Clock, given, jwt, refused
from tests.each import each
from tieline.backends.credentials import no_keyring
from tieline.backends.cursor import login_commands
from tieline.backends.cursor.account import Account
from tieline.backends.cursor.login import CLIENT_ID, AuthApi, PendingLogin, begin_login, exchange_key, poll, refresh
from tieline.backends.cursor.login_store import LoginStore
from tieline.backends.cursor.tokens import LoginTokens, bare, describe, expiry, read_claims
from tieline.model.errors import GatewayError
from tieline.model.events import Failed
from tieline.net.client.http import HttpClient
from tieline.sim.model import Answer, Cut, ModelServer

POLL = "/auth/poll"
REFRESH = "/oauth/token"
OLDER = "/auth/refresh"
EXCHANGE = "/auth/exchange_user_api_key"
LOGIN = PendingLogin("https://cursor.com/loginDeepControl?…", "11111111-2222-4333-8444-555555555555", "the-verifier")
PENDING = Answer(status=404, body=b"Not found")
NO_SUCH_POST = Answer(status=404, body=b"Cannot POST /auth/poll")
DOWN = Answer(status=503)


@pytest.fixture
async def service() -> AsyncIterator[ModelServer]:
    async with ModelServer() as server:
        yield server


@pytest.fixture
async def client() -> AsyncIterator[HttpClient]:
    client = HttpClient()
    yield client
    await client.aclose()


class Nap:
    """A sleep that takes no time and is remembered."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.waits.append(seconds)


async def polled(client: HttpClient, service: ModelServer, nap: Nap | None = None, tries: int = 150) -> LoginTokens:
    return await poll(client, service.url, LOGIN, sleep=nap or Nap(), clock=Clock(), tries=tries)


async def polling_error(client: HttpClient, service: ModelServer) -> GatewayError:
    with pytest.raises(GatewayError) as caught:
        await polled(client, service)
    return caught.value


def methods(service: ModelServer) -> list[str]:
    return [request.method for request in service.requests]


def counting_bytes() -> Callable[[int], bytes]:
    numbers = itertools.count()
    return lambda size: bytes(next(numbers) % 256 for _ in range(size))


# ── the link ──


def test_the_link_carries_the_hash_of_a_secret_that_stays_here() -> None:
    login = begin_login("https://cursor.com/", counting_bytes())
    link = urlsplit(login.url)
    query = {name: values[0] for name, values in parse_qs(link.query).items()}
    challenge = base64.urlsafe_b64encode(hashlib.sha256(login.verifier.encode()).digest()).decode().rstrip("=")
    assert (link.scheme, link.netloc, link.path) == ("https", "cursor.com", "/loginDeepControl")
    assert query == {"challenge": challenge, "uuid": login.uuid, "mode": "login", "redirectTarget": "cli"}
    assert base64.urlsafe_b64decode(login.verifier + "=") == bytes(range(32))
    assert UUID(login.uuid).version == 4


def test_the_secret_of_a_login_is_neither_in_its_link_nor_shown() -> None:
    login = begin_login("https://cursor.com", counting_bytes())
    assert login.verifier not in login.url
    assert login.verifier not in repr(login)


# ── waiting for somebody to use it ──


async def test_asking_goes_on_until_somebody_has_logged_in(client: HttpClient, service: ModelServer) -> None:
    service.script(POLL, PENDING, PENDING, given("A", "R", authId="auth0|user"))
    tokens = await polled(client, service)
    assert (tokens.access, tokens.refresh, tokens.origin, tokens.obtained) == ("A", "R", "browser", NOW)
    assert methods(service) == ["POST"] * 3
    assert [request.json for request in service.requests] == [{"uuid": LOGIN.uuid, "verifier": LOGIN.verifier}] * 3
    assert all(request.target == POLL for request in service.requests)


async def test_the_waits_grow_by_a_fifth_up_to_ten_seconds(client: HttpClient, service: ModelServer) -> None:
    nap = Nap()
    service.script(POLL, *[PENDING] * 15, given("A", "R"))
    await polled(client, service, nap)
    assert nap.waits[:4] == pytest.approx([1.0, 1.2, 1.44, 1.728])
    assert nap.waits[12:] == pytest.approx([8.916100448256, 10.0, 10.0, 10.0])


async def test_a_service_without_the_post_is_asked_by_get_from_then_on(
    client: HttpClient, service: ModelServer
) -> None:
    nap = Nap()
    service.script(POLL, NO_SUCH_POST, Answer(status=404, body=b"{}"), given("A", "R"))
    await polled(client, service, nap)
    assert methods(service) == ["POST", "GET", "GET"]
    assert parse_qs(urlsplit(service.requests[-1].target).query) == {
        "uuid": [LOGIN.uuid],
        "verifier": [LOGIN.verifier],
    }
    assert len(nap.waits) == 2, "the change of the method is no reason to wait"


@pytest.mark.parametrize("status", [400, 401, 403, 405, 501])
async def test_a_post_that_was_never_understood_leaves_the_verdict_to_the_get(
    client: HttpClient, service: ModelServer, status: int
) -> None:
    """Ours: a proxy or an old service may say so to a POST it does not know."""
    service.script(POLL, Answer(status=status), given("A", "R"))
    assert (await polled(client, service)).access == "A"
    assert methods(service) == ["POST", "GET"]


@pytest.mark.parametrize("status", [400, 401, 403, 410])
async def test_a_clear_no_ends_the_waiting_at_once(client: HttpClient, service: ModelServer, status: int) -> None:
    service.script(POLL, PENDING, Answer(status=status))
    error = await polling_error(client, service)
    assert error.kind == "unauthorized"
    assert "tieline login cursor" in error.message
    assert len(service.requests) == 2


@pytest.mark.parametrize(
    "trouble",
    [
        DOWN,
        Answer(body=b"<html>"),
        Answer(body=b"[]"),
        Answer(body=b'{"accessToken": "a\\nb"}'),
        Answer(chunks=[Cut()]),
    ],
    ids=["503", "no JSON", "no object", "no token a header can carry", "cut"],
)
async def test_three_troubles_in_a_row_end_the_waiting(
    client: HttpClient, service: ModelServer, trouble: Answer
) -> None:
    service.script(POLL, PENDING, *[trouble] * 3)
    error = await polling_error(client, service)
    assert error.kind == "upstream"
    assert len(service.requests) == 4


async def test_troubles_with_a_proper_answer_between_them_do_not_count_together(
    client: HttpClient, service: ModelServer
) -> None:
    service.script(POLL, DOWN, DOWN, PENDING, DOWN, DOWN, given("A", "R"))
    assert (await polled(client, service)).access == "A"


async def test_a_service_that_is_busy_is_given_the_time_it_wants_and_no_blame(
    client: HttpClient, service: ModelServer
) -> None:
    nap = Nap()
    busy = [Answer(status=429, headers=[("retry-after", after)]) for after in ("20", "99999", "0", "0")]
    service.script(POLL, *busy, given("A", "R"))
    assert (await polled(client, service, nap)).access == "A"
    assert nap.waits == pytest.approx([1.0, 20.0, 60.0, 1.728, 2.0736])


async def test_nobody_waits_for_ever(client: HttpClient, service: ModelServer) -> None:
    nap = Nap()
    service.default(POLL, PENDING)
    with pytest.raises(GatewayError) as caught:
        await polled(client, service, nap)
    assert caught.value.kind == "timeout"
    assert len(service.requests) == 150
    assert sum(nap.waits) < 25 * 60


async def test_a_service_that_is_not_there_is_named_without_the_secret(client: HttpClient) -> None:
    async with ModelServer() as gone:
        address = gone.url.removeprefix("http://")
    error = await polling_error(client, gone)
    assert address in error.message
    assert error.kind == "upstream"
    assert LOGIN.verifier not in error.message


# ── keys and refresh tokens ──


async def test_an_api_key_is_exchanged_as_the_official_client_does_it(client: HttpClient, service: ModelServer) -> None:
    service.script(EXCHANGE, given("A", "R"))
    tokens = await exchange_key(AuthApi(client, service.url), "key_1", NOW)
    assert tokens == LoginTokens(access="A", api_key="key_1", origin="key", obtained=NOW)
    request = service.requests[0]
    assert (request.method, request.body) == ("POST", b"{}")
    assert request.header("authorization") == "Bearer key_1"
    assert request.header("content-type") == "application/json"


async def test_a_base_url_may_have_a_path(client: HttpClient, service: ModelServer) -> None:
    service.script("/proxy" + EXCHANGE, given("A"))
    assert isinstance(await exchange_key(AuthApi(client, service.url + "/proxy/"), "key_1", NOW), LoginTokens)


OLD = LoginTokens(access="old", refresh="R1", origin="import", obtained=NOW - 1)


async def test_a_refresh_brings_both_tokens_and_keeps_what_it_does_not_bring(
    client: HttpClient, service: ModelServer
) -> None:
    api = AuthApi(client, service.url)
    service.script(REFRESH, given("A", "R2"), given("B"))
    assert await refresh(api, OLD, NOW) == LoginTokens(access="A", refresh="R2", origin="import", obtained=NOW)
    assert await refresh(api, OLD, NOW) == LoginTokens(access="B", refresh="R1", origin="import", obtained=NOW)
    grant = {"grant_type": "refresh_token", "client_id": CLIENT_ID, "refresh_token": "R1"}
    assert [json.loads(request.body) for request in service.requests] == [grant] * 2
    assert not any(request.header("authorization") for request in service.requests)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 500])
@pytest.mark.parametrize("way", [OLDER, EXCHANGE])
async def test_where_a_refresh_is_not_understood_the_older_ways_are_tried(
    client: HttpClient, service: ModelServer, status: int, way: str
) -> None:
    for path in (REFRESH, OLDER):
        service.script(path, *([Answer(status=status)] if path != way else []))
    service.script(way, given("A"))
    assert await refresh(AuthApi(client, service.url), OLD, NOW) == LoginTokens(
        access="A", refresh="R1", origin="import", obtained=NOW
    )
    assert service.requests[-1].header("authorization") == "Bearer R1"


LOGGED_OUT = Answer(body=b'{"accessToken": "", "shouldLogout": true}')


@pytest.mark.parametrize("body", [b'{"shouldLogout": true}', b'{"access_token": "", "shouldLogout": true}'])
async def test_a_login_that_the_service_has_ended_is_over_at_once(
    client: HttpClient, service: ModelServer, body: bytes
) -> None:
    service.script(REFRESH, Answer(body=body))
    failed = await refresh(AuthApi(client, service.url), OLD, NOW)
    assert isinstance(failed, Failed)
    assert (failed.kind, failed.status) == ("unauthorized", 401)
    assert "tieline login cursor" in failed.message
    assert len(service.requests) == 1


@pytest.mark.parametrize(
    ("first", "second", "kind"),
    [
        (refused(401), refused(401), "unauthorized"),
        (refused(404), refused(403), "unauthorized"),
        (refused(401), refused(404), "unauthorized"),
        (LOGGED_OUT, LOGGED_OUT, "unauthorized"),
        (refused(401), DOWN, "upstream"),
        (DOWN, refused(401), "upstream"),
        (refused(429), refused(401), "upstream"),
        (Answer(body=b"{}"), refused(401), "upstream"),
        (refused(404), refused(404), "upstream"),
    ],
)
async def test_only_a_clear_no_of_every_way_ends_a_login(
    client: HttpClient, service: ModelServer, first: Answer, second: Answer, kind: str
) -> None:
    service.script(REFRESH, refused(404))
    service.script(OLDER, first)
    service.script(EXCHANGE, second)
    failed = await refresh(AuthApi(client, service.url), OLD, NOW)
    assert isinstance(failed, Failed)
    assert failed.kind == kind
    assert ("tieline login cursor" in failed.message) is (kind == "unauthorized")
    assert "R1" not in failed.message


async def test_a_service_that_cannot_be_reached_is_asked_once(client: HttpClient, service: ModelServer) -> None:
    service.script(REFRESH, Answer(chunks=[Cut()]))
    failed = await refresh(AuthApi(client, service.url), OLD, NOW)
    assert isinstance(failed, Failed)
    assert failed.kind == "upstream"
    assert len(service.requests) == 1


async def test_a_refused_key_is_told_as_such(client: HttpClient, service: ModelServer) -> None:
    service.script(EXCHANGE, Answer(status=401, body=b'{"error":"bad key key_1"}'))
    failed = await exchange_key(AuthApi(client, service.url), "key_1", NOW)
    assert isinstance(failed, Failed)
    assert (failed.kind, failed.code) == ("unauthorized", "cursor_unauthenticated")
    assert "API key" in failed.message
    assert "key_1" not in failed.message


async def test_an_answer_without_end_is_given_up(client: HttpClient, service: ModelServer) -> None:
    service.script(EXCHANGE, Answer(chunks=[b"x" * 1024] * 300))
    failed = await exchange_key(AuthApi(client, service.url), "key_1", NOW)
    assert isinstance(failed, Failed)
    assert "more than 262144 bytes" in failed.message


# ── what tokens say of themselves ──


def test_the_claims_of_a_token_are_read_without_asking_anybody() -> None:
    token = jwt("x", expires=NOW + 5, email="a@b.example")
    assert read_claims(token) == ("auth0|user_x", "a@b.example", NOW + 5)


@each(
    "token",
    ["", "opaque", "a.b", "a.!!!!.c", "a.e30.c", "a.W10.c", "a.////.c", "a." + "W1" * 9000 + ".c", "é.é.é", "a.MQ.c"],
)
def test_what_is_no_jwt_says_nothing(token: str) -> None:
    assert read_claims(token) == ("", "", None)


@pytest.mark.parametrize("expires", ["soon", True, -1, 1e300, 10**30, None, [1]])
def test_an_end_that_is_no_moment_is_no_end(expires: object) -> None:
    assert read_claims(jwt("x", expires=None, exp=expires)).expires is None


def test_claims_are_made_fit_for_a_terminal() -> None:
    claims = read_claims(jwt("x", email="a\x1b[31mb" + "c" * 500))
    assert claims.email.startswith("a[31mb")
    assert len(claims.email) == 200


def test_a_token_that_cannot_be_read_is_good_for_an_hour_or_for_ever_if_nothing_renews_it() -> None:
    assert expiry(LoginTokens(access="opaque", refresh="R", obtained=NOW)) == NOW + 3600
    assert expiry(LoginTokens(access="opaque")) == float("inf")


@pytest.mark.parametrize("written", ["user_1::T", "user_1%3A%3AT", " T\n", "T"])
def test_the_account_in_front_of_a_token_is_not_part_of_it(written: str) -> None:
    assert bare(written) == "T"


def test_tokens_are_never_shown() -> None:
    tokens = LoginTokens(access="secret-a", refresh="secret-r", api_key="secret-k")
    assert "secret" not in repr(tokens)
    assert "secret" not in f"{[tokens]}"


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        (
            LoginTokens(access=jwt("x", expires=NOW + 3 * DAY, email="a@b.example"), refresh="R"),
            [
                "a@b.example (auth0|user_x)",
                "login in the browser",
                "valid until 2027-01-18 08:00 UTC (in 3 days); renewed automatically",
            ],
        ),
        (
            LoginTokens(access=jwt("x", expires=NOW - 90), origin="fixed"),
            ["Account:  auth0|user_x\n", "fixed token", "expired on 2027-01-15 07:58 UTC (1 minute ago)"],
        ),
        (LoginTokens(access="opaque", api_key="k", origin="key"), ["unknown", "API key", "expiry unknown"]),
        (LoginTokens(access=jwt("x", expires=NOW + 7205), origin="import"), ["Cursor's own client", "(in 2 hours)"]),
        (LoginTokens(access=jwt("x", expires=NOW + 5)), ["(in less than a minute)"]),
    ],
)
def test_a_login_is_described_in_three_lines(tokens: LoginTokens, said: list[str]) -> None:
    text = describe(tokens, NOW)
    assert len(text.splitlines()) == 3
    assert [part for part in said if part not in text] == []
    assert tokens.access not in text


# ── the commands ──


async def test_logging_in_prints_the_link_and_keeps_the_tokens(
    client: HttpClient, service: ModelServer, tmp_path: Path
) -> None:
    said: list[str] = []
    service.script(POLL, PENDING, given(jwt("me"), "R"))
    store = LoginStore(tmp_path, keyring=no_keyring)
    text = await login_commands.login(
        client,
        store,
        say=said.append,
        sleep=Nap(),
        random=counting_bytes(),
        clock=Clock(),
        api=service.url,
        website="https://login.example",
    )
    assert "  https://login.example/loginDeepControl?challenge=" in said[0]
    assert "auth0|user_me" in text
    assert str(store.path) in text
    assert await store.load() == LoginTokens(access=jwt("me"), refresh="R", obtained=NOW)


async def test_logging_out_forgets_and_says_whether_there_was_something(tmp_path: Path) -> None:
    store = LoginStore(tmp_path, keyring=no_keyring)
    await store.save(LoginTokens(access="A", refresh="R"))
    assert "Logged out" in await login_commands.logout(store)
    assert await store.load() is None
    assert "no Cursor login" in await login_commands.logout(store)


async def test_whoami_tells_the_account_of_a_stored_login_without_the_network(
    client: HttpClient, service: ModelServer, tmp_path: Path
) -> None:
    store = LoginStore(tmp_path, keyring=no_keyring)
    account = Account.stored(AuthApi(client, service.url), store, clock=Clock())
    with pytest.raises(GatewayError, match="tieline login cursor"):
        await login_commands.whoami(account, clock=Clock())
    await store.save(LoginTokens(access=jwt("me", expires=NOW - 5), refresh="R"))
    text = await login_commands.whoami(account, clock=Clock())
    assert "auth0|user_me" in text
    assert "expired" in text
    assert service.requests == []


async def test_whoami_exchanges_an_api_key_to_know_whose_it_is(client: HttpClient, service: ModelServer) -> None:
    service.script(EXCHANGE, given(jwt("me")))
    account = Account.with_key(AuthApi(client, service.url), "key_1", clock=Clock())
    text = await login_commands.whoami(account, clock=Clock())
    assert "auth0|user_me" in text
    assert "API key" in text
    assert "key_1" not in text


async def test_the_login_of_cursors_own_client_is_taken_over_and_left_alone(tmp_path: Path) -> None:
    theirs = tmp_path / "cursor" / "auth.json"
    theirs.parent.mkdir()
    written = f'{{"accessToken": "{jwt("me")}", "refreshToken": "R"}}'
    theirs.write_text(written)
    store = LoginStore(tmp_path / "ours", keyring=no_keyring)
    text = await login_commands.take_over(store, [theirs], clock=Clock(), keyring=no_keyring)
    assert str(theirs) in text
    assert await store.load() == LoginTokens(access=jwt("me"), refresh="R", origin="import", obtained=NOW)
    assert theirs.read_text() == written
