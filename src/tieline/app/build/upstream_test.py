"""Tests an upstream for the web page: whether it answers, accepts the key, lists models, and completes a tool call.

The tool call takes at least two real requests to one model, which may cost a fraction of a cent.
"""

import asyncio
from collections.abc import Callable

from tieline.app.build.round_trip import RoundTrip, choose_test_model
from tieline.app.config import UpstreamSettings
from tieline.app.reachability import why_unreachable
from tieline.model.errors import GatewayError
from tieline.model.ports import Backend, Host
from tieline.net.client.http import HttpClient
from tieline.web.setup_info import StepName, StepState, TestStep, UpstreamTest

TIMEOUT = 90.0
"""Time limit for the whole test, in seconds."""
LIST_TIMEOUT = 15.0
"""Time limit for the list of models, in seconds."""
MAX_MODELS = 2000


class UpstreamTester:
    """Tests one upstream. `hide` removes secrets from the upstream's messages."""

    def __init__(self, backend: Backend, host: Host, hide: Callable[[str], str], *, has_key: bool) -> None:
        self._backend = backend
        self._host = host
        self._hide = hide
        self._has_key = has_key
        self._steps: list[TestStep] = []
        self._models: list[str] = []
        self._model = ""

    async def run(self, settings: UpstreamSettings, client: HttpClient, model: str) -> UpstreamTest:
        """Run all steps up to the first that fails. `model` is the model to call; if empty, one is chosen."""
        try:
            async with asyncio.timeout(TIMEOUT):
                await self._run(settings, client, model)
        except TimeoutError:
            self._add("tools", "failed", f"The test was stopped after {TIMEOUT:g} seconds.")
        is_usable = not any(step.state == "failed" for step in self._steps)
        return UpstreamTest(
            steps=tuple(self._steps), models=tuple(self._models), model=self._model, is_usable=is_usable
        )

    async def _run(self, settings: UpstreamSettings, client: HttpClient, model: str) -> None:
        reason = await why_unreachable(settings, client)
        if reason is not None:
            self._add("reach", "failed", f"No answer from {settings.base_url}: {reason}")
            return
        self._add("reach", "ok", f"{settings.base_url} answers.")
        if not await self._list():
            return
        self._model = model or choose_test_model(self._models)
        if not self._model:
            self._add("tools", "warning", "Not tested: enter the name of a model, and test again.")
            return
        await self._call_tool()

    async def _list(self) -> bool:
        """List the models. Return whether the test can continue."""
        try:
            async with asyncio.timeout(LIST_TIMEOUT):
                found = await self._backend.models()
        except TimeoutError:
            self._add("models", "warning", f"The list of models did not arrive within {LIST_TIMEOUT:g} s.")
            return True
        except GatewayError as error:
            if error.kind in ("unauthorized", "forbidden", "billing"):
                self._add("key", "failed", self._hide(error.message))
                return False
            message = f"It does not list its models, so enter their names. {self._hide(error.message)}"
            self._add("models", "warning", message)
            return True
        self._models = sorted({info.id for info in found})[:MAX_MODELS]
        if self._models:
            count = len(self._models)
            self._add("models", "ok", f"It offers {count} model{'s' if count > 1 else ''}.")
        else:
            self._add("models", "warning", "Its list of models is empty, so enter their names.")
        return True

    async def _call_tool(self) -> None:
        try:
            outcome, text = await RoundTrip().run(self._backend, self._host, self._model)
        except GatewayError as error:
            step: StepName = "key" if error.kind in ("unauthorized", "forbidden") else "tools"
            self._add(step, "failed", self._hide(error.message))
            return
        if self._has_key:
            self._add("key", "ok", "The key is accepted.")
        self._add("tools", "ok" if outcome == "ok" else "warning", self._hide(text))

    def _add(self, step: StepName, state: StepState, text: str) -> None:
        self._steps.append(TestStep(id=step, state=state, text=text))
