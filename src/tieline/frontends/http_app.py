"""The HTTP application: finds the route of a request, applies the guard and renders errors."""

import logging
from collections.abc import Callable, Mapping

from tieline.frontends.bodies import BodyBudget
from tieline.frontends.guard import Guard
from tieline.frontends.http import AsgiCycle, Endpoint, Exchange, HttpCycle, Receive, RenderError, Scope, Send, fail
from tieline.frontends.paths import PathTable
from tieline.model.errors import GatewayError

log = logging.getLogger("tieline")


class Route:
    """An endpoint with the error format of its path and its access rules."""

    __slots__ = ("endpoint", "keyed", "public", "render_error")

    def __init__(
        self, endpoint: Endpoint, render_error: RenderError, *, keyed: bool = True, public: bool = False
    ) -> None:
        self.endpoint = endpoint
        self.render_error = render_error
        self.keyed = keyed
        """Whether the gateway's key is required, if it has one."""
        self.public = public
        """Whether other users of this machine and tunnels are answered when the gateway has no key."""


Routes = Mapping[str, Mapping[str, Route]]
"""Path → method → route; a path that ends with `/*` matches everything below it."""


class HttpApp:
    """The application, for our own server (`serve`) and for any ASGI server (`__call__`)."""

    def __init__(
        self,
        routes: Routes,
        *,
        guard: Guard,
        limit: int,
        fallback: Callable[[Exchange], RenderError],
        bodies: BodyBudget | None = None,
    ) -> None:
        self._paths = PathTable(routes)
        self._guard = guard
        self._limit = limit
        self._fallback = fallback
        self._bodies = bodies or BodyBudget()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        await self.serve(AsgiCycle(scope, receive, send))

    async def serve(self, cycle: HttpCycle) -> None:
        """Answer one request."""
        exchange = Exchange(cycle, self._limit, self._bodies)
        route = self._route(exchange, cycle)
        try:
            self._guard.check(exchange, keyed=route.keyed, public=route.public)
            # An empty string: this connection's user has been accepted.
            if cycle.connection.user_refusal != "" and not route.public:
                await self._guard.check_user(cycle.connection)
            await route.endpoint(exchange)
        except GatewayError as error:
            await fail(exchange, error, route.render_error)
        except Exception:
            # A bug: the client receives an error in its own format, the log the traceback.
            log.exception("%s %s failed", cycle.method, cycle.path)
            bug = GatewayError("internal", "Something went wrong inside the gateway; its log says what.")
            await fail(exchange, bug, route.render_error)
        finally:
            self._bodies.release(exchange.reserved)

    def _route(self, exchange: Exchange, cycle: HttpCycle) -> Route:
        method, path = cycle.method, cycle.path
        methods = self._paths.methods(path)
        if methods is None:
            return _refusal(self._paths.missing(method, path), self._fallback(exchange))
        route = methods.get(method)
        if route is not None:
            return route
        allowed = ", ".join(methods)
        message = f"{path} takes {allowed}, not {method}."
        error = GatewayError("bad_request", message, status=405, headers=(("allow", allowed),))
        return _refusal(error, next(iter(methods.values())).render_error)


def _refusal(error: GatewayError, render_error: RenderError) -> Route:
    """Return a route that raises an error; the guard is applied to it as to any other route."""

    async def refuse(_: Exchange) -> None:
        raise error

    return Route(refuse, render_error)
