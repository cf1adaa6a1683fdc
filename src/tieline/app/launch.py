"""Starts a client program that uses the gateway. Settings are passed in its environment and in a temporary folder."""

import contextlib
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from tieline.clients.client import Client, Connection, Recipe
from tieline.net.process.exits import Exit
from tieline.net.process.search import find_program as find_on_path

if sys.platform == "win32":
    from tieline.net.process.console import run_on_console as run_in_foreground
else:
    from tieline.net.process.foreground import run_in_foreground

LOOPBACK = ("127.0.0.1", "localhost", "::1")
PROXIES = ("http_proxy", "https_proxy", "all_proxy")


def find_program(client: Client, env: Mapping[str, str]) -> str | None:
    """Return the path of the client's program, or None if it is not on the PATH."""
    found = (find_on_path(program, env) for program in client.programs)
    return next((path for path in found if path is not None), None)


def conflicting(recipe: Recipe, env: Mapping[str, str]) -> list[str]:
    """Return the variables in `env` that the client must not see."""
    return sorted(name for name in env if any(fnmatchcase(name, pattern) for pattern in recipe.unset))


def proxy_exceptions(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that keep the client from using a proxy for the gateway; none if there is no proxy."""
    if not any(name.lower() in PROXIES and value for name, value in env.items()):
        return {}
    given = env.get("no_proxy") or env.get("NO_PROXY") or ""
    hosts = [host for host in (part.strip() for part in given.split(",")) if host]
    joined = ",".join([*hosts, *(host for host in LOOPBACK if host not in hosts)])
    return {"NO_PROXY": joined, "no_proxy": joined}


def client_environment(recipe: Recipe, env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the client: `env` with the recipe's changes."""
    hidden = set(conflicting(recipe, env))
    kept = {name: value for name, value in env.items() if name not in hidden}
    return {**kept, **proxy_exceptions(env), **recipe.env}


async def run_client(
    client: Client,
    program: str,
    connection: Connection,
    arguments: Sequence[str],
    env: Mapping[str, str],
    notify: Callable[[str], None],
) -> Exit:
    """Run a client on a terminal until it ends. `program` is its path. Raise OSError if it cannot be started.

    `notify` tells the user what to expect, for example that their own settings for the client are not used.
    """
    with private_folder() as folder:
        recipe = client.launch(connection, str(folder))
        for note in recipe.notes:
            notify(note)
        write_files(recipe, folder)
        return await run_in_foreground((program, *recipe.arguments, *arguments), client_environment(recipe, env))


@contextlib.contextmanager
def private_folder() -> Iterator[Path]:
    """Create a folder that only this user can read. Remove it afterwards, with everything in it."""
    folder = Path(tempfile.mkdtemp(prefix="tieline-"))  # has mode 0700
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_files(recipe: Recipe, folder: Path) -> None:
    """Write the files of a recipe into `folder`."""
    for name, text in recipe.files.items():
        path = folder / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")
