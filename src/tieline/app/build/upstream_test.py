"""Tests an upstream for the page: whether it answers, accepts the key, lists models, and completes a tool call.

The tool call is a real request to one model, which may cost a fraction of a cent.
"""

import asyncio
import re
from collections.abc import Callable, Sequence

from tieline.app.config import UpstreamSettings
from tieline.app.reachability import why_unreachable
from tieline.model.assemble import fold
from tieline.model.content import Message, Text, ToolCall, ToolResult
from tieline.model.errors import GatewayError
from tieline.model.events import Event, Reply
from tieline.model.ports import Backend, Host, Run
from tieline.model.request import Request, Sampling, ToolSpec
from tieline.net.client.http import HttpClient
from tieline.web.setup_info import StepName, StepState, TestStep, UpstreamTest

TIMEOUT = 90.0
"""Time limit of the whole test, in seconds."""
LIST_TIMEOUT = 15.0
"""Time limit for the list of models, in seconds."""
MAX_MODELS = 2000
MAX_TOKENS = 2048
"""Enough for a model that thinks before it calls the tool."""
WORD = "tieline-7391"
TOOL = ToolSpec(
    name="read_code_word",
    description="Return today's code word.",
    schema=b'{"type":"object","properties":{"language":{"type":"string","description":"en"}},"required":["language"]}',
)
QUESTION = (
    "Call the tool read_code_word with the language `en`. Then answer with the code word it returns, nothing else."
)

_NO_CHAT = re.compile(
    r"embed|whisper|tts|dall-e|image|audio|moderation|realtime|transcri|rerank|sora|guard|ocr|speech|veo|imagen|"
    r"babbage|davinci|instruct",
    re.IGNORECASE,
)
"""Matches names of models that do not chat or do not call tools."""
_SMALL = re.compile(r"haiku|mini|flash|nano|small|lite|\b[1-9]b\b", re.IGNORECASE)


class UpstreamTester:
    """Tests one upstream. `hide` removes secrets from messages of the upstream."""

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
        self._model = model or choose_model(self._models)
        if not self._model:
            self._add("tools", "warning", "Not tested: enter the name of a model, and test again.")
            return
        await self._call_tool()

    async def _list(self) -> bool:
        """List the models. Return whether the test can go on."""
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
        request = Request(
            model=self._model,
            messages=(Message(role="user", parts=(Text(text=QUESTION),)),),
            tools=(TOOL,),
            sampling=Sampling(max_tokens=MAX_TOKENS),
            stream=True,
        )
        try:
            run = await self._backend.start(request, self._host)
            try:
                await self._round_trip(run)
            finally:
                await run.aclose()
        except GatewayError as error:
            step: StepName = "key" if error.kind in ("unauthorized", "forbidden") else "tools"
            self._add(step, "failed", self._hide(error.message))

    async def _round_trip(self, run: Run) -> None:
        reply = await _reply(run)
        if self._has_key:
            self._add("key", "ok", "The key is accepted.")
        calls = [part for part in reply.parts if isinstance(part, ToolCall)]
        if not calls:
            text = f"{self._model} answers, but did not call the tool it was asked to call. It may not support tools."
            self._add("tools", "warning", text)
            return
        result = (Text(text=WORD),)
        await run.answer([ToolResult(call_id=call.id, content=result) for call in calls])
        said = "".join(part.text for part in (await _reply(run)).parts if isinstance(part, Text))
        if WORD in said:
            self._add("tools", "ok", f"{self._model} called a tool and used its result.")
        else:
            self._add("tools", "warning", f"{self._model} called a tool, but did not repeat its result.")

    def _add(self, step: StepName, state: StepState, text: str) -> None:
        self._steps.append(TestStep(id=step, state=state, text=text))


def choose_model(models: Sequence[str]) -> str:
    """Return a model for a small test: preferably a small one that chats; empty if there is none."""
    chatting = [model for model in models if not _NO_CHAT.search(model)] or list(models)
    return next((model for model in chatting if _SMALL.search(model)), chatting[0] if chatting else "")


async def _reply(run: Run) -> Reply:
    """Return the reply in the next leg of a run. Raise GatewayError if the leg fails."""
    leg, events = run.leg(), list[Event]()
    try:
        async for batch in leg:
            events.extend(batch)
    finally:
        await leg.aclose()
    return fold(events)
