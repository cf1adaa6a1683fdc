"""The HTTP application: finds the route of a request, applies the guard and renders errors."""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Protocol

from tieline.frontends.asgi_websocket import AsgiWebSocketCycle
from tieline.frontends.guard import AccessRules, Guard
from tieline.frontends.http import (
    TEXT,
    UPGRADE,
    AsgiCycle,
    BodyBudget,
    Endpoint,
    Exchange,
    HttpCycle,
    Receive,
    RenderError,
    Scope,
    Send,
    fail,
)
from tieline.frontends.keys import UnknownKey
from tieline.model.errors import BadRequest, GatewayError

log = logging.getLogger("tieline")

VERSION = "/v1"
MAX_LOGGED_PATHS = 100
MAX_LOGGED_LENGTH = 200
MAX_NAME = 100
WORKSPACE = b"x-tieline-workspace"
WORKSPACE_PREFIX = "/workspaces/"
"""A request names its workspace in the header or, if its client can set only a base URL, in this prefix of its path."""
PREFLIGHT = (
    (b"access-control-allow-methods", b"GET, HEAD, POST, PATCH, DELETE"),
    (
        b"access-control-allow-headers",
        b"authorization, content-type, x-api-key, x-tieline-workspace, x-tieline-token, last-event-id",
    ),
    (b"access-control-allow-private-network", b"true"),
    (b"access-control-max-age", b"600"),
)
"""Headers of the response to a browser that asks what a page of an allowed origin may send."""


class Route(AccessRules, frozen=True):
    """An endpoint, the error format of its path, and its access rules."""

    endpoint: Endpoint
    render_error: RenderError


class ClusterState(Protocol):
    """The state of this replica in a cluster."""

    @property
    def is_draining(self) -> bool:
        """Whether this replica is about to stop. Clients then have to open their next connection elsewhere."""


CLOSE = ((b"connection", b"close"),)
WEBSOCKET = "WEBSOCKET"
"""The method of a route for WebSockets. Where a path has no such route, a handshake is handled as an HTTP request."""
Observer = Callable[[Exchange, GatewayError | None], None]
"""Called after each request with the error that the guard or the endpoint raised, or None."""
Routes = Mapping[str, Mapping[str, Route]]
"""Routes by path and method. A path that ends with `/*` matches every path below it."""


