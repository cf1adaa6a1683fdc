"""The HTTP routes of the web page, which the gateway serves in addition to those from `frontends`."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Protocol

import msgspec

from tieline.frontends.http import Endpoint, Exchange
from tieline.frontends.http_app import Route, Routes
from tieline.model.errors import GatewayError
from tieline.web.static_files import PAGES, StaticFile, front, static_names

if TYPE_CHECKING:
    from tieline.web.api import PageApi
    from tieline.web.embed import EmbedPage
    from tieline.web.stream import Stream


class OpenPage(Protocol):
    """The objects that answer requests from the web page."""

    @property
    def api(self) -> "PageApi": ...

    @property
    def stream(self) -> "Stream": ...

    @property
    def embed(self) -> "EmbedPage": ...

    @property
    def files(self) -> Mapping[str, StaticFile]: ...


def page_routes(opened: Callable[[], Awaitable[OpenPage]], hello: Endpoint) -> Routes:
    """Return the routes of the web page. `opened` returns the page, which it creates on the first request.

    If the gateway has a key, all routes need it except the static files, `/api/state`, `/api/login`, and `/embed/*`,
    which needs a token. The routes for the set-up and the keys of the gateway, and `/api/embed`, need an admin key.
    `hello` answers requests for `/` from clients that are not browsers.
    """

    def late(find: Callable[[OpenPage], Endpoint]) -> Endpoint:
        async def endpoint(exchange: Exchange) -> None:
            await find(await opened())(exchange)

        return endpoint

    def route(find: Callable[[OpenPage], Endpoint], *, keyed: bool = True) -> Route:
        return Route(late(find), render_error, keyed=keyed)

    def admin(find: Callable[[OpenPage], Endpoint]) -> Route:
        return Route(late(find), render_error, for_admin=True)

    def file(name: str) -> Endpoint:
        return late(lambda page: page.files[name].serve)

    files = {
        **{path: file(name) for path, name in PAGES.items()},
        **{f"/static/{name}": file(name) for name in static_names()},
        "/": front(file(PAGES["/"]), hello),
    }
    reading = {path: Route(endpoint, render_error, keyed=False) for path, endpoint in files.items()}
    return {
        **{path: {"GET": one, "HEAD": one} for path, one in reading.items()},
        "/api/state": {"GET": route(lambda page: page.api.state, keyed=False)},
        "/api/login": {"POST": route(lambda page: page.api.login, keyed=False)},
        "/api/embed": {"POST": admin(lambda page: page.embed.issue)},
        "/embed/*": {"GET": Route(late(lambda page: page.embed.serve), render_error, keyed=False, framed=True)},
        "/api/stream": {"GET": route(lambda page: page.stream.serve)},
        "/api/files": {"GET": route(lambda page: page.api.files)},
        "/api/sessions": {"POST": route(lambda page: page.api.create)},
        "/api/sessions/*": {
            "GET": route(lambda page: page.api.session),
            "PATCH": route(lambda page: page.api.change),
            "DELETE": route(lambda page: page.api.delete),
            "POST": route(lambda page: page.api.act),
        },
        "/api/traffic": {"GET": route(lambda page: page.api.traffic)},
        "/api/traffic/*": {"GET": route(lambda page: page.api.leg)},
        "/api/connect": {"GET": admin(lambda page: page.api.connect)},
        "/api/connect/cursor": {
            "POST": admin(lambda page: page.api.begin_login),
            "DELETE": admin(lambda page: page.api.cancel_login),
        },
        "/api/usage": {"GET": route(lambda page: page.api.keys.usage)},
        "/api/keys": {
            "GET": admin(lambda page: page.api.keys.list),
            "POST": admin(lambda page: page.api.keys.create),
        },
        "/api/keys/*": {"POST": admin(lambda page: page.api.keys.act)},
        "/api/upstreams": {"POST": admin(lambda page: page.api.setup.add)},
        "/api/upstreams/*": {
            "POST": admin(lambda page: page.api.setup.act),
            "DELETE": admin(lambda page: page.api.setup.remove),
        },
        "/api/upstream-test": {"POST": admin(lambda page: page.api.setup.test)},
        "/api/agents/install": {
            "GET": admin(lambda page: page.api.setup.installation),
            "POST": admin(lambda page: page.api.setup.install),
            "DELETE": admin(lambda page: page.api.setup.cancel_install),
        },
    }


def render_error(error: GatewayError) -> bytes:
    """Return an error as JSON."""
    facts = {"kind": error.kind, "message": error.message, "param": error.param, "code": error.code}
    return msgspec.json.encode({"error": facts})
