"""The commands `tieline login cursor`, `tieline logout cursor` and `tieline whoami`. Each returns the text to print.

If a command fails, it raises GatewayError with a message for the user.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from tieline.backends.credentials import Keyring, Say, find_keyring
from tieline.backends.cursor.account import Account
from tieline.backends.cursor.login import API, WEBSITE, Random, Sleep, begin_login, poll
from tieline.backends.cursor.login_import import ImportedLogin, import_login
from tieline.backends.cursor.login_store import LoginStore
from tieline.backends.cursor.tokens import LoginTokens, describe
from tieline.net.client.http import HttpClient

INVITATION = """\
Open this link in a browser, on this machine or any other, and log in to Cursor:

  {url}

Waiting. The link is valid for about twenty minutes. Press Ctrl-C to cancel."""


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
    """Log in through a browser, on this machine or another, and store the login."""
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
    keyring: Callable[[], Keyring | None] = find_keyring,
) -> str:
    """Import the login from Cursor's own client and store it. `paths` is the result of `login_import.places`."""
    found: ImportedLogin = await import_login(paths, now=clock(), platform=platform, keyring=keyring)
    return await _kept(f"Imported the login from {found.place}.", store, found.tokens, clock())


async def logout(store: LoginStore) -> str:
    """Delete the stored login."""
    if not await store.clear():
        return "There is no Cursor login."
    return (
        "Logged out of Cursor: the login was deleted from this machine. A running gateway may use it until it restarts."
    )


async def whoami(account: Account, *, clock: Callable[[], float]) -> str:
    """Return a description of the account in use."""
    return describe(await account.peek(), clock())


async def _kept(news: str, store: LoginStore, tokens: LoginTokens, now: float) -> str:
    place = await store.save(tokens)
    return f"{news}\n{describe(tokens, now)}\nSaved in: {place}"
