"""What `tieline login cursor`, `logout cursor` and `whoami` do; each returns the text to print.

What goes wrong is a GatewayError whose message is for the user.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from tieline.backends.cursor.account import Account
from tieline.backends.cursor.login import API, WEBSITE, Random, Sleep, begin_login, poll
from tieline.backends.cursor.login_import import ImportedLogin, import_login
from tieline.backends.cursor.login_store import Keyring, LoginStore, Say, find_keyring
from tieline.backends.cursor.tokens import LoginTokens, describe
from tieline.net.client.http import HttpClient

INVITATION = """\
Open this link in a browser, on this machine or any other, and log in to Cursor:

  {url}

Waiting. The link is good for about twenty minutes; Ctrl-C gives up."""


async def login(
    client: HttpClient,
    store: LoginStore,
    *,
    say: Say,
    sleep: Sleep,
    random: Random,
    clock: Callable[[], float],
    api: str = API,
    website: str = WEBSITE,
) -> str:
    """Log in through a browser, anywhere."""
    begun = begin_login(website, random)
    say(INVITATION.format(url=begun.url))
    tokens = await poll(client, api, begun, sleep=sleep, clock=clock)
    return await _kept("Logged in to Cursor.", store, tokens, clock())


async def take_over(
    store: LoginStore,
    paths: Sequence[Path],
    *,
    clock: Callable[[], float],
    platform: str = "linux",
    ring: Callable[[], Keyring | None] = find_keyring,
) -> str:
    """Log in with the login of Cursor's own client; `paths` as `imports.places` gives them."""
    found: ImportedLogin = await import_login(paths, now=clock(), platform=platform, ring=ring)
    return await _kept(f"Took over the login in {found.place}.", store, found.tokens, clock())


async def logout(store: LoginStore) -> str:
    """Forget the login."""
    if not await store.clear():
        return "There was no Cursor login."
    return "Logged out of Cursor: the login is gone from this machine. A gateway that runs keeps its token: restart it."


async def whoami(account: Account, *, clock: Callable[[], float]) -> str:
    """Say which account is in use."""
    return describe(await account.peek(), clock())


async def _kept(news: str, store: LoginStore, tokens: LoginTokens, now: float) -> str:
    place = await store.save(tokens)
    return f"{news}\n{describe(tokens, now)}\nKept in:  {place}"
