"""Shares the inbox of this replica with the others, from when it joins the cluster until it leaves."""

from tieline.app.cluster.shared_inbox import DatabaseInbox
from tieline.core.inbox.inbox import Inbox


class Sharing:
    """Connects the inbox of this replica with the inboxes in the database."""

    def __init__(self, own_inbox: Inbox, inbox: DatabaseInbox) -> None:
        self._own_inbox = own_inbox
        self._inbox = inbox

    def start(self) -> None:
        """Begin to share. The event loop must be running."""
        self._inbox.start(self._own_inbox.others_changed)
        self._own_inbox.share(self._inbox)

    async def aclose(self) -> None:
        """Withdraw this replica's items and watchers."""
        await self._inbox.aclose()
