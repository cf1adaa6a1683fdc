"""The list of models at `GET /v1/models`, in the format of the client's API."""

from urllib.parse import unquote

from tieline.core.legs.gateway import Gateway
from tieline.frontends.http import Exchange
from tieline.model.errors import GatewayError
from tieline.wire import anthropic, openai_chat
from tieline.wire.anthropic import models as anthropic_models
from tieline.wire.openai_chat import models as openai_models

CLAUDE_CODE_PREFIXES = ("claude", "anthropic")
"""Claude Code lists only models whose name has such a prefix; an alias pattern such as `claude-*` provides one."""


class ModelsFrontend:
    """Serves the list of models; a client that sends `anthropic-version` receives Anthropic's format."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def list(self, exchange: Exchange) -> None:
        """Respond with all models, by full name and by alias."""
        names = await self._gateway.models.with_aliases()
        if not is_anthropic(exchange):
            await exchange.respond(200, openai_models.render_models(names))
            return
        samples = await self._gateway.models.alias_examples()
        shown = {
            name: info for name, info in samples.items() if name.startswith(CLAUDE_CODE_PREFIXES) and name not in names
        }
        await exchange.respond(200, anthropic_models.render_models({**names, **shown}))

    async def one(self, exchange: Exchange) -> None:
        """Respond with the model in the path, which may be given by any name that a request may use."""
        codec = anthropic_models if is_anthropic(exchange) else openai_models
        name = unquote(exchange.scope["path"].partition("/models/")[2])
        try:
            info = await self._gateway.models.find(name)
        except GatewayError as error:
            body = anthropic.render_error(error) if is_anthropic(exchange) else openai_chat.render_error(error)
            await exchange.respond(error.status, body)
            return
        await exchange.respond(200, codec.render_model(name, info))


def is_anthropic(exchange: Exchange) -> bool:
    """Return whether the client uses Anthropic's API. Only needed for paths that both APIs have."""
    return b"anthropic-version" in exchange.headers
