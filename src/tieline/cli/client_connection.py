"""Code shared by the commands for clients: finds the client that the user named, and its connection to the gateway."""

import argparse
import asyncio
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from tieline.app.build.keys import client_keys
from tieline.app.config import Config, ConfigError, address
from tieline.app.gateway_models import find_model, list_models
from tieline.app.local_gateway import LocalGateway, local_gateway
from tieline.clients.catalogue import CLIENTS, UNSUPPORTED
from tieline.clients.client import ANY_KEY, KEY_VARIABLE, Client, Connection
from tieline.clients.snippets import EDITORS
from tieline.web.connect import choose_model

Warn = Callable[[str], None]


class PrintedConnection(NamedTuple):
    """A connection for settings that are printed or written, and whether the gateway is running."""

    connection: Connection
    key_expression: str
    """A shell expression whose value is the key; empty if the gateway has none."""
    is_running: bool


def find_client(name: str) -> Client | None:
    """Return a client; None for an editor. Raise ConfigError if the name is unknown or the client cannot be used."""
    if name in UNSUPPORTED:
        raise ConfigError(UNSUPPORTED[name])
    if name in EDITORS:
        return None
    if name not in CLIENTS:
        known = [*CLIENTS, *EDITORS]
        close = get_close_matches(name, known, n=1)
        hint = f"do you mean {close[0]}?" if close else f"the known ones are {', '.join(known)}"
        raise ConfigError(f"there is no client `{name}`: {hint}")
    return CLIENTS[name]


async def connect(gateway: LocalGateway, model: str | None, config: Config, warn: Warn) -> Connection:
    """Return the connection to a model: the given one, the default model, or the one that the web page suggests.

    Raise GatewayError if there is no such model. Some upstreams have models that they do not list: for such a name,
    call `warn` with a message for the user.
    """
    names = await list_models(gateway)
    name = model or choose_model(config.default_model, names)
    facts = await find_model(gateway, name)
    if name not in names:
        close = get_close_matches(name, names, n=3)
        hint = f" Similar names: {', '.join(close)}." if close else ""
        warn(f"`{name}` is not in the list of models.{hint}")
    return Connection(url=gateway.url, model=name, key=gateway.key or ANY_KEY, facts=facts)


def printed_connection(
    options: argparse.Namespace, config: Config, env: Mapping[str, str], source: Path | None, warn: Warn
) -> PrintedConnection:
    """Return the connection to the gateway at the configured address, whether or not it is running."""

    async def find() -> tuple[Connection, bool]:
        async with local_gateway(config, env, source=source) as gateway:
            return await connect(gateway, options.model, config, warn), not gateway.is_started

    if not config.server.port:
        raise ConfigError("`server.port` is 0, so the gateway has no fixed address; set a port, or use `tieline run`")
    found, is_running = asyncio.run(find())
    server = config.server
    keys = client_keys(config, env)
    if not keys:
        return PrintedConnection(replace(found, url=address(config), key=ANY_KEY), "", is_running)
    variable = KEY_VARIABLE if server.key_file else server.key_env
    own = replace(found, url=address(config), key=keys[0], key_variable=variable)
    return PrintedConnection(own, server.key_expression, is_running)
