"""The list of models at `GET /v1/models`, in the format of the client's API."""

from collections.abc import Sequence
from urllib.parse import parse_qs, unquote

from tieline.core.legs.gateway import Gateway
from tieline.frontends.http import Exchange, fail
from tieline.model.errors import BadRequest, GatewayError
from tieline.wire import anthropic
from tieline.wire.anthropic import models as anthropic_models
from tieline.wire.openai_chat import models as openai_models

CLAUDE_CODE_PREFIXES = ("claude", "anthropic")
"""Claude Code shows only models whose names begin with one of these. An alias such as `claude-*` adds such names."""


class ModelsFrontend:
    """Serves the list of models. A client that sends `anthropic-version` receives Anthropic's format.

    `api_types` are the served APIs, by the names that clients expect in the list.
    """

    def __init__(self, gateway: Gateway, api_types: Sequence[str] = ()) -> None:
        self._gateway = gateway
        self._api_types = tuple(api_types)

    async def list(self, exchange: Exchange) -> None:
        """Respond with all models, by full name and by alias."""
        names = await self._gateway.models.with_aliases(exchange.access)
        query = parse_qs(exchange.scope["query_string"].decode("latin-1"), errors="replace")
        if not is_anthropic(exchange):
            include_codex = "client_version" in query  # only Codex sends it
            body = openai_models.render_models(names, self._api_types, include_codex=include_codex)
            await exchange.respond(200, body)
            return
        samples = await self._gateway.models.alias_examples(exchange.access)
        shown = {
            name: info for name, info in samples.items() if name.startswith(CLAUDE_CODE_PREFIXES) and name not in names
        }
        try:
            body = anthropic_models.render_models({**names, **shown}, anthropic_models.parse_page(query))
        except BadRequest as error:
            await exchange.respond(error.status, anthropic.render_error(error))
            return
        await exchange.respond(200, body)

    async def one(self, exchange: Exchange) -> None:
        """Respond with the model that the path names. Every name that is accepted in requests is accepted here."""
        name = unquote(exchange.path.partition("/models/")[2])
        try:
            info = await self._gateway.models.find(name, exchange.access)
        except GatewayError as error:
            if not is_anthropic(exchange):
                raise
            await fail(exchange, error, anthropic.render_error)
            return
        if is_anthropic(exchange):
            await exchange.respond(200, anthropic_models.render_model(name, info))
        else:
            await exchange.respond(200, openai_models.render_model(name, info, self._api_types))


def is_anthropic(exchange: Exchange) -> bool:
    """Return whether the client speaks Anthropic's API, which shares some paths with OpenAI's."""
    return b"anthropic-version" in exchange.headers
