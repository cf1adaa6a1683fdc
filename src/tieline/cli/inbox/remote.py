"""The inbox and the saved permissions of a running gateway."""

from collections.abc import AsyncGenerator
from urllib.parse import quote

from tieline.cli.gateway_client import GatewayClient
from tieline.core.inbox.inbox import PendingItem
from tieline.model.content import Value
from tieline.model.inbox import Answer


class SavedRule(Value):
    """A saved permission: its id and its description."""

    id: str
    text: str


class SavedRules(Value):
    """The saved permissions for a workspace."""

    workspace: str
    rules: tuple[SavedRule, ...] = ()


class _ItemList(Value):
    items: tuple[PendingItem, ...] = ()


class RemoteInbox:
    """The inbox of a running gateway. On failure, methods raise GatewayError with a message for the user."""

    def __init__(self, client: GatewayClient) -> None:
        self._client = client

    async def items(self) -> tuple[PendingItem, ...]:
        """Return the waiting items."""
        return (await self._client.get("/api/inbox", _ItemList)).items

    async def watch(self) -> AsyncGenerator[tuple[PendingItem, ...], None]:
        """Yield all waiting items: once immediately, and again after every change until the gateway stops."""
        async for event in self._client.events("/api/inbox/watch"):
            yield self._client.decode(event.data, _ItemList).items

    async def decide(self, item_id: str, answer: Answer) -> None:
        """Answer an item."""
        await self._client.request("POST", f"/api/inbox/{quote(item_id, safe='')}", answer)

    async def rules(self) -> SavedRules:
        """Return the saved permissions."""
        return await self._client.get("/api/rules", SavedRules)

    async def revoke(self, rule_id: str) -> None:
        """Revoke a saved permission."""
        await self._client.request("DELETE", f"/api/rules/{quote(rule_id, safe='')}")
