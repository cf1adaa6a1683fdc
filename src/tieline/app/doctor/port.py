"""Checks whether the gateway's port is free, is used by a gateway, or is used by another program."""

import msgspec

from tieline import __version__
from tieline.app.config import Config, ConfigError, address
from tieline.app.doctor.findings import Check, Finding, ok, problem, warning
from tieline.app.local_gateway import GatewayIdentity
from tieline.app.serve import listen
from tieline.net.client.http import HttpClient, Origin, PipeError, Timeouts

AREA = "Gateway"
BODY_LIMIT = 64 << 10

_TIMEOUTS = Timeouts(connect=2, first_byte=3, idle=3)
_OTHER_PORT = "Stop that program, or choose another port with `port` under [server] or `tieline serve --port`."


def port_checks(config: Config) -> list[Check]:
    """Return the check for the configured port."""
    return [Check(AREA, "port", lambda: _port(config))]


async def _port(config: Config) -> Finding:
    server = config.server
    if server.port == 0:
        return ok("any free port")
    url = address(config)
    try:
        hello = await _hello(url)
    except PipeError as error:
        if error.reason == "refused":
            return _free(server.host, server.port, url)
        return problem(f"a program at {url} accepts connections, but does not answer: {error.message}", _OTHER_PORT)
    if hello.service != "tieline":
        return problem(f"another program uses {url}", _OTHER_PORT)
    if hello.version != __version__:
        return warning(f"Tieline {hello.version} is running at {url}, this is {__version__}", "Restart that gateway.")
    return ok(f"Tieline {hello.version} is running at {url}")


async def _hello(url: str) -> GatewayIdentity:
    """Return how the program at `url` introduces itself. Every gateway does so, even to a client without its key."""
    client = HttpClient()
    try:
        response = await client.send(Origin.parse(url)[0], "GET", "/api/hello", (), timeouts=_TIMEOUTS)
        return msgspec.json.decode(await response.read(BODY_LIMIT), type=GatewayIdentity)
    except (msgspec.DecodeError, UnicodeError):
        return GatewayIdentity()
    finally:
        await client.aclose()


def _free(host: str, port: int, url: str) -> Finding:
    try:
        listen(host, port, "").close()
    except ConfigError as error:
        return problem(str(error).strip(), "Choose another `host` or `port` under [server].")
    return ok(f"{url} is free")
