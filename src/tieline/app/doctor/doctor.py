"""Runs all checks of `tieline doctor`, and removes secrets from their findings."""

import contextlib
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path

from msgspec.structs import replace

from tieline.app.config import ConfigError, StoreSettings
from tieline.app.doctor.accounts import account_checks
from tieline.app.doctor.agents import agent_checks
from tieline.app.doctor.backends import backend_checks
from tieline.app.doctor.clients import client_checks
from tieline.app.doctor.configuration import LoadedConfig, load_checked
from tieline.app.doctor.database import database_checks
from tieline.app.doctor.findings import Check, Finding, known, problem, run_checks
from tieline.app.doctor.machine import machine_checks
from tieline.app.doctor.port import AREA as GATEWAY
from tieline.app.doctor.port import port_checks
from tieline.app.doctor.state import state_checks
from tieline.app.local_gateway import LocalGateway, local_gateway
from tieline.core.watch.secrets import Secrets, hide_likely, secret_values
from tieline.tools.invisible_text import visible

MAX_TEXT = 500
"""Maximum number of characters in each text of a finding."""


class Doctor:
    """Runs the checks. `explicit` is a configuration file that the user named; `here` is the working directory.

    With `offline`, nothing is sent that may cost money.
    """

    def __init__(self, explicit: Path | None, here: Path, env: Mapping[str, str], *, offline: bool) -> None:
        self._env = env
        self._offline = offline
        self._loaded = load_checked(explicit, here, env)
        self._secrets = Secrets(secret_values(env))

    @property
    def is_configured(self) -> bool:
        """Whether the configuration can be used."""
        return self._loaded.app is not None

    @property
    def billable(self) -> tuple[str, ...]:
        """The upstreams that will receive requests that may cost money."""
        if self._offline or self._loaded.app is None:
            return ()
        upstreams = self._loaded.config.upstreams
        return tuple(one.name for one in self._loaded.app.statuses if one.name in upstreams and one.is_ready)

    async def findings(self) -> AsyncGenerator[Finding, None]:
        """Run all checks, and yield their findings, grouped by area and without secrets."""
        async with contextlib.AsyncExitStack() as stack:
            checks = self._first_checks()
            checks += await self._gateway_checks(stack)
            checks += database_checks(self._loaded.config, self._env) if self._loaded.app is not None else []
            checks += account_checks(self._loaded.config, self._env, self._loaded.app)
            checks += agent_checks(self._loaded.config, self._env)
            checks += client_checks(self._env)
            if self._loaded.app is not None:
                stack.push_async_callback(self._loaded.app.aclose)
            findings = await stack.enter_async_context(contextlib.aclosing(run_checks(checks)))
            async for finding in findings:
                yield replace(finding, text=self._clean(finding.text), fix=self._clean(finding.fix))

    def _first_checks(self) -> list[Check]:
        loaded = self._loaded
        return [*machine_checks(self._env), *state_checks(self._env), *loaded.checks, *port_checks(loaded.config)]

    async def _gateway_checks(self, stack: contextlib.AsyncExitStack) -> list[Check]:
        loaded, gateway, checks = self._loaded, None, list[Check]()
        if loaded.app is None:
            return checks
        try:
            gateway = await self._start(stack, loaded)
        except (ConfigError, OSError) as error:
            checks.append(known(GATEWAY, "start", problem(f"a gateway cannot be started: {error}")))
        return [*checks, *backend_checks(loaded.config, self._env, loaded.app, gateway, offline=self._offline)]

    async def _start(self, stack: contextlib.AsyncExitStack, loaded: LoadedConfig) -> LocalGateway:
        """Start a gateway for the round trips, so that they are not recorded by one that is already running."""
        config = replace(loaded.config, store=StoreSettings())  # replicas must not see the round trips either
        starting = local_gateway(config, self._env, source=loaded.source, always_start=True)
        return await stack.enter_async_context(starting)

    def _clean(self, text: str) -> str:
        """Return `text` on one line, without secrets or control characters, and truncated if it is too long."""
        hidden = hide_likely(self._secrets.hide(text))
        if self._loaded.app is not None:
            hidden = self._loaded.app.gateway.bus.hide(hidden)
        line = " ".join(hidden.split())
        return visible(line if len(line) <= MAX_TEXT else f"{line[:MAX_TEXT]}…")
