"""Lets the user add, test and remove upstreams on the web page. Changes apply to new requests at once."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from tieline.app.build.added_upstreams import AddedUpstream, UpstreamStore
from tieline.app.build.keys import check_key
from tieline.app.build.page_context import PageContext
from tieline.app.build.upstream_presets import PRESETS, preset
from tieline.app.build.upstream_test import UpstreamTester
from tieline.app.build.upstreams import ADDED_KEY, added_status
from tieline.app.config import ConfigError, UpstreamSettings
from tieline.app.config_file import upstream_mistakes
from tieline.core.inbox.inbox import InboxHuman
from tieline.core.watch.bus import ModelsChanged
from tieline.core.watch.secrets import Secrets, hide_likely
from tieline.frontends.guard import is_loopback
from tieline.model.errors import BadRequest, GatewayError
from tieline.model.inbox import Origin as ItemOrigin
from tieline.model.ports import Backend, Host
from tieline.net.client.http import HttpClient, Origin
from tieline.web.setup_info import AddedState, NewUpstream, ProviderPreset, UpstreamTest

MAX_NAME = 40
MAX_URL = 2000
MAX_KEY = 4096
MAX_MODELS = 200
MAX_MODEL_NAME = 200
TESTS_AT_ONCE = 4
PLAIN = "This address does not use TLS: anyone on the network path can read the key and your messages."
SHADOWED = "Not used: the configuration has an upstream with this name."
NO_KEY = "Its key cannot be read. Enter it again."


class _Checked(NamedTuple):
    """An upstream with valid settings."""

    name: str
    upstream: AddedUpstream
    key: str | None


class AddedUpstreams:
    """The upstreams that the user added on the page."""

    def __init__(self, context: PageContext, store: UpstreamStore | None = None) -> None:
        self._context = context
        self._backends = context.backends
        self._store = store or UpstreamStore(context.env)
        self._changing = asyncio.Lock()
        self._tests = asyncio.Semaphore(TESTS_AT_ONCE)

    def presets(self) -> Sequence[ProviderPreset]:
        return PRESETS

    def added(self) -> Sequence[AddedState]:
        return [self._state(name, upstream) for name, upstream in sorted(self._backends.added.items())]

    async def test(self, new: NewUpstream, model: str = "") -> UpstreamTest:
        # The test needs no name, so that the user can test before choosing one.
        checked = _check(replace(new, name=new.name or "new"))
        # Leave out the model names that the user entered, so that the server's own list is requested.
        settings = replace(
            checked.upstream.settings(), models=(), retries=0, first_byte_timeout=60.0, idle_timeout=30.0
        )
        backend = self._context.make_upstream(checked.name, settings, checked.key, key_source="this form")
        hidden = Secrets([checked.key] if checked.key else [])
        return await self._test(backend, settings, hidden, model, has_key=checked.key is not None)

    async def test_added(self, name: str, model: str = "") -> UpstreamTest:
        upstream = self._find(name)
        if self._is_shadowed(name):
            raise BadRequest(SHADOWED, "name")
        settings = upstream.settings()
        backend = self._backends.by_name[name]
        return await self._test(backend, settings, self._context.secrets, model, has_key=upstream.has_key)

    async def add(self, new: NewUpstream) -> None:
        checked = _check(new)
        async with self._changing:
            if checked.name in self._backends.upstreams:
                place = "is in the configuration" if self._is_shadowed(checked.name) else "was already added"
                raise BadRequest(f"an upstream `{checked.name}` {place}: choose another name", "name")
            await self._save(checked)

    async def replace_key(self, name: str, key: str) -> None:
        async with self._changing:
            upstream = self._find(name)
            checked = _checked_key(key)
            await self._save(_Checked(name, replace(upstream, has_key=checked is not None), checked))

    async def remove(self, name: str) -> None:
        async with self._changing:
            self._find(name)
            await self._store.remove(name)
            is_used = not self._is_shadowed(name)
            del self._backends.added[name]
            if is_used:
                self._backends.remove(name)
            self._announce()

    async def _save(self, checked: _Checked) -> None:
        name, upstream, key = checked
        await self._store.save(name, upstream, key)
        self._context.secrets.add([key] if key else [])
        is_used = not self._is_shadowed(name)
        self._backends.added[name] = upstream
        if is_used:
            settings = upstream.settings()
            backend = self._context.make_upstream(name, settings, key, key_source=ADDED_KEY)
            self._backends.put(name, backend, added_status(name, settings, has_key=key is not None))
            self._backends.upstreams[name] = settings
        self._announce()

    def _announce(self) -> None:
        """Make the change known to the router, the list of models, and all open pages."""
        self._context.routes.update()
        self._context.gateway.models.invalidate()
        self._context.gateway.bus.publish(ModelsChanged())

    async def _test(
        self, backend: Backend, settings: UpstreamSettings, secrets: Secrets, model: str, *, has_key: bool
    ) -> UpstreamTest:
        def hide(message: str) -> str:
            return hide_likely(secrets.hide(message))

        if len(model) > MAX_MODEL_NAME:
            raise BadRequest(f"a model name has at most {MAX_MODEL_NAME} characters", "model")
        human = InboxHuman(self._context.gateway.inbox, ItemOrigin(frontend="web"))
        async with self._tests:
            # The reachability check, which sends no key, has its own client. Its connections are closed after the test.
            client = HttpClient(proxies=self._context.proxies)
            try:
                tester = UpstreamTester(backend, Host(human), hide, has_key=has_key)
                return await tester.run(settings, client, model.strip())
            finally:
                await client.aclose()

    def _find(self, name: str) -> AddedUpstream:
        upstream = self._backends.added.get(name)
        if upstream is None:
            raise GatewayError("not_found", f"No upstream `{name[:MAX_NAME]}` was added on this page.")
        return upstream

    def _is_shadowed(self, name: str) -> bool:
        """Return whether the configuration has an upstream with this name."""
        return name in self._context.config.upstreams

    def _state(self, name: str, upstream: AddedUpstream) -> AddedState:
        status = next((status for status in self._backends.statuses if status.name == name), None)
        is_shadowed = self._is_shadowed(name)
        is_ready = not is_shadowed and status is not None and status.is_ready
        note = SHADOWED if is_shadowed else "" if is_ready else NO_KEY
        return AddedState(
            name=name,
            kind=upstream.kind,
            base_url=upstream.base_url,
            models=upstream.models,
            has_key=upstream.has_key,
            ready=is_ready,
            note=note or (PLAIN if is_plain(upstream.base_url) else ""),
        )


def is_plain(base_url: str) -> bool:
    """Return whether requests to this address cross a network without encryption."""
    origin, _ = Origin.parse(base_url)
    return origin.scheme == "http" and not is_loopback(origin.host)


def _check(new: NewUpstream) -> _Checked:
    """Check the user's input, and return it as an upstream. Raise BadRequest if a field is not valid."""
    name = new.name.strip()
    provider = preset(new.provider)
    if provider is None:
        known = ", ".join(one.id for one in PRESETS)
        raise BadRequest(f"`provider` must be one of {known}", "provider")
    base_url = new.base_url.strip().rstrip("/") or provider.base_url
    if not base_url:
        raise BadRequest("`base_url` is empty: expected the address of the server, such as https://host/v1", "base_url")
    if not name:
        raise BadRequest("`name` is empty: expected a name for the upstream, such as `local`", "name")
    if len(name) > MAX_NAME:
        raise BadRequest(f"`name` has at most {MAX_NAME} characters", "name")
    if len(base_url) > MAX_URL:
        raise BadRequest(f"`base_url` has at most {MAX_URL} characters", "base_url")
    models = tuple(dict.fromkeys(model.strip() for model in new.models if model.strip()))
    if len(models) > MAX_MODELS or any(len(model) > MAX_MODEL_NAME for model in models):
        raise BadRequest(f"`models` takes at most {MAX_MODELS} names of {MAX_MODEL_NAME} characters", "models")
    key = _checked_key(new.key)
    is_own_address = base_url == provider.base_url
    upstream = AddedUpstream(
        kind=provider.kind,
        base_url=base_url,
        api=provider.api if is_own_address else None,
        dialect=provider.dialect if is_own_address else {},
        models=models,
        has_key=key is not None,
    )
    place = f"upstreams.{name}"
    for where, message in upstream_mistakes(name, upstream.settings()):
        param = "name" if where == place else where.removeprefix(f"{place}.")
        raise BadRequest(message.replace(f"`{where}`", f"`{param}`"), param)
    return _Checked(name, upstream, key)


def _checked_key(given: str) -> str | None:
    key = given.strip()
    if len(key) > MAX_KEY:
        raise BadRequest(f"`key` has at most {MAX_KEY} characters", "key")
    try:
        return check_key(key, "`key`") if key else None
    except ConfigError as error:
        raise BadRequest(str(error), "key") from None
