"""The account in use: good tokens for everybody, one refresh at a time, and what happens when there are none."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.backends.cursor_logins import DAY, NOW, Clock, given, jwt, refused, soon
from tieline.backends.credentials import no_keyring
from tieline.backends.cursor.account import MARGIN, QUIET, Account
from tieline.backends.cursor.login import AuthApi
from tieline.backends.cursor.login_store import LoginStore
from tieline.backends.cursor.tokens import LoginTokens
from tieline.model.errors import GatewayError
from tieline.net.client.http import HttpClient
from tieline.sim.model import Answer, Cut, ModelServer, Pause

REFRESH = "/oauth/token"
OLDER = "/auth/refresh"
EXCHANGE = "/auth/exchange_user_api_key"
DOWN = Answer(status=503)

GOOD = jwt("good")
NEXT = jwt("next")
DYING = jwt("dying", expires=NOW + MARGIN - 1)
DEAD = jwt("dead", expires=NOW - 1)


@pytest.fixture
async def service() -> AsyncIterator[ModelServer]:
    async with ModelServer() as server:
        yield server


@pytest.fixture
async def api(service: ModelServer) -> AsyncIterator[AuthApi]:
    client = HttpClient()
    yield AuthApi(client, service.url)
    await client.aclose()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path) -> LoginStore:
    return LoginStore(tmp_path, keyring=no_keyring)


def login(access: str, refresh: str = "R", obtained: float = NOW - DAY) -> LoginTokens:
    return LoginTokens(access=access, refresh=refresh, obtained=obtained)


def holding(api: AuthApi, access: str, clock: Clock, refresh: str = "R") -> Account:
    """An account with a login of yesterday."""
    return Account(api, login(access, refresh), clock=clock)


def paths(service: ModelServer) -> list[str]:
    return [request.path for request in service.requests]


async def error_of(account: Account, stale: str | None = None) -> GatewayError:
    with pytest.raises(GatewayError) as caught:
        await (account.token() if stale is None else account.renew(stale))
    return caught.value


def slowly(pause: Pause, access: str) -> Answer:
    """The answer that gives a token once the pause is over."""
    body = given(access, "R2").body
    return Answer(headers=[("content-type", "application/json")], chunks=[pause, body])


# ── good tokens ──


async def test_a_token_that_lasts_is_used_as_it_is(api: AuthApi, service: ModelServer, clock: Clock) -> None:
    account = holding(api, GOOD, clock)
    assert [await account.token() for _ in range(3)] == [GOOD] * 3
    assert service.requests == []


@pytest.mark.parametrize("access", [DYING, DEAD])
async def test_a_token_is_renewed_before_it_ends(api: AuthApi, service: ModelServer, clock: Clock, access: str) -> None:
    service.script(REFRESH, given(NEXT, "R2"))
    account = holding(api, access, clock)
    assert [await account.token(), await account.token()] == [NEXT, NEXT]
    assert [json.loads(request.body)["refresh_token"] for request in service.requests] == ["R"]


async def test_the_margin_is_five_minutes(api: AuthApi, service: ModelServer, clock: Clock) -> None:
    service.script(REFRESH, given(NEXT))
    account = holding(api, jwt("edge", expires=NOW + 301), clock)
    assert await account.token() != NEXT
    clock.now += 1
    assert await account.token() == NEXT


async def test_a_token_that_cannot_be_read_is_renewed_after_an_hour(
    api: AuthApi, service: ModelServer, clock: Clock
) -> None:
    service.script(REFRESH, given("opaque-2"))
    account = Account(api, login("opaque-1", obtained=NOW), clock=clock)
    clock.now = NOW + 3600 - MARGIN - 1
    assert await account.token() == "opaque-1"
    clock.now += 2
    assert await account.token() == "opaque-2"


async def test_the_old_refresh_token_is_used_again_where_no_new_one_comes(
    api: AuthApi, service: ModelServer, clock: Clock
) -> None:
    service.script(REFRESH, given(DYING), given(NEXT))
    account = holding(api, DEAD, clock)
    await account.token()
    clock.now += 61
    assert await account.token() == NEXT
    assert [json.loads(request.body)["refresh_token"] for request in service.requests] == ["R"] * 2


async def test_a_new_token_is_used_for_a_minute_whatever_it_says_of_its_end(
    api: AuthApi, service: ModelServer, clock: Clock
) -> None:
    """Ours: the clock of this machine may be wrong, and then every token looks old."""
    service.default(REFRESH, given(DEAD))
    account = holding(api, DEAD, clock)
    assert [await account.token() for _ in range(3)] == [DEAD] * 3
    assert len(service.requests) == 1


# ── keys and fixed tokens ──


async def test_an_api_key_is_exchanged_once_and_again_when_its_token_ends(
    api: AuthApi, service: ModelServer, clock: Clock
) -> None:
    service.script(EXCHANGE, given(GOOD, "R"), given(NEXT, "R"))
    account = Account.with_key(api, " key_1\n", clock=clock)
    assert [await account.token(), await account.token()] == [GOOD, GOOD]
    clock.now += 60 * DAY
    assert await account.token() == NEXT
    assert [(r.path, r.header("authorization")) for r in service.requests] == [(EXCHANGE, "Bearer key_1")] * 2


async def test_a_refused_api_key_says_what_to_do(api: AuthApi, service: ModelServer, clock: Clock) -> None:
    service.script(EXCHANGE, refused(401))
    error = await error_of(Account.with_key(api, "key_1", clock=clock))
    assert (error.kind, error.status, error.code) == ("unauthorized", 401, "cursor_unauthenticated")
    assert "API key" in error.message


async def test_a_fixed_token_is_used_until_it_ends(api: AuthApi, service: ModelServer, clock: Clock) -> None:
    account = Account.fixed(api, f"user_1::{DYING}", clock=clock)
    assert await account.token() == DYING
    clock.now += MARGIN
    assert (await error_of(account)).kind == "unauthorized"
    assert service.requests == []


async def test_a_fixed_token_that_cannot_be_read_never_ends_by_itself(api: AuthApi, clock: Clock) -> None:
    account = Account.fixed(api, "opaque", clock=clock)
    clock.now += 1000 * DAY
    assert await account.token() == "opaque"
    assert (await error_of(account, "opaque")).kind == "unauthorized"


@pytest.mark.parametrize("text", ["", "  ", "a\nb", "schlüssel", "x" * 20_000])
def test_what_is_no_key_is_refused_without_being_repeated(api: AuthApi, clock: Clock, text: str) -> None:
    for make in (Account.with_key, Account.fixed):
        with pytest.raises(GatewayError) as caught:
            make(api, text, clock=clock)
        assert caught.value.kind == "unauthorized"
        assert not text.strip() or text not in caught.value.message


# ── one refresh at a time ──


async def test_everybody_waits_for_the_same_refresh(api: AuthApi, service: ModelServer, clock: Clock) -> None:
    pause = Pause()
    service.script(REFRESH, slowly(pause, NEXT))
    account = holding(api, DEAD, clock)
    waiters = [asyncio.create_task(account.token()) for _ in range(50)]
    waiters += [asyncio.create_task(account.renew(DEAD)) for _ in range(50)]
    await soon(pause.reached.wait())
    pause.set()
    assert await soon(asyncio.gather(*waiters)) == [NEXT] * 100
    assert len(service.requests) == 1


async def test_who_stops_waiting_does_not_stop_the_refresh(api: AuthApi, service: ModelServer, clock: Clock) -> None:
    pause = Pause()
    service.script(REFRESH, slowly(pause, NEXT))
    account = holding(api, DEAD, clock)
    first, second = (asyncio.create_task(account.token()) for _ in range(2))
    await soon(pause.reached.wait())
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await soon(first)
    pause.set()
    assert await soon(second) == NEXT
    assert len(service.requests) == 1


async def test_a_refresh_nobody_waits_for_any_more_is_still_kept(
    api: AuthApi, service: ModelServer, clock: Clock, store: LoginStore
) -> None:
    """The service may have replaced the refresh token: an answer thrown away could be the end of the login."""
    pause = Pause()
    service.script(REFRESH, slowly(pause, NEXT))
    await store.save(login(DEAD))
    account = Account.stored(api, store, clock=clock)
    only = asyncio.create_task(account.token())
    await soon(pause.reached.wait())
    only.cancel()
    with pytest.raises(asyncio.CancelledError):
        await soon(only)
    pause.set()
    assert await account.token() == NEXT
    kept = await store.load()
    assert kept is not None
    assert (kept.access, kept.refresh) == (NEXT, "R2")
    assert len(service.requests) == 1


async def test_a_failed_refresh_is_told_to_all_who_waited_and_not_repeated_by_them(
    api: AuthApi, service: ModelServer, clock: Clock
) -> None:
    pause = Pause()
    service.script(REFRESH, Answer(status=401, chunks=[pause]))
    service.script(EXCHANGE, refused(401))
    account = holding(api, DEAD, clock)
    waiters = [asyncio.create_task(account.token()) for _ in range(20)]
    await soon(pause.reached.wait())
    pause.set()
    errors = await soon(asyncio.gather(*waiters, return_exceptions=True))
    assert all(isinstance(error, GatewayError) and error.kind == "unauthorized" for error in errors)
    assert len(set(map(id, errors))) == 20
    assert paths(service) == [REFRESH, OLDER, EXCHANGE]


async def test_closing_ends_the_refresh_and_tells_who_waits(api: AuthApi, service: ModelServer, clock: Clock) -> None:
    pause = Pause()
    service.script(REFRESH, slowly(pause, NEXT))
    account = holding(api, DEAD, clock)
    waiter = asyncio.create_task(account.token())
    await soon(pause.reached.wait())
    await account.aclose()
    with pytest.raises(GatewayError) as caught:
        await soon(waiter)
    assert caught.value.kind == "cancelled"
    await soon(service.requests[0].gone)


# ── refused tokens ──


async def test_a_refused_token_is_replaced_once_for_all_who_had_it(
    api: AuthApi, service: ModelServer, clock: Clock
) -> None:
    service.script(REFRESH, given(NEXT, "R2"))
    account = holding(api, GOOD, clock)
    assert await account.token() == GOOD
    assert await account.renew(GOOD) == NEXT
    assert [await account.renew(GOOD), await account.token()] == [NEXT, NEXT]
    assert len(service.requests) == 1


async def test_a_refused_token_is_not_handed_out_again_after_a_failed_renewal(
    api: AuthApi, service: ModelServer, clock: Clock
) -> None:
    service.script(REFRESH, DOWN, given(NEXT))
    service.script(EXCHANGE, DOWN)
    account = holding(api, GOOD, clock)
    assert (await error_of(account, GOOD)).kind == "upstream"
    clock.now += QUIET
    assert await account.token() == NEXT


async def test_the_service_may_insist_on_the_same_token(api: AuthApi, service: ModelServer, clock: Clock) -> None:
    service.script(REFRESH, given(GOOD))
    account = holding(api, GOOD, clock)
    assert await account.renew(GOOD) == GOOD
    assert await account.token() == GOOD
    assert len(service.requests) == 1


# ── when the service does not help ──


@pytest.mark.parametrize(
    "trouble", [DOWN, refused(429), Answer(body=b"<html>"), Answer(chunks=[Cut()])], ids=["503", "429", "html", "cut"]
)
async def test_a_passing_trouble_leaves_a_token_that_still_lives_in_use(
    api: AuthApi, service: ModelServer, clock: Clock, trouble: Answer
) -> None:
    service.default(REFRESH, trouble)
    service.default(EXCHANGE, trouble)
    account = holding(api, DYING, clock)
    assert await account.token() == DYING
    clock.now += MARGIN
    error = await error_of(account)
    assert error.kind == "upstream"
    assert "tieline login" not in error.message


async def test_a_service_in_trouble_is_left_alone_for_a_moment(
    api: AuthApi, service: ModelServer, clock: Clock
) -> None:
    service.default(REFRESH, DOWN)
    service.default(EXCHANGE, DOWN)
    account = holding(api, DYING, clock)
    assert [await account.token() for _ in range(5)] == [DYING] * 5
    assert paths(service) == [REFRESH, OLDER, EXCHANGE]
    clock.now += QUIET
    service.script(REFRESH, given(NEXT))
    assert await account.token() == NEXT


@pytest.mark.parametrize("status", [401, 403])
async def test_a_login_that_has_ended_says_what_to_do(
    api: AuthApi, service: ModelServer, clock: Clock, status: int
) -> None:
    service.default(REFRESH, refused(status))
    service.default(EXCHANGE, refused(status))
    error = await error_of(holding(api, DYING, clock))
    assert (error.kind, error.status, error.code) == ("unauthorized", 401, "cursor_unauthenticated")
    assert "tieline login cursor" in error.message


async def test_how_long_to_wait_is_passed_on(api: AuthApi, service: ModelServer, clock: Clock) -> None:
    busy = Answer(status=429, headers=[("retry-after", "7")])
    service.default(REFRESH, busy)
    service.default(EXCHANGE, busy)
    assert (await error_of(holding(api, DEAD, clock))).retry_after == 7


# ── the store ──


async def test_a_stored_login_is_read_when_it_is_needed_and_renewed_in_the_store(
    api: AuthApi, service: ModelServer, clock: Clock, store: LoginStore
) -> None:
    account = Account.stored(api, store, clock=clock)
    await store.save(login(DEAD))
    service.script(REFRESH, given(NEXT, "R2"))
    assert await account.token() == NEXT
    assert await store.load() == LoginTokens(access=NEXT, refresh="R2", obtained=NOW)


async def test_without_a_login_the_advice_is_to_log_in_and_then_it_works(
    api: AuthApi, service: ModelServer, clock: Clock, store: LoginStore
) -> None:
    account = Account.stored(api, store, clock=clock)
    assert "tieline login cursor" in (await error_of(account)).message
    assert "tieline login cursor" in (await error_of(account, "anything")).message
    await store.save(login(GOOD))
    assert await account.token() == GOOD


async def test_a_login_renewed_by_another_program_is_taken_from_the_store(
    api: AuthApi, service: ModelServer, clock: Clock, store: LoginStore
) -> None:
    await store.save(login(DYING))
    account = Account.stored(api, store, clock=clock)
    service.default(REFRESH, DOWN)
    service.default(EXCHANGE, DOWN)
    assert await account.token() == DYING
    asked = len(service.requests)
    await store.save(login(NEXT, "R2", obtained=NOW - 1))
    assert await account.token() == NEXT
    assert len(service.requests) == asked


async def test_a_new_login_works_at_once_though_the_old_one_was_just_refused(
    api: AuthApi, service: ModelServer, clock: Clock, store: LoginStore
) -> None:
    await store.save(login(GOOD))
    account = Account.stored(api, store, clock=clock)
    await account.token()
    service.default(REFRESH, refused())
    service.default(EXCHANGE, refused())
    assert (await error_of(account, GOOD)).kind == "unauthorized"
    await store.save(login(NEXT, obtained=NOW))
    assert await account.token() == NEXT


async def test_a_new_login_is_renewed_at_once_though_that_of_the_old_one_just_failed(
    api: AuthApi, service: ModelServer, clock: Clock, store: LoginStore
) -> None:
    await store.save(login(DEAD))
    account = Account.stored(api, store, clock=clock)
    service.script(REFRESH, refused(), given(NEXT))
    service.script(EXCHANGE, refused())
    assert (await error_of(account)).kind == "unauthorized"
    await store.save(login(DYING, "R2", obtained=NOW - 100))
    assert await account.token() == NEXT
    assert json.loads(service.requests[-1].body)["refresh_token"] == "R2"


async def test_a_login_that_was_logged_out_meanwhile_is_not_brought_back(
    api: AuthApi, service: ModelServer, clock: Clock, store: LoginStore
) -> None:
    await store.save(login(GOOD))
    account = Account.stored(api, store, clock=clock)
    assert await account.token() == GOOD
    await store.clear()
    assert (await error_of(account, GOOD)).kind == "unauthorized"
    assert await store.load() is None
    assert service.requests == []


async def test_a_store_that_breaks_later_takes_nothing_away(
    api: AuthApi, service: ModelServer, clock: Clock, store: LoginStore, caplog: pytest.LogCaptureFixture
) -> None:
    await store.save(login(GOOD))
    account = Account.stored(api, store, clock=clock)
    await account.token()
    store.path.unlink()
    store.path.mkdir()
    service.script(REFRESH, given(NEXT, "R2"))
    with caplog.at_level(logging.WARNING):
        assert await account.renew(GOOD) == NEXT
    assert "could not save the renewed Cursor login" in caplog.text
    assert "R2" not in caplog.text
    assert NEXT not in caplog.text


async def test_a_store_that_cannot_be_read_is_told(api: AuthApi, clock: Clock, store: LoginStore) -> None:
    store.path.write_bytes(b"{")
    error = await error_of(Account.stored(api, store, clock=clock))
    assert str(store.path) in error.message
    assert error.kind == "unauthorized"


async def test_an_imported_api_key_stays_an_imported_api_key(
    api: AuthApi, service: ModelServer, clock: Clock, store: LoginStore
) -> None:
    await store.save(LoginTokens(api_key="key_1", origin="import", obtained=NOW - 1))
    service.script(EXCHANGE, given(GOOD, "R"))
    assert await Account.stored(api, store, clock=clock).token() == GOOD
    assert await store.load() == LoginTokens(access=GOOD, api_key="key_1", origin="import", obtained=NOW)
