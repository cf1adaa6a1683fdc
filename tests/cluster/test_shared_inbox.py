"""Tests for inbox items that are shown and answered through another replica than the one that holds them."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing
from itertools import count

import pytest

from tests.cluster.page_support import ANN, BOB, OWNER_KEYS, TWO_OWNERS, Asking, Person
from tests.cluster.support import DEMO, KEY, PATIENCE, cluster, until
from tests.postgres_server import PostgresServer
from tieline.app.cluster.shared_inbox import REMOVE_AFTER, DatabaseInbox
from tieline.app.config import Config, InboxSettings
from tieline.app.database.postgres import PostgresDatabase
from tieline.cli.chat.api import ChatApi
from tieline.cli.chat.conversation import Conversation
from tieline.cli.gateway_client import GatewayClient
from tieline.core.inbox.inbox import PendingItem
from tieline.model.inbox import Approval, ApprovalAnswer, Field, Origin, Question, QuestionAnswer
from tieline.model.scope import EVERYTHING, Scope
from tieline.net.client.http import HttpClient
from tieline.tasks import Tasks

SHORT = 1.0
"""Seconds until an item that is not watched times out."""
LS, RM = Approval(title="Run ls", command="ls"), Approval(title="Run rm", command="rm")
WHICH = Question(message="Which?", fields=(Field(name="one", required=True),))


@pytest.fixture
async def asking() -> AsyncIterator[Asking]:
    async with AsyncExitStack() as stack:
        yield Asking(stack)


async def test_an_item_is_listed_and_answered_through_another_replica(postgres_url: str, asking: Asking) -> None:
    async with cluster(postgres_url) as stand:
        first, second = stand.replicas
        person = Person(stand)
        async with person.watching(second) as events:
            answer = await asking.ask(first.app.gateway.inbox, LS)
            shown = await events.until(lambda event: event["items"])
            (item,) = shown["items"]
            assert (item["ask"]["command"], item["id"][:4]) == ("ls", first.tag)
            await person.call(second, "POST", f"/api/inbox/{item['id']}", {"option": "allow"})
            assert await answer == ApprovalAnswer(option="allow")
            await events.until(lambda event: not event["items"])
        assert await person.items(first) == []


async def test_the_chat_in_a_terminal_notices_an_item_of_another_replica(postgres_url: str, asking: Asking) -> None:
    async with cluster(postgres_url) as stand, AsyncExitStack() as stack:
        first, second = stand.replicas
        client = HttpClient()
        stack.push_async_callback(client.aclose)
        api = ChatApi(GatewayClient(client, second.url, KEY, name="test"))
        state = await api.state()
        chat = Conversation(await api.create(DEMO, None), state.seq, lambda: 0.0)
        messages = await stack.enter_async_context(aclosing(api.stream(state.seq)))
        async with asyncio.timeout(PATIENCE):
            await anext(messages)  # the inbox, which is empty
            answer = await asking.ask(first.app.gateway.inbox, LS, session=chat.summary.id)
            while not chat.items:
                seq, news = await anext(messages)
                assert news is not None
                list(chat.take(seq, news))
            await api.decide(chat.items[0].id, ApprovalAnswer(option="allow"))
            assert await answer == ApprovalAnswer(option="allow")


async def test_errors_of_a_forwarded_answer_are_those_of_its_replica(postgres_url: str, asking: Asking) -> None:
    async with cluster(postgres_url) as stand:
        first, second = stand.replicas
        person = Person(stand)
        answer = await asking.ask(first.app.gateway.inbox, WHICH)
        (item,) = first.app.gateway.inbox.items
        path = f"/api/inbox/{item.id}"
        wrong = {"action": "accept", "values": {"other": 1}}
        for replica in (first, second):
            refused = await person.call(replica, "POST", path, wrong, status=400)
            assert refused["error"]["param"] == "values.other"
            malformed = await person.call(replica, "POST", path, {"unknown": 1}, status=400)
            assert malformed["error"]["param"] == "type"
        await person.call(second, "POST", path, {"action": "accept", "values": {"one": "this"}})
        assert await answer == QuestionAnswer(action="accept", values={"one": "this"})
        gone = [await person.call(replica, "POST", path, wrong, status=404) for replica in (first, second)]
        assert gone[0] == gone[1]


async def test_an_item_does_not_time_out_while_it_is_watched_through_another_replica(
    postgres_url: str, asking: Asking
) -> None:
    async with cluster(postgres_url, config=Config(inbox=InboxSettings(timeout=SHORT))) as stand:
        first, second = stand.replicas
        person, inbox = Person(stand), first.app.gateway.inbox
        async with person.watching(second) as events:
            await until(lambda: inbox.is_watched)
            answer = await asking.ask(inbox, LS)
            shown = await events.until(lambda event: event["items"])
            assert "until" not in shown["items"][0]
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(2 * SHORT):
                    await asyncio.shield(answer)
        async with asyncio.timeout(PATIENCE):
            given = await answer
        assert isinstance(given, ApprovalAnswer)
        assert given.option is None


async def test_items_and_watchers_of_a_dead_replica_do_not_count(postgres_url: str, asking: Asking) -> None:
    async with cluster(postgres_url) as stand:
        first, second = stand.replicas
        person, inbox = Person(stand), second.app.gateway.inbox
        await asking.ask(first.app.gateway.inbox, LS)
        async with person.watching(first):
            await until(lambda: inbox.is_watched)
            await until(lambda: second.app.gateway.inbox.items_in(EVERYTHING))
            await first.cluster.aclose()
            await until(lambda: not inbox.is_watched)
            assert await person.items(second) == []


async def test_owners_see_and_answer_only_their_own_items(postgres_url: str, asking: Asking) -> None:
    async with cluster(postgres_url, config=TWO_OWNERS, env=OWNER_KEYS) as stand:
        first, second = stand.replicas
        ann, bob, admin = Person(stand, ANN), Person(stand, BOB), Person(stand)
        await asking.ask(first.app.gateway.inbox, LS, owner="ann")
        await asking.ask(second.app.gateway.inbox, RM, owner="bob")
        for replica in (first, second):
            await until(lambda replica=replica: len(replica.app.gateway.inbox.items_in(EVERYTHING)) == 2)
            assert await ann.items(replica) == ["Run ls"]
            assert await bob.items(replica) == ["Run rm"]
            assert await admin.items(replica) == ["Run ls", "Run rm"]
        (item,) = first.app.gateway.inbox.items
        for replica in (first, second):
            await bob.call(replica, "POST", f"/api/inbox/{item.id}", {"option": "allow"}, status=404)
        # Ann's items are not watched by Bob.
        async with bob.watching(second):
            await until(lambda: first.app.gateway.inbox.is_watched)
            assert [item.until for item in first.app.gateway.inbox.items] != [None]
        await ann.call(second, "POST", f"/api/inbox/{item.id}", {"option": "allow"})


async def test_items_are_answered_during_an_outage_of_the_database_and_shared_afterwards(
    postgres_server: PostgresServer, postgres_url: str, asking: Asking
) -> None:
    async with cluster(postgres_url) as stand:
        first, second = stand.replicas
        person = Person(stand)
        answer = await asking.ask(first.app.gateway.inbox, LS)
        (item,) = first.app.gateway.inbox.items
        await until(lambda: second.app.gateway.inbox.items_in(EVERYTHING))
        postgres_server.stop(signal.SIGKILL)
        try:
            await person.call(second, "POST", f"/api/inbox/{item.id}", {"option": "allow"})
            assert await answer == ApprovalAnswer(option="allow")
            await asking.ask(first.app.gateway.inbox, RM)
            assert await person.items(first) == ["Run rm"]
        finally:
            postgres_server.start()
        await until(lambda: [one.content for one in second.app.gateway.inbox.items_in(EVERYTHING)] == [RM])


async def test_rows_that_another_replica_has_removed_are_written_again(
    postgres_server: PostgresServer, postgres_url: str, asking: Asking
) -> None:
    async with cluster(postgres_url) as stand:
        first, second = stand.replicas
        await asking.ask(first.app.gateway.inbox, LS)
        await until(lambda: second.app.gateway.inbox.items_in(EVERYTHING))
        postgres_server.query(postgres_url, "DELETE FROM inbox_item; DELETE FROM inbox_watcher")
        count = "SELECT count(*) FROM inbox_item"
        await until(lambda: postgres_server.query(postgres_url, count) == "1")
        await until(lambda: second.app.gateway.inbox.items_in(EVERYTHING))


async def test_rows_of_a_replica_that_died_are_ignored_and_later_removed(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    database, tasks = PostgresDatabase(postgres_url), Tasks()
    dying = DatabaseInbox(database, "Died", tasks, is_alive=lambda _: True, interval=0.05, clock=lambda: 0.0)
    living = DatabaseInbox(database, "Live", tasks, is_alive=lambda _: True, interval=0.05, clock=lambda: 0.0)
    changed = asyncio.Event()
    dying.start(lambda: None)
    living.start(changed.set)
    dying.publish([PendingItem(id="Died1", origin=Origin(), content=LS, since=1.0)], [EVERYTHING])
    async with asyncio.timeout(PATIENCE):
        await changed.wait()
        await until(lambda: ([item.id for item in living.items], set(living.watchers)) == (["Died1"], {EVERYTHING}))
        changed.clear()
        clock = count(0.0, REMOVE_AFTER / 10).__next__
        await tasks.aclose()  # both stop without withdrawing anything
        living = DatabaseInbox(database, "Live", tasks, is_alive=lambda _: False, interval=0.05, clock=clock)
        living.start(changed.set)
        living.publish([], [Scope("ann")])
        both = "SELECT (SELECT count(*) FROM inbox_item), (SELECT count(*) FROM inbox_watcher)"
        await until(lambda: postgres_server.query(postgres_url, both) == "0|1")
        assert (living.items, set(living.watchers)) == ((), set())
    await living.aclose()
    await tasks.aclose()
    await database.aclose()
