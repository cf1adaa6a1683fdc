"""Checks the demo model, and whether each upstream answers, accepts its key, and completes a tool round trip."""

import asyncio
from collections.abc import Mapping, Sequence

from tieline.app.build.application import App
from tieline.app.build.round_trip import choose_test_model
from tieline.app.build.upstreams import upstream_key
from tieline.app.config import DEFAULT_URLS, Config, UpstreamSettings
from tieline.app.doctor.findings import Check, Finding, counted, ok, problem, skipped, warning
from tieline.app.doctor.round_trip import round_trip
from tieline.app.local_gateway import LocalGateway
from tieline.app.reachability import why_unreachable
from tieline.backends.http_api.replay import ReplayBackend
from tieline.model.errors import GatewayError
from tieline.model.ports import ModelInfo

AREA = "Backends"
LIST_LIMIT = 10.0
"""Time limit for the list of models, in seconds."""
TRIP_LIMIT = 90.0
"""Time limit for a round trip, in seconds. A local model may have to be loaded first."""
LIMIT = TRIP_LIMIT + LIST_LIMIT + 10
DEMO = "demo/scripted"
MAX_NAMES = 5

_NO_TOOLS = (
    "Use a model that supports tools, and enable them in the server (in vLLM: `--enable-auto-tool-choice` and a tool "
    'parser). If the call is in the text of the answer, set `repairs = ["text_calls"]`.'
)


def backend_checks(
    config: Config, env: Mapping[str, str], app: App, gateway: LocalGateway | None, *, offline: bool
) -> list[Check]:
    """Return the checks for the demo model and for each upstream. With `offline`, send no request that may cost money.

    Without a `gateway`, there are no round trips.
    """
    checks = [Check(AREA, "demo", lambda: _demo(gateway), LIMIT)] if config.demo else []
    for name, settings in config.upstreams.items():
        probe = _UpstreamProbe(name, settings, config, env, app, gateway, offline=offline)
        checks.append(Check(AREA, name, probe.run, LIMIT))
    return checks


async def _demo(gateway: LocalGateway | None) -> Finding:
    if gateway is None:
        return skipped("not checked, because no gateway could be started")
    outcome, text = await round_trip(gateway, DEMO)
    return ok("tool round trip") if outcome == "ok" else problem(text, "This is a bug in Tieline.")


class _UpstreamProbe:
    """Checks one upstream. Each step is taken only if the one before found no problem."""

    def __init__(
        self,
        name: str,
        settings: UpstreamSettings,
        config: Config,
        env: Mapping[str, str],
        app: App,
        gateway: LocalGateway | None,
        *,
        offline: bool,
    ) -> None:
        self._name = name
        self._settings = settings
        self._config = config
        self._env = env
        self._app = app
        self._gateway = gateway
        self._offline = offline
        self._listed: Sequence[ModelInfo] = ()

    async def run(self) -> list[Finding]:
        reason = await why_unreachable(self._settings, self._app.client)
        if reason is not None:
            fix = f"Start the server, or correct `upstreams.{self._name}.base_url`. Check your network and proxy."
            return [problem(reason, fix)]
        key = await self._key()
        reached = ok(f"{self._settings.base_url or DEFAULT_URLS[self._settings.kind]} answers")
        if key.status == "problem":
            return [reached, key]
        return [reached, key, await self._tools()]

    async def _key(self) -> Finding:
        name = f"{self._name} key"
        value, status = upstream_key(self._name, self._settings, self._env)
        if not status.is_ready:
            return problem(
                f"{self._settings.key_env} is not set", f"Set {self._settings.key_env} to its key.", name=name
            )
        backend = self._app.backends[self._name]
        if not isinstance(backend, ReplayBackend):
            return skipped("it has no list of models", name=name)
        try:
            async with asyncio.timeout(LIST_LIMIT):
                self._listed = await backend.listed_models()
        except TimeoutError:
            return warning(f"not checked, because the list of models took longer than {LIST_LIMIT:g} s", name=name)
        except GatewayError as error:
            if error.kind in ("unauthorized", "forbidden"):
                return problem(error.message, self._key_fix(), name=name)
            return warning(f"not checked, because it does not list its models: {error.message}", name=name)
        text = f"{'accepted' if value else 'none needed'}; {counted(len(self._listed), 'model')}"
        return self._unlisted(name) or ok(text, name=name)

    def _key_fix(self) -> str:
        settings = self._settings
        if settings.key_file or settings.key_env:
            return f"Put a valid key into {settings.key_file or settings.key_env}."
        return f"Set `upstreams.{self._name}.key_env` to the variable that holds its key."

    def _unlisted(self, name: str) -> Finding | None:
        """Return a warning if configured models are missing from the upstream's list."""
        listed = {model.id for model in self._listed}
        missing = [model for model in self._settings.models if model not in listed]
        if not missing or not listed:
            return None
        text = f"the upstream does not list {', '.join(missing[:MAX_NAMES])}"
        fix = f"Correct `upstreams.{self._name}.models`. It lists {', '.join(sorted(listed)[:MAX_NAMES])}."
        return warning(text, fix, name=name)

    async def _tools(self) -> Finding:
        name = f"{self._name} tools"
        if self._gateway is None:
            return skipped("not checked, because no gateway could be started", name=name)
        if self._offline:
            return skipped("not checked, because the request may cost money (--offline)", name=name)
        model = self._model()
        if model is None:
            fix = f"Name one in `upstreams.{self._name}.models`."
            return skipped("not checked, because no model is known", fix, name=name)
        try:
            async with asyncio.timeout(TRIP_LIMIT):
                outcome, text = await round_trip(self._gateway, f"{self._name}/{model}")
        except TimeoutError:
            text = f"{model}: the round trip took longer than {TRIP_LIMIT:g} s"
            return problem(text, "See the log of the server. If it was loading the model, try again.", name=name)
        except GatewayError as error:
            return problem(f"{model}: {error.message}", self._request_fix(error), name=name)
        if outcome != "ok":
            return problem(text, _NO_TOOLS, name=name)
        return ok(f"tool round trip with {model}", name=name)

    def _request_fix(self, error: GatewayError) -> str:
        match error.kind:
            case "unauthorized" | "forbidden":
                return self._key_fix()
            case "billing" | "rate_limited":
                return "Check the credit and the limits of the account."
            case "not_found":
                return f"Name another model in `upstreams.{self._name}.models`."
            case _:
                return "See the log of the server."

    def _model(self) -> str | None:
        """Return the model for the round trip: a configured one, or else a cheap one that the upstream lists."""
        targets = (self._config.default_model or "", *self._config.aliases.values())
        prefix = f"{self._name}/"
        named = [name.removeprefix(prefix) for name in targets if name.startswith(prefix) and "*" not in name]
        if self._settings.models or named:
            return next(iter((*self._settings.models, *named)))
        return choose_test_model([model.id for model in self._listed]) or None
