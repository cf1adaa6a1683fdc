"""What replicas share through the database beside requests: the inbox, page sessions and the page's event stream."""

from tieline.app.cluster.shared_inbox import DatabaseInbox
from tieline.core.inbox.inbox import Inbox


class Sharing:
    """Shares the state of this replica while it is part of the cluster."""

    def __init__(self, own_inbox: Inbox, inbox: DatabaseInbox) -> None:
        self._own_inbox = own_inbox
        self._inbox = inbox

    def start(self) -> None:
        """Begin to share. The event loop must be running."""
        self._inbox.start(self._own_inbox.others_changed)
        self._own_inbox.share(self._inbox)

    async def aclose(self) -> None:
        """Withdraw what this replica shares."""
        await self._inbox.aclose()