class PathTable:
    """Looks up routes by path, tolerating base URLs with one `/v1` too many or too few."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes
        self._logged: set[str] = set()

    def methods(self, path: str) -> Mapping[str, Route] | None:
        """Return the routes of a path by method, or None if nothing is served there."""
        exact = self._routes.get(path)
        if exact is not None:
            return exact
        path = path.rstrip("/").replace("//", "/")
        while path.startswith(VERSION * 2 + "/"):
            path = path[len(VERSION) :]
        for candidate in (path, VERSION + path):
            for pattern in (candidate, *_parents(candidate)):
                found = self._routes.get(pattern)
                if found is not None:
                    return found
        return None

    def missing(self, method: str, path: str) -> GatewayError:
        """Return the error for a path at which nothing is served. Log each path once, up to MAX_LOGGED_PATHS paths."""
        shown = ascii(path[:MAX_LOGGED_LENGTH])[1:-1]
        if shown not in self._logged and len(self._logged) < MAX_LOGGED_PATHS:
            self._logged.add(shown)
            log.warning("%s %s: nothing is served there; is the client's base URL right?", method, shown)
        served = ", ".join(
            f"{method} {served}"
            for served, methods in self._routes.items()
            for method in methods
            if served.startswith(VERSION + "/") and method not in ("HEAD", WEBSOCKET)
        )
        return GatewayError("not_found", f"There is nothing at {shown}. These paths are served: {served}.")


def _parents(path: str) -> Iterator[str]:
    """Yield the wildcard paths with one to three names before the `*` that match a path.

    For `/v1/models/a/b` these are `/v1/models/*`, `/v1/models/a/*` and `/v1/*`, in this order. A model name may contain
    slashes, so `*` can stand for several names.
    """
    pieces = path.split("/", 4)
    return ("/".join((*pieces[:depth], "*")) for depth in (3, 4, 2) if len(pieces) > depth)


class HttpApp:
    """The HTTP application, for the gateway's own server (`serve`) and for any ASGI server (`__call__`).

    For a path that it does not serve, a `discreet` application answers only "Not found.", whether or not the client has
    a key. `workspaces` contains the names of all workspaces, kept up to date; if it is None, requests cannot name one.
    """

    def __init__(
        self,
        routes: Routes,
        *,
        guard: Guard,
        limit: int,
        fallback: Callable[[Exchange], RenderError],
        bodies: BodyBudget | None = None,
        discreet: bool = False,
        observe: Observer | None = None,
        workspaces: Collection[str] | None = None,
        cluster: ClusterState | None = None,
    ) -> None:
        self._paths = PathTable(routes)
        self._guard = guard
        self._limit = limit
        self._fallback = fallback
        self._bodies = bodies or BodyBudget()
        self._discreet = discreet
        self._observe = observe
        self._workspaces = workspaces
        self._working: dict[str, set[asyncio.Task[None] | None]] = {}
        """The tasks that serve requests of named workspaces, by the name of the workspace."""
        self.served = 0
        """The number of requests that have begun."""
        self.active = 0
        """The number of requests in progress, including event streams and WebSockets."""
        self._cluster = cluster

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self.serve(AsgiCycle(scope, receive, send))
        elif scope["type"] == "websocket":
            cycle = AsgiWebSocketCycle(scope, receive, send)
            await self.serve(cycle)
            await cycle.end()

    async def serve(self, cycle: HttpCycle, *, is_forwarded: bool = False) -> None:
        """Answer one request. `is_forwarded` is true if another replica has received, checked and forwarded it."""
        cluster = self._cluster
        exchange = Exchange(cycle, self._limit, self._bodies, keeps_body=cluster is not None, is_forwarded=is_forwarded)
        if cluster is not None and cluster.is_draining:
            exchange.response_headers = CLOSE
        headers = exchange.headers
        if self._workspaces is not None and (WORKSPACE in headers or exchange.path.startswith(WORKSPACE_PREFIX)):
            _read_workspace(exchange)
        if b"origin" in headers and not is_forwarded:  # the replica that forwarded the request adds these headers
            self._share(exchange)
        route = self._route(exchange, cycle)
        failure: GatewayError | None = None
        self.served += 1
        self.active += 1
        try:
            try:
                self._guard.check(exchange, route)
            except UnknownKey:
                await self._guard.refresh()
                self._guard.check(exchange, route)
            # An empty string means that the connection's user has been accepted.
            if cycle.connection.user_refusal != "" and not route.public and not is_forwarded:
                await self._guard.check_user(cycle.connection)
            if exchange.workspace:
                await self._serve_in_workspace(exchange, route.endpoint)
            else:
                await route.endpoint(exchange)
        except GatewayError as error:
            failure = error
            await fail(exchange, error, route.render_error)
        except Exception:
            # A bug: send the client an error in its own format, and log the traceback.
            log.exception("%s %s failed", cycle.method, cycle.path)
            failure = GatewayError("internal", "Something went wrong inside the gateway; its log says what.")
            await fail(exchange, failure, route.render_error)
        finally:
            self.active -= 1
            self._bodies.release(exchange.reserved)
            if self._observe is not None:
                self._observe(exchange, failure)

    def stop_workspace(self, name: str) -> None:
        """Stop all requests that belong to a workspace, because it has been removed."""
        current = asyncio.current_task()
        for task in self._working.get(name, ()):
            if task is not None and task is not current:
                task.cancel("the workspace was removed")

    async def _serve_in_workspace(self, exchange: Exchange, endpoint: Endpoint) -> None:
        """Call the endpoint for a request that names a workspace. Raise GatewayError if there is none of this name."""
        name = exchange.workspace or ""
        self._check_workspace(exchange, name)
        task = asyncio.current_task()
        self._working.setdefault(name, set()).add(task)
        try:
            await endpoint(exchange)
        except asyncio.CancelledError:
            if task is None or name in (self._workspaces or ()):
                raise
            task.uncancel()
            if exchange.begun and exchange.websocket is None:
                exchange.cut()
            raise GatewayError("not_found", f"The workspace `{name[:MAX_NAME]}` was removed.") from None
        finally:
            self._working[name].discard(task)
            if not self._working[name]:
                del self._working[name]

    def _check_workspace(self, exchange: Exchange, name: str) -> None:
        if not self._guard.admits(exchange):
            return  # the endpoint needs no key, and says nothing about workspaces
        known = self._workspaces or ()
        header = exchange.headers.get(WORKSPACE)
        if header is not None and header.decode("latin-1").strip() != name:
            raise BadRequest("the path and the header `x-tieline-workspace` name different workspaces")
        shown = ascii(name[:MAX_NAME])[1:-1]
        if exchange.client_key is not None and not exchange.client_key.is_admin:
            raise GatewayError("not_found", f"There is no workspace `{shown}` that this key may use.")
        if name not in known:
            names = ", ".join(sorted(filter(None, known))) or "none; register one at /api/workspaces"
            raise GatewayError("not_found", f"There is no workspace `{shown}`. Known workspaces: {names}.")

    def _share(self, exchange: Exchange) -> None:
        """If the request comes from a web page of a configured origin, let the page read the response."""
        origin = exchange.headers[b"origin"]
        if self._guard.shares_with(origin.decode("latin-1")):
            exchange.cors_headers = ((b"access-control-allow-origin", origin), (b"vary", b"origin"))

    def _route(self, exchange: Exchange, cycle: HttpCycle) -> Route:
        methods = self._paths.methods(exchange.path)
        if methods is None:
            return self._nothing(exchange)
        route = (methods.get(WEBSOCKET) if cycle.is_upgrade else None) or methods.get(cycle.method)
        return route or self._other_method(exchange, methods)

    def _nothing(self, exchange: Exchange) -> Route:
        if self._discreet:
            return _refusal(GatewayError("not_found", "Not found."), self._fallback(exchange), is_open=True)
        return _refusal(self._paths.missing(exchange.method, exchange.path), self._fallback(exchange))

    def _other_method(self, exchange: Exchange, methods: Mapping[str, Route]) -> Route:
        """Return the route of a request whose method is not among those of its path."""
        method, path = exchange.method, exchange.path
        if method == "OPTIONS" and exchange.cors_headers and b"access-control-request-method" in exchange.headers:
            return Route(_preflight, self._fallback(exchange), keyed=False, public=True)
        if WEBSOCKET in methods and method == "GET":
            message = f"GET {path} takes a WebSocket handshake (`Upgrade: websocket`)."
            error = GatewayError("bad_request", message, status=426, headers=UPGRADE)
            return _refusal(error, methods[WEBSOCKET].render_error)
        allowed = ", ".join(name for name in methods if name != WEBSOCKET)
        message = f"{path} takes {allowed}, not {method}."
        error = GatewayError("bad_request", message, status=405, headers=(("allow", allowed),))
        return _refusal(error, next(iter(methods.values())).render_error)


def _read_workspace(exchange: Exchange) -> None:
    """Set the workspace that a request names, and remove the prefix from its path."""
    if exchange.path.startswith(WORKSPACE_PREFIX):
        name, _, rest = exchange.path.removeprefix(WORKSPACE_PREFIX).partition("/")
        exchange.workspace, exchange.path = name, f"/{rest}"
    else:
        exchange.workspace = exchange.headers[WORKSPACE].decode("latin-1").strip()


async def _preflight(exchange: Exchange) -> None:
    await exchange.respond(200, b"", TEXT, PREFLIGHT)


def _refusal(error: GatewayError, render_error: RenderError, *, is_open: bool = False) -> Route:
    """Return a route that raises `error`. If `is_open` is true, clients without access receive this error as well."""

    async def refuse(_: Exchange) -> None:
        raise error

    return Route(refuse, render_error, keyed=not is_open, public=is_open, cross_site=is_open)
